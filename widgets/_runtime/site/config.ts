/** `#raona-config`: what the build tells the page. */

import type { SiteConfig } from "../engine/protocol";
import type { WidgetDescription } from "../ui/describe";

export interface PageConfig extends Omit<SiteConfig, "runtime"> {
  /** Slug of the page, "widget/<id>" for a widget alone. */
  page: string;
  kind: "lesson" | "page";
  /** Only on pages with widgets. */
  runtime: SiteConfig["runtime"] | null;
  widgets: Record<string, WidgetDescription>;
}

export type WidgetPageConfig = PageConfig & SiteConfig;

export function readConfig(): PageConfig {
  return JSON.parse(document.getElementById("raona-config")?.textContent ?? "{}") as PageConfig;
}

export function hasWidgets(config: PageConfig): config is WidgetPageConfig {
  return config.runtime !== null;
}

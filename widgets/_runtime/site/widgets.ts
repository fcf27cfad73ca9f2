/** Brings the page's widgets to life: one runtime, one storage, each widget's own view if it has one. */

import { views } from "raona:views";
import { Runtime, runtimeConfig } from "../engine/runtime";
import type { Storage } from "../engine/storage";
import type { WidgetView } from "../ui/view";
import { hydrateWidgets } from "../ui/widget";
import type { WidgetPageConfig } from "./config";

export async function setUpWidgets(config: WidgetPageConfig, storage: Promise<Storage>): Promise<void> {
  const loaded: Record<string, WidgetView> = {};
  for (const id of Object.keys(config.widgets)) {
    const view = await views[id]?.();
    if (view) loaded[id] = view.default;
  }
  hydrateWidgets(config, new Runtime(runtimeConfig(config)), await storage, loaded);
}

/** Brings the server-rendered widgets of a page to life. */

import type { Runtime } from "../engine/runtime";
import type { Storage } from "../engine/storage";
import { Controller } from "./controller";
import type { WidgetDescription } from "./describe";
import { make } from "./dom";
import { fill, strings } from "./text";
import type { Cleanup, ViewModule } from "./view";

/** How near the viewport a widget must come before the runtime is fetched. */
const NEAR = "400px";

interface SavingConnection {
  saveData?: boolean;
}

/**
 * Hydrates every `section[data-widget]` of the page, whose descriptions stand in `widgets`. `views` fetches each
 * widgets/<id>/view.ts. Returns what undoes it.
 */
export function hydrateWidgets(
  widgets: Readonly<Record<string, WidgetDescription>>,
  runtime: Runtime,
  storage: Storage,
  views: Readonly<Record<string, () => Promise<ViewModule>>> = {},
): Cleanup {
  const linked = new URLSearchParams(location.search).get("w");
  const sections = [...document.querySelectorAll<HTMLElement>("section[data-widget]")];
  const owner = linkOwner(sections, linked);
  const controllers = sections.map((section) => {
    const id = section.dataset["widget"] ?? "";
    const description = widgets[id];
    if (!description) throw new Error(`#raona-config says nothing of the widget ${id}`);
    return new Controller({ section, description, runtime, storage, view: views[id], ownsLink: section === owner });
  });
  if (linked !== null && !owner && controllers.length > 0) refuseLink(linked);
  const notice = (message: string): void => {
    for (const controller of controllers) controller.notice(message);
  };
  const undo = [watchNear(controllers), runtime.onNotice(notice), storage.onNotice(notice)];
  return () => {
    for (const cleanup of [...undo, ...controllers.map((controller) => () => controller.close())]) cleanup();
  };
}

/** Of several sections with the widget that the address names, the one that its anchor names, as in a shared link. */
function linkOwner(sections: HTMLElement[], linked: string | null): HTMLElement | undefined {
  const named = sections.filter((section) => section.dataset["widget"] === linked);
  return named.find((section) => section.id === location.hash.slice(1)) ?? named[0];
}

function refuseLink(name: string): void {
  const short = name.length > 40 ? `${name.slice(0, 40)}…` : name;
  const message = fill(strings.link["unknown-widget"], { name: short });
  const main = document.querySelector("main") ?? document.body;
  main.prepend(make("div", { class: "widget-alert", role: "alert" }, message));
}

/** Prepares a widget, and with it the runtime, when it comes near; a reader who saves data has to press Run. */
function watchNear(controllers: Controller[]): Cleanup {
  const { connection } = navigator as Navigator & { connection?: SavingConnection };
  if (connection?.saveData || !("IntersectionObserver" in window)) return () => undefined;
  const bySection = new Map<Element, Controller>(controllers.map((controller) => [controller.section, controller]));
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        observer.unobserve(entry.target);
        void bySection.get(entry.target)?.prepare();
      }
    },
    { rootMargin: NEAR },
  );
  for (const section of bySection.keys()) observer.observe(section);
  return () => observer.disconnect();
}

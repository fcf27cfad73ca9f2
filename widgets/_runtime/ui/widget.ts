/** Brings the server-rendered widgets of a page to life. */

import type { Runtime } from "../engine/runtime";
import type { Storage } from "../engine/storage";
import { Controller } from "./controller";
import type { PageConfig } from "./describe";
import { make } from "./dom";
import { fill, strings } from "./text";
import type { Cleanup, WidgetView } from "./view";

export type { WidgetView };

/** How near the viewport a widget must come before the runtime is fetched. */
const NEAR = "400px";

interface SavingConnection {
  saveData?: boolean;
}

/**
 * Hydrates every `section[data-widget]` of the page. `views` holds the default export of each widgets/<id>/view.ts.
 * Returns what undoes it.
 */
export function hydrateWidgets(
  config: PageConfig,
  runtime: Runtime,
  storage: Storage,
  views: Readonly<Record<string, WidgetView>> = {},
): Cleanup {
  const linked = new URLSearchParams(location.search).get("w");
  let linkTaken = false;
  const controllers: Controller[] = [];
  for (const section of document.querySelectorAll<HTMLElement>("section[data-widget]")) {
    const id = section.dataset["widget"] ?? "";
    const description = config.widgets[id];
    if (!description) throw new Error(`#raona-config says nothing of the widget ${id}`);
    const owns: boolean = linked === id && !linkTaken;
    linkTaken ||= owns;
    controllers.push(new Controller({ section, description, runtime, storage, view: views[id], ownsLink: owns }));
  }
  if (linked !== null && !linkTaken && controllers.length > 0) refuseLink(linked);
  const stopWatching = watchNear(controllers);
  const stopListening = runtime.onNotice((message) => {
    (controllers.find(({ active }) => active) ?? controllers[0])?.notice(message);
  });
  return () => {
    stopWatching();
    stopListening();
    for (const controller of controllers) controller.close();
  };
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

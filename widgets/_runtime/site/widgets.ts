/** Brings the page's widgets to life: one runtime, one storage, each widget's own view if it has one. */

import { views } from "raona:views";
import { Runtime, runtimeConfig } from "../engine/runtime";
import type { Storage } from "../engine/storage";
import { hydrateWidgets } from "../ui/widget";
import type { WidgetPageConfig } from "./config";

export async function setUpWidgets(config: WidgetPageConfig, storage: Promise<Storage>): Promise<void> {
  hydrateWidgets(config.widgets, new Runtime(runtimeConfig(config)), await storage, views);
}

/**
 * What a widget may add to the common interface: widgets/<id>/view.ts exports one of these as its default.
 * As in anywidget, `initialize` runs once for a widget of a page and `render` once for each place it is drawn in;
 * both may return what undoes them.
 */

import type { Parameters, RunEvent } from "../engine/protocol";
import type { Runtime } from "../engine/runtime";
import type { Storage } from "../engine/storage";
import type { WidgetDescription } from "./describe";

export type Cleanup = () => void;

export type ViewEvent =
  | { type: "state"; state: WidgetState }
  | { type: "parameters"; parameters: Parameters }
  | { type: "run"; event: RunEvent };

export type WidgetState = "idle" | "loading" | "running" | "paused" | "done" | "error";

export interface ViewModel {
  readonly widget: WidgetDescription;
  readonly runtime: Runtime;
  readonly storage: Storage;
  readonly state: WidgetState;
  /** What the run that is on, or else the results shown, or else the controls, say. */
  parameters(): Parameters;
  on(listener: (event: ViewEvent) => void): Cleanup;
  /** Says something in the widget's polite live region. */
  announce(text: string): void;
  /** A string that no other element id of the page begins with. */
  readonly uid: string;
}

/** widgets/<id>/view.ts */
export interface ViewModule {
  default: WidgetView;
}

export interface WidgetView {
  initialize?(context: { model: ViewModel }): Cleanup | undefined;
  render(context: { model: ViewModel; element: HTMLElement }): Cleanup | undefined;
}

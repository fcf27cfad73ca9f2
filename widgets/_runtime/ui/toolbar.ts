/** The buttons: which are there in each state, and where the focus goes when the one that had it disappears. */

import type { WidgetState } from "./view";

export type Action = "run" | "pause" | "resume" | "stop" | "repeat" | "new-seed" | "share" | "code";

const SHOWN: Readonly<Record<WidgetState, readonly Action[]>> = {
  idle: ["run", "new-seed"],
  loading: ["stop"],
  running: ["pause", "stop"],
  paused: ["resume", "stop"],
  done: ["run", "repeat", "new-seed"],
  error: ["run", "new-seed"],
};
const ALWAYS: readonly Action[] = ["share", "code"];

export class Toolbar {
  private readonly buttons = new Map<Action, HTMLButtonElement>();
  /** Where this toolbar last put the focus: if it is still there, the reader has not chosen that button. */
  private placed: HTMLButtonElement | undefined;

  constructor(root: HTMLElement, act: (action: Action) => void) {
    for (const button of root.querySelectorAll<HTMLButtonElement>("button[data-action]")) {
      const action = button.dataset["action"] as Action;
      this.buttons.set(action, button);
      button.addEventListener("click", () => act(action));
    }
  }

  button(action: Action): HTMLButtonElement | undefined {
    return this.buttons.get(action);
  }

  text(action: Action, text: string): void {
    const label = this.buttons.get(action)?.querySelector("span");
    if (label) label.textContent = text;
  }

  show(state: WidgetState): void {
    const focused = [...this.buttons.values()].find((button) => button === document.activeElement);
    for (const [action, button] of this.buttons) {
      button.hidden = !SHOWN[state].includes(action) && !ALWAYS.includes(action);
    }
    if (!focused || !(focused.hidden || focused === this.placed)) return;
    this.placed = this.buttons.get(SHOWN[state][0] ?? "share");
    this.placed?.focus({ preventScroll: true });
  }
}

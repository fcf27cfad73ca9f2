/** The short notes under the controls: what is stale, restored, stopped, identical. Each key has one note. */

import { make } from "./dom";

export interface NoteAction {
  label: string;
  run(): void;
}

export class Notes {
  private readonly shown = new Map<string, HTMLElement>();

  constructor(private readonly host: HTMLElement) {}

  set(key: string, text: string, action?: NoteAction): void {
    const note = make("p", { class: "note", "data-note": key }, text);
    if (action) {
      const button = make("button", { type: "button", class: "link-button" }, action.label);
      button.addEventListener("click", () => action.run());
      note.append(" ", button);
    }
    const former = this.shown.get(key);
    if (former) former.replaceWith(note);
    else this.host.append(note);
    this.shown.set(key, note);
  }

  clear(...keys: string[]): void {
    for (const key of keys) {
      this.shown.get(key)?.remove();
      this.shown.delete(key);
    }
  }
}

/** The measured values: full precision for machines in `data-value`, Catalan for people. */

import type { Parameters } from "../engine/protocol";
import type { WidgetDescription } from "./describe";
import { setText } from "./dom";
import { formatNumber } from "./numbers";
import { fill } from "./text";

export class Readouts {
  private readonly places = new Map<string, HTMLElement>();

  constructor(
    root: HTMLElement,
    private readonly description: WidgetDescription,
  ) {
    for (const element of root.querySelectorAll<HTMLElement>("[data-readout]")) {
      this.places.set(element.dataset["readout"] ?? "", element);
    }
    for (const button of root.querySelectorAll<HTMLButtonElement>("[data-help]")) {
      button.addEventListener("click", () => toggleHelp(root, button));
    }
  }

  set(name: string, value: number | null): void {
    const place = this.places.get(name);
    if (!place) return;
    place.dataset["value"] = value === null ? "" : String(value);
    setText(place, this.text(name, value));
  }

  text(name: string, value: number | null | undefined): string {
    return formatNumber(value, this.description.labels.readouts[name]?.format ?? "number");
  }

  /** Fills the parameters in the labels that name them; the help's button stays with the last word. */
  label(parameters: Parameters): void {
    for (const [name, { live }] of Object.entries(this.description.labels.readouts)) {
      const host = this.places.get(name)?.parentElement?.querySelector("[data-label]");
      if (live === undefined || !host) continue;
      const values: Record<string, string> = {};
      for (const parameter of this.description.parameters) {
        const value = Number(parameters[parameter.name]);
        values[parameter.name] = formatNumber(value, "integer");
      }
      const text = fill(live, values);
      const at = text.lastIndexOf(" ");
      const spans = [...host.querySelectorAll<HTMLElement>(":scope > span:not(.help-word), .help-word > span")];
      const parts = spans.length === 2 ? [text.slice(0, at), text.slice(at + 1)] : [text];
      spans.forEach((span, index) => setText(span, parts[index] ?? ""));
    }
  }

  all(values: Readonly<Record<string, number | null>>): void {
    for (const name of this.places.keys()) this.set(name, values[name] ?? null);
  }
}

function toggleHelp(root: HTMLElement, button: HTMLButtonElement): void {
  const help = root.querySelector<HTMLElement>(`#${CSS.escape(button.getAttribute("aria-controls") ?? "")}`);
  if (!help) return;
  help.hidden = !help.hidden;
  button.setAttribute("aria-expanded", String(!help.hidden));
}

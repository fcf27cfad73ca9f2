/** The measured values: full precision for machines in `data-value`, Catalan for people. */

import type { WidgetDescription } from "./describe";
import { setText } from "./dom";
import { formatNumber } from "./numbers";

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

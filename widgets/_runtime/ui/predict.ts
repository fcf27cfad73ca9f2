/** Predict, then run: the reader's bet, closed while a run is on and compared with that run. */

import type { PredictLabels } from "./describe";
import { maybePart } from "./dom";
import { formatNumber } from "./numbers";
import { fill, strings } from "./text";

export type Prediction = string | number | null;

export class PredictView {
  private readonly host: HTMLFieldSetElement | null;
  private readonly output: HTMLElement | null;
  private touched = false;

  constructor(
    root: HTMLElement,
    private readonly labels: PredictLabels | undefined,
  ) {
    this.host = maybePart<HTMLFieldSetElement>(root, "predict");
    this.output = maybePart(root, "prediction");
    this.host?.addEventListener("input", () => {
      this.touched = true;
      this.show();
    });
  }

  get value(): Prediction {
    if (!this.host || !this.labels) return null;
    if (this.labels.kind === "choice") {
      return this.host.querySelector<HTMLInputElement>("input:checked")?.value ?? null;
    }
    const slider = this.host.querySelector<HTMLInputElement>("input");
    return this.touched && slider ? Number(slider.value) : null;
  }

  set value(prediction: Prediction) {
    if (!this.host || !this.labels) return;
    for (const input of this.host.querySelectorAll("input")) {
      if (this.labels.kind === "choice") input.checked = input.value === prediction;
      else if (typeof prediction === "number") input.value = String(prediction);
    }
    this.touched = prediction !== null;
    this.show();
  }

  lock(locked: boolean): void {
    if (!this.host) return;
    this.host.disabled = locked;
    if (locked) this.host.title = strings.predict.locked;
    else this.host.removeAttribute("title");
  }

  /** What came of the bet, in words; null if this widget asks for none. */
  verdict(
    prediction: unknown,
    outcome: string | null,
    readouts: Readonly<Record<string, number | null>>,
  ): { text: string; right: boolean | null } | null {
    const labels = this.labels;
    if (!labels) return null;
    if (typeof prediction !== "string" && typeof prediction !== "number") {
      return { text: strings.predict.none, right: null };
    }
    if (labels.kind === "choice") {
      const text = (value: unknown): string | undefined => labels.options.find((option) => option.value === value)?.text;
      const predicted = text(prediction);
      const actual = text(outcome);
      if (predicted === undefined || actual === undefined) return null;
      const right = prediction === outcome;
      return { text: fill(right ? labels.right : labels.wrong, { predicted, actual }), right };
    }
    const readout = readouts[labels.readout];
    if (typeof prediction !== "number" || readout === null || readout === undefined) return null;
    const actual = labels.unit === "%" ? readout * 100 : readout;
    const right = Math.abs(prediction - actual) <= labels.tolerance;
    const values = { predicted: this.text(prediction), actual: this.text(actual) };
    return { text: fill(right ? labels.right : labels.wrong, values), right };
  }

  private show(): void {
    const slider = this.host?.querySelector<HTMLInputElement>("input[type=range]");
    if (!slider) return;
    const text = this.touched ? this.text(Number(slider.value)) : strings.predict.untouched;
    slider.setAttribute("aria-valuetext", text);
    if (this.output) this.output.textContent = text;
  }

  private text(value: number): string {
    const unit = this.labels?.kind === "range" ? this.labels.unit : undefined;
    if (unit === "%") return formatNumber(value, "percent-value");
    return formatNumber(value, "number") + (unit ? `\u00a0${unit}` : "");
  }
}

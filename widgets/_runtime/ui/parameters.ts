/** Parameters: how a value is checked, read from a native control, shown, and carried in a link. */

import type { Parameters, Value } from "../engine/protocol";
import type { ParameterDescription, ParameterLabels, WidgetDescription } from "./describe";
import { formatNumber, readNumber } from "./numbers";
import { fill, strings } from "./text";

export type Checked = { ok: true; value: Value } | { ok: false; message: string };

/** Checks the value of a native control or of a link; for one typed in a text field, give `parseNumber` to read it. */
export function checkValue(
  parameter: ParameterDescription,
  labels: ParameterLabels | undefined,
  raw: string,
  read: (text: string) => number = readNumber,
): Checked {
  const label = labels?.label ?? parameter.name;
  const text = raw.trim();
  if (parameter.kind === "choice") {
    const option = parameter.options.find((candidate) => String(candidate) === text);
    if (option !== undefined) return { ok: true, value: option };
    const options = parameter.options.map((candidate) => labels?.options?.[String(candidate)] ?? String(candidate));
    return { ok: false, message: fill(strings.parameters.choice, { label, options: options.join("; "), value: text }) };
  }
  const { kind, minimum, maximum, step } = parameter;
  const value = read(text);
  const integer = kind !== "number";
  if (Number.isNaN(value) || value < minimum || value > maximum || (integer && !Number.isInteger(value))) {
    const template = integer ? strings.parameters.integer : strings.parameters.number;
    const range = { minimum: show(minimum), maximum: show(maximum) };
    return { ok: false, message: fill(template, { label, ...range, value: text }) };
  }
  const steps = (value - minimum) / step;
  if (Math.abs(steps - Math.round(steps)) > 1e-6) {
    const values = { label, step: show(step), minimum: show(minimum), value: text };
    return { ok: false, message: fill(strings.parameters.step, values) };
  }
  return { ok: true, value };
}

/** The value as a reader sees it: the option's text, or a Catalan number with its unit. */
export function valueText(parameter: ParameterDescription, labels: ParameterLabels | undefined, value: Value): string {
  if (parameter.kind === "choice") return labels?.options?.[String(value)] ?? String(value);
  if (typeof value !== "number" || parameter.name === "seed") return String(value); // a seed is a name
  if (parameter.kind === "percent") return formatNumber(value, "percent-value");
  const text = parameter.kind === "integer" ? formatNumber(value, "integer") : formatNumber(value, "number");
  return labels?.unit ? `${text}\u00a0${labels.unit}` : text;
}

export function defaults(description: WidgetDescription): Parameters {
  return Object.fromEntries(description.parameters.map((parameter) => [parameter.name, parameter.default]));
}

/** Names of the parameters in which two sets differ, in the order of the description. */
export function differing(description: WidgetDescription, a: Parameters, b: Parameters): ParameterDescription[] {
  return description.parameters.filter(({ name }) => a[name] !== b[name]);
}

/** The native controls of one widget. */
export class Controls {
  constructor(
    private readonly host: HTMLElement,
    private readonly description: WidgetDescription,
  ) {}

  control(name: string): HTMLInputElement | HTMLSelectElement {
    const control = this.host.querySelector<HTMLInputElement | HTMLSelectElement>(`[name="${CSS.escape(name)}"]`);
    if (!control) throw new Error(`theme/widget.html has no control for the parameter ${name}`);
    return control;
  }

  /** The values in the controls, or the first mistake and where it is. */
  read(): { ok: true; values: Parameters } | { ok: false; message: string; control: HTMLElement } {
    const values: Parameters = {};
    let mistake: { message: string; control: HTMLElement } | undefined;
    for (const parameter of this.description.parameters) {
      const control = this.control(parameter.name);
      const checked = checkValue(parameter, this.description.labels.parameters[parameter.name], control.value);
      control.toggleAttribute("aria-invalid", false);
      if (checked.ok) values[parameter.name] = checked.value;
      else {
        control.setAttribute("aria-invalid", "true");
        mistake ??= { message: checked.message, control };
      }
    }
    return mistake ? { ok: false, ...mistake } : { ok: true, values };
  }

  write(values: Parameters): void {
    for (const parameter of this.description.parameters) {
      const value = values[parameter.name];
      if (value === undefined) continue;
      const control = this.control(parameter.name);
      control.value = String(value);
      control.removeAttribute("aria-invalid");
      this.show(parameter.name);
    }
  }

  /** Brings the text beside a slider, and what a screen reader says of it, up to date. */
  show(name: string): void {
    const parameter = this.description.parameters.find((candidate) => candidate.name === name);
    const control = this.control(name);
    if (!parameter || control.type !== "range") return;
    const text = valueText(parameter, this.description.labels.parameters[name], Number(control.value));
    control.setAttribute("aria-valuetext", text);
    const output = control.parentElement?.querySelector("output");
    if (output) output.textContent = text;
  }

  /** While a run is on, what it was started with cannot change; what only rereads can. */
  lock(locked: boolean): void {
    for (const parameter of this.description.parameters) {
      if (parameter.rereads) continue;
      const control = this.control(parameter.name);
      control.disabled = locked;
      if (locked) control.title = strings.parameters.locked;
      else control.removeAttribute("title");
    }
  }
}

function show(value: number): string {
  return formatNumber(value, Number.isInteger(value) ? "integer" : "number");
}

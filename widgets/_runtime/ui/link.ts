/** A widget's settings in the page's address: `?w=cot&seed=7&k=9`. */

import type { Parameters } from "../engine/protocol";
import type { WidgetDescription } from "./describe";
import { checkValue } from "./parameters";
import { fill, strings } from "./text";

/** Keys that other parts of the page, or the sites that link to it, put there. */
const FOREIGN = /^(w|embed|utm_.*|fbclid|gclid|mc_.*|ref)$/;

export interface LinkState {
  /** The valid parameters that the link carries; the others keep their values. */
  values: Parameters;
  problems: string[];
}

/** The settings of the widget that `search` names with `w`. */
export function readLink(search: string, description: WidgetDescription): LinkState {
  const query = new URLSearchParams(search);
  const state: LinkState = { values: {}, problems: [] };
  for (const name of new Set(query.keys())) {
    if (FOREIGN.test(name)) continue;
    const parameter = description.parameters.find((candidate) => candidate.name === name);
    const raw = query.getAll(name);
    if (!parameter) {
      state.problems.push(fill(strings.link["unknown-parameter"], { name: clip(name) }));
    } else if (raw.length > 1) {
      state.problems.push(fill(strings.link.repeated, { name }));
    } else {
      const checked = checkValue(parameter, description.labels.parameters[name], clip(raw[0] ?? ""));
      if (checked.ok) state.values[name] = checked.value;
      else state.problems.push(checked.message);
    }
  }
  return state;
}

/**
 * The page's address with every setting of a widget in it; `anchor` brings the reader to the widget. What is shared
 * opens as a page of its own; the address bar of an embedded widget stays embedded (`keepEmbed`).
 */
export function writeLink(address: string, widget: string, values: Parameters, anchor: string, keepEmbed = false): string {
  const url = new URL(address);
  const embed = keepEmbed ? url.searchParams.get("embed") : null;
  url.search = "";
  url.searchParams.set("w", widget);
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, String(value));
  if (embed !== null) url.searchParams.set("embed", embed);
  url.hash = anchor;
  return url.href;
}

function clip(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

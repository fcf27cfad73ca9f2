/** What a widget says of itself: `Widget.describe()` of widgets/_runtime/registry.py, with its Catalan texts. */

import type { Value } from "../engine/protocol";
import type { NumberFormat } from "./numbers";

export type ParameterDescription =
  | { name: string; kind: "choice"; default: Value; options: Value[]; rereads: boolean }
  | {
      name: string;
      kind: "integer" | "number" | "percent";
      default: number;
      minimum: number;
      maximum: number;
      step: number;
      rereads: boolean;
    };

export interface WidgetDescription {
  id: string;
  parameters: ParameterDescription[];
  readouts: string[];
  series: string[];
  asides: Record<string, { parameters: ParameterDescription[] }>;
  labels: WidgetLabels;
  backend: string;
}

export interface ParameterLabels {
  label: string;
  help?: string;
  unit?: string;
  options?: Record<string, string>;
}

export interface AxisLabels {
  label: string;
  format: NumberFormat;
  minimum?: number;
  maximum?: number;
  /** Name of a parameter whose present value is marked on the axis. */
  parameter?: string;
}

export interface PanelLabels {
  id: string;
  title: string;
  series: string[];
  x: AxisLabels;
  y: AxisLabels;
}

export interface SeriesLabels {
  label: string;
  colour: string;
  dash?: boolean;
}

export type PredictLabels =
  | { kind: "choice"; question: string; options: { value: string; text: string }[]; right: string; wrong: string }
  | {
      kind: "range";
      question: string;
      readout: string;
      tolerance: number;
      minimum: number;
      maximum: number;
      unit?: string;
      right: string;
      wrong: string;
    };

export interface WidgetLabels {
  title: string;
  question: string;
  predict?: PredictLabels;
  parameters: Record<string, ParameterLabels>;
  stages: Record<string, string>;
  series: Record<string, SeriesLabels>;
  /** `live`: the label that says how the samples are read, with the parameters that it names filled in. */
  readouts: Record<string, { label: string; format: NumberFormat; help?: string; live?: string }>;
  /** Templates of the explanation's parts. */
  notes?: Record<string, string>;
  panels: PanelLabels[];
  asides?: Record<string, Record<string, unknown>>;
}

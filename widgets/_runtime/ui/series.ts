/** The points that a run has reported so far, by series, and how their axes are written. */

import type { Point } from "../engine/protocol";
import type { PanelLabels, WidgetLabels } from "./describe";
import { formatNumber } from "./numbers";
import { fill, strings } from "./text";

export type SeriesData = Record<string, Point[]>;

/** The panel in which a series is drawn. */
export function panelOf(labels: WidgetLabels, series: string): PanelLabels | undefined {
  return labels.panels.find((panel) => panel.series.includes(series));
}

export function xText(panel: PanelLabels, x: number): string {
  return formatNumber(x, panel.x.format);
}

export function yText(panel: PanelLabels, y: number): string {
  return formatNumber(y, panel.y.format);
}

/** Every x of a panel's series, ascending, without repeats: where the cursor can stand. */
export function stops(panel: PanelLabels, data: SeriesData): number[] {
  const all = panel.series.flatMap((name) => (data[name] ?? []).map(([x]) => x));
  return [...new Set(all)].sort((a, b) => a - b);
}

/** What stands at `x`, in words: "passos d'entrenament: 250; amb raonament: 31 %; resposta directa: 4 %". */
export function describeAt(labels: WidgetLabels, panel: PanelLabels, data: SeriesData, x: number): string {
  const at = (label: string, value: string): string => fill(strings.chart.at, { label, value });
  const parts = [at(panel.x.label, xText(panel, x))];
  for (const name of panel.series) {
    const point = data[name]?.find(([candidate]) => candidate === x);
    if (point) parts.push(at(labels.series[name]?.label ?? name, yText(panel, point[1])));
  }
  return parts.join("; ");
}

/** The text that stands in for the drawing: where each curve starts and ends. */
export function summarise(labels: WidgetLabels, panel: PanelLabels, data: SeriesData): string {
  const parts: string[] = [];
  for (const name of panel.series) {
    const points = data[name] ?? [];
    const first = points[0];
    const last = points[points.length - 1];
    if (!first || !last) continue;
    const series = labels.series[name]?.label ?? name;
    const x = fill(strings.chart.at, { label: panel.x.label, value: xText(panel, last[0]) });
    parts.push(
      points.length === 1
        ? fill(strings.chart["summary-one"], { series, value: yText(panel, last[1]), x })
        : fill(strings.chart.summary, { series, first: yText(panel, first[1]), last: yText(panel, last[1]) }),
    );
  }
  return parts.length > 0 ? parts.join(" ") : strings.chart.empty;
}

/**
 * The live chart of one panel, drawn with Observable Plot: direct labels at the end of each curve, earlier runs
 * faintly behind, and a cursor for pointer, finger and arrow keys whose value a screen reader speaks. This module is
 * a chunk of its own, fetched before the runtime so that a page that is ready needs the network no more.
 */

import * as Plot from "@observablehq/plot";

import type { Point } from "../engine/protocol";
import type { PanelLabels, WidgetLabels } from "./describe";
import { setText } from "./dom";
import { describeAt, stops, type SeriesData, xText, yText } from "./series";
import { fill, strings } from "./text";

export interface ChartData {
  series: SeriesData;
  /** Series of earlier runs, newest first. */
  previous: SeriesData[];
  /** Present value of the parameter that the x axis stands for, and its text. */
  marker?: { x: number; text: string };
}

export interface Chart {
  update(data: ChartData): void;
  destroy(): void;
}

interface Label {
  name: string;
  lines: string[];
  x: number;
  /** Where the curve ends and where its label stands, in pixels from the top. */
  end: number;
  at: number;
}

const FONT_PIXELS = 12.5;
const LINE_PIXELS = 14;
const MARGIN_TOP = 36;
const MARGIN_BOTTOM = 40;
const MARGIN_LEFT = 44;

/** Mounts a chart in `host` (the panel's `[data-part=plot]`); `values` shows what stands under the cursor. */
export function createChart(host: HTMLElement, values: HTMLElement, panel: PanelLabels, labels: WidgetLabels): Chart {
  return new PanelChart(host, values, panel, labels);
}

class PanelChart implements Chart {
  private data: ChartData = { series: {}, previous: [] };
  private cursor: number | null = null;
  private svg: (SVGSVGElement | HTMLElement) & Plot.Plot | null = null;
  private width = 0;
  private pen: CanvasRenderingContext2D | null = null;
  private readonly resize: ResizeObserver;
  private readonly listeners = new AbortController();

  constructor(
    private readonly host: HTMLElement,
    private readonly values: HTMLElement,
    private readonly panel: PanelLabels,
    private readonly labels: WidgetLabels,
  ) {
    host.tabIndex = 0;
    host.setAttribute("role", "slider");
    host.setAttribute("aria-orientation", "horizontal");
    host.setAttribute("aria-label", fill(strings.chart.cursor, { title: panel.title }));
    const signal = this.listeners.signal;
    host.addEventListener("keydown", (event) => this.onKey(event), { signal });
    host.addEventListener("focus", () => this.onFocus(), { signal });
    host.addEventListener("pointermove", (event) => this.onPointer(event), { signal });
    host.addEventListener("pointerdown", (event) => this.onPointer(event), { signal });
    this.resize = new ResizeObserver(() => {
      if (Math.round(host.clientWidth) !== this.width) this.draw();
    });
    this.resize.observe(host);
    this.speak();
  }

  update(data: ChartData): void {
    this.data = data;
    const places = stops(this.panel, data.series);
    if (this.cursor !== null && !places.includes(this.cursor)) this.cursor = places[places.length - 1] ?? null;
    this.draw();
    this.speak();
  }

  destroy(): void {
    this.resize.disconnect();
    this.listeners.abort();
    this.host.replaceChildren();
  }

  // ---------------------------------------------------------------- the cursor

  private onFocus(): void {
    if (this.cursor !== null) return;
    const places = stops(this.panel, this.data.series);
    const marked = this.data.marker?.x;
    this.move(marked !== undefined && places.includes(marked) ? marked : (places[places.length - 1] ?? null));
  }

  private onKey(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const places = stops(this.panel, this.data.series);
    if (places.length === 0) return;
    const at = this.cursor === null ? places.length - 1 : places.indexOf(this.cursor);
    const page = Math.max(2, Math.round(places.length / 5));
    const steps: Record<string, number> = {
      ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1,
      PageUp: at + page, PageDown: at - page, Home: 0, End: places.length - 1,
    };
    const target = steps[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.move(places[Math.min(places.length - 1, Math.max(0, target))] ?? null);
  }

  private onPointer(event: PointerEvent): void {
    const scale = this.svg?.scale("x");
    if (!this.svg || !scale?.invert) return;
    const box = this.svg.getBoundingClientRect();
    const x = Number(scale.invert(((event.clientX - box.left) * this.width) / box.width));
    const places = stops(this.panel, this.data.series);
    let nearest: number | null = null;
    for (const place of places) {
      if (nearest === null || Math.abs(place - x) < Math.abs(nearest - x)) nearest = place;
    }
    this.move(nearest);
  }

  private move(x: number | null): void {
    if (x === this.cursor) return;
    this.cursor = x;
    this.draw();
    this.speak();
  }

  private speak(): void {
    const places = stops(this.panel, this.data.series);
    const at = this.cursor === null ? -1 : places.indexOf(this.cursor);
    const text =
      this.cursor === null
        ? strings.chart.empty
        : describeAt(this.labels, this.panel, this.data.series, this.cursor);
    this.host.setAttribute("aria-valuemin", "0");
    this.host.setAttribute("aria-valuemax", String(Math.max(0, places.length - 1)));
    this.host.setAttribute("aria-valuenow", String(Math.max(0, at)));
    this.host.setAttribute("aria-valuetext", places.length > 0 && this.cursor === null ? this.panel.title : text);
    // Before anybody moves the cursor: what stands at the parameter's mark, or where the curves have got to.
    const marked = this.data.marker?.x;
    const rest = marked !== undefined && places.includes(marked) ? marked : places[places.length - 1];
    const seen = this.cursor ?? rest;
    setText(this.values, seen === undefined ? "" : describeAt(this.labels, this.panel, this.data.series, seen));
  }

  // ---------------------------------------------------------------- the drawing

  private draw(): void {
    const width = Math.round(this.host.clientWidth);
    if (width === 0) return;
    this.width = width;
    const svg = this.plot(width);
    svg.setAttribute("aria-hidden", "true");
    this.host.replaceChildren(svg);
    this.svg = svg;
  }

  private plot(width: number): (SVGSVGElement | HTMLElement) & Plot.Plot {
    const { panel, labels, data } = this;
    const narrow = width < 360;
    const height = Math.round(Math.min(330, Math.max(230, width * 0.62)));
    const wrapped = Object.fromEntries(
      panel.series.map((name) => [name, wrap(labels.series[name]?.label ?? name, narrow ? 12 : 17)]),
    );
    const marginRight = Math.ceil(Math.max(...Object.values(wrapped).flat().map((line) => this.measure(line)))) + 14;
    const yDomain = this.domain("y");
    const xDomain = this.domain("x");
    const placed = this.placeLabels(wrapped, yDomain, height);
    const shares = panel.y.format === "percent" && yDomain[1] <= 1;
    const yTicks = shares ? [0, 0.25, 0.5, 0.75, 1].filter((y) => y >= yDomain[0] && y <= yDomain[1]) : undefined;
    const present = panel.series.filter((name) => (data.series[name] ?? []).length > 0);

    return Plot.plot({
      width,
      height,
      marginTop: MARGIN_TOP,
      marginBottom: MARGIN_BOTTOM,
      marginLeft: MARGIN_LEFT,
      marginRight,
      style: { background: "none", color: "var(--ink-faint)", fontFamily: "var(--font-ui)", fontSize: `${FONT_PIXELS}px`, overflow: "visible" },
      x: { domain: xDomain, label: null },
      y: { domain: yDomain, label: null },
      marks: [
        Plot.gridY({ ticks: yTicks ?? 5, stroke: "var(--line)", strokeOpacity: 1 }),
        Plot.axisY({ ticks: yTicks ?? 5, tickSize: 0, tickFormat: (y: number) => yText(panel, y) }),
        Plot.axisX({
          ticks: this.xTicks(xDomain, width - MARGIN_LEFT - marginRight),
          tickSize: 4,
          tickFormat: (x: number) => xText(panel, x),
        }),
        Plot.text([panel.x.label], { frameAnchor: "bottom", dy: 34, lineAnchor: "bottom", text: (text: string) => text }),
        Plot.text([panel.y.label], { frameAnchor: "top-left", dx: -MARGIN_LEFT + 2, dy: -MARGIN_TOP, lineAnchor: "top", textAnchor: "start", text: (text: string) => text }),
        ...this.markerMarks(),
        ...data.previous.flatMap((former) =>
          panel.series.map((name) => this.line(former[name] ?? [], name, { strokeWidth: 1.25, strokeOpacity: 0.3 })),
        ),
        ...present.map((name) => this.line(data.series[name] ?? [], name, { strokeWidth: 2.25 })),
        ...present.map((name) =>
          Plot.dot(data.series[name] ?? [], {
            x: (point: Point) => point[0], y: (point: Point) => point[1], r: 2.6,
            fill: labels.series[name]?.dash ? "var(--surface)" : colour(labels, name), stroke: colour(labels, name),
          }),
        ),
        ...this.labelMarks(placed, yDomain, height),
        ...this.cursorMarks(present),
        // Between two lines of the grid.
        ...(present.length === 0 ? [Plot.text([strings.chart.empty], { frameAnchor: "middle", dy: -(height - MARGIN_TOP - MARGIN_BOTTOM) / 8, text: (text: string) => text, fill: "var(--ink-faint)", stroke: "var(--surface)", strokeWidth: 12 })] : []),
      ],
    });
  }

  private line(points: Point[], name: string, options: { strokeWidth: number; strokeOpacity?: number }): Plot.Markish {
    return Plot.line(points, {
      x: (point: Point) => point[0],
      y: (point: Point) => point[1],
      stroke: colour(this.labels, name),
      strokeLinejoin: "round",
      ...(this.labels.series[name]?.dash ? { strokeDasharray: "6 4" } : {}),
      ...options,
    });
  }

  private markerMarks(): Plot.Markish[] {
    const marker = this.data.marker;
    const [minimum, maximum] = this.domain("x");
    if (!marker || marker.x < minimum || marker.x > maximum) return [];
    return [
      Plot.ruleX([marker.x], { stroke: "var(--accent)", strokeDasharray: "2 3", strokeOpacity: 0.9 }),
      Plot.text([marker], {
        x: (mark: typeof marker) => mark.x, frameAnchor: "top", dy: -6, lineAnchor: "bottom",
        text: (mark: typeof marker) => mark.text, fill: "var(--accent)", fontWeight: 600,
      }),
    ];
  }

  private cursorMarks(present: string[]): Plot.Markish[] {
    const x = this.cursor;
    if (x === null) return [];
    const points = present.flatMap((name) =>
      (this.data.series[name] ?? []).filter((point) => point[0] === x).map((point) => ({ name, point })),
    );
    return [
      Plot.ruleX([x], { stroke: "var(--ink)", strokeOpacity: 0.5 }),
      Plot.dot(points, {
        x: (mark: { point: Point }) => mark.point[0], y: (mark: { point: Point }) => mark.point[1], r: 5,
        fill: (mark: { name: string }) => colour(this.labels, mark.name), stroke: "var(--surface)", strokeWidth: 2,
      }),
    ];
  }

  private labelMarks(placed: Label[], yDomain: [number, number], height: number): Plot.Markish[] {
    const y = (pixels: number): number => inverse(pixels, yDomain, height);
    return placed.flatMap((label) => [
      ...(Math.abs(label.at - label.end) > 9
        ? [Plot.link([label], {
            x1: (mark: Label) => mark.x, x2: (mark: Label) => mark.x, y1: (mark: Label) => y(mark.end), y2: (mark: Label) => y(mark.at),
            dx: 6, stroke: colour(this.labels, label.name), strokeOpacity: 0.6,
          })]
        : []),
      Plot.text([label], {
        x: (mark: Label) => mark.x, y: (mark: Label) => y(mark.at), dx: 10, textAnchor: "start", lineHeight: LINE_PIXELS / FONT_PIXELS,
        text: (mark: Label) => mark.lines.join("\n"), fill: colour(this.labels, label.name), fontWeight: 600,
        stroke: "var(--surface)", strokeWidth: 3,
      }),
    ]);
  }

  /** Puts each label beside the end of its curve, and moves those that would touch apart. */
  private placeLabels(wrapped: Record<string, string[]>, yDomain: [number, number], height: number): Label[] {
    const placed: Label[] = [];
    for (const name of this.panel.series) {
      const points = this.data.series[name] ?? [];
      const last = points[points.length - 1];
      if (!last) continue;
      const end = pixel(last[1], yDomain, height);
      placed.push({ name, lines: wrapped[name] ?? [], x: last[0], end, at: end });
    }
    placed.sort((a, b) => a.end - b.end);
    const half = (label: Label): number => (label.lines.length * LINE_PIXELS) / 2 + 2;
    const top = MARGIN_TOP - 6; // above it, the text of the mark
    const bottom = height - MARGIN_BOTTOM + 4;
    for (let pass = 0; pass < 40; pass += 1) {
      let moved = false;
      placed.forEach((label, index) => {
        const next = placed[index + 1];
        if (next) {
          const overlap = label.at + half(label) + half(next) - next.at;
          if (overlap > 0.5) {
            label.at -= overlap / 2;
            next.at += overlap / 2;
            moved = true;
          }
        }
        const inside = Math.min(bottom - half(label), Math.max(top + half(label), label.at));
        if (Math.abs(inside - label.at) > 0.5) {
          label.at = inside;
          moved = true;
        }
      });
      if (!moved) break;
    }
    return placed;
  }

  /** Width in pixels of a direct label's line. */
  private measure(text: string): number {
    this.pen ??= document.createElement("canvas").getContext("2d");
    if (!this.pen) return text.length * FONT_PIXELS * 0.6;
    this.pen.font = `600 ${FONT_PIXELS}px ${getComputedStyle(this.host).fontFamily}`;
    return this.pen.measureText(text).width;
  }

  private domain(axis: "x" | "y"): [number, number] {
    const { minimum, maximum } = this.panel[axis];
    const index = axis === "x" ? 0 : 1;
    const all = [this.data.series, ...this.data.previous].flatMap((series) =>
      this.panel.series.flatMap((name) => (series[name] ?? []).map((point) => point[index])),
    );
    const low = minimum ?? (all.length > 0 ? Math.min(...all) : 0);
    const high = maximum ?? (all.length > 0 ? Math.max(...all) : 1);
    return low < high ? [low, high] : [low, low + 1];
  }

  private xTicks([low, high]: [number, number], width: number): number[] {
    const format = this.panel.x.format;
    const widest = Math.max(this.measure(xText(this.panel, low)), this.measure(xText(this.panel, high)));
    const most = Math.max(2, Math.floor(width / (widest + 18)));
    // On the data, if it stands at regular places: every one, or every second one …, counted from the last.
    const places = [...new Set([this.data.series, ...this.data.previous].flatMap((series) => stops(this.panel, series)))].sort((a, b) => a - b);
    const [one, two] = places;
    if (one !== undefined && two !== undefined) {
      const grid = Array.from({ length: Math.floor((high - one) / (two - one) + 1e-9) + 1 }, (_, index) => one + index * (two - one));
      const stride = Math.ceil((grid.length - 1) / most);
      const ticks = grid.filter((_, index) => (grid.length - 1 - index) % stride === 0);
      const room = (((ticks[0] ?? one) - one) / (high - low)) * width;
      return room > widest + 4 ? [one, ...ticks] : ticks;
    }
    const steps = [1, 2, 2.5, 5, 10].flatMap((step) => [-3, -2, -1, 0, 1, 2, 3, 4, 5].map((power) => step * 10 ** power));
    const whole = format === "integer" || format === "year";
    const step = steps
      .filter((candidate) => !whole || Number.isInteger(candidate))
      .sort((a, b) => a - b)
      .find((candidate) => (high - low) / candidate <= most);
    if (step === undefined) return [low, high];
    const ticks: number[] = [];
    // A whole axis that starts at 1 counts things: 1, 3, 5 … reads better than 0, 2, 4 …
    const first = whole && low === 1 ? 1 : Math.ceil(low / step) * step;
    for (let tick = first; tick <= high + step * 1e-9; tick += step) ticks.push(Number(tick.toPrecision(12)));
    return ticks;
  }
}

function colour(labels: WidgetLabels, series: string): string {
  return `var(--series-${labels.series[series]?.colour ?? series})`;
}

function pixel(y: number, [low, high]: [number, number], height: number): number {
  const span = height - MARGIN_TOP - MARGIN_BOTTOM;
  return MARGIN_TOP + (1 - (y - low) / (high - low)) * span;
}

function inverse(pixels: number, [low, high]: [number, number], height: number): number {
  const span = height - MARGIN_TOP - MARGIN_BOTTOM;
  return low + (1 - (pixels - MARGIN_TOP) / span) * (high - low);
}

/** Breaks a label into lines of at most `most` characters, at spaces. */
function wrap(text: string, most: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    if (last !== undefined && last.length + 1 + word.length <= most) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}


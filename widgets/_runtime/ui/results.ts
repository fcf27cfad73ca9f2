/** Everything a run has measured: charts, readouts, table, verdict, explanation and provenance. */

import type { Parameters, Reading } from "../engine/protocol";
import type { Chart } from "./chart";
import type { WidgetDescription } from "./describe";
import { make, maybePart, part, setText } from "./dom";
import { valueText } from "./parameters";
import { Readouts } from "./readouts";
import { type SeriesData, summarise } from "./series";
import { DataTable } from "./table";
import { fill, strings } from "./text";

/** A run that is drawn faintly behind the present one. */
export interface FormerRun {
  seed: number;
  series: SeriesData;
}

export class ResultsView {
  readonly readouts: Readouts;
  private readonly host: HTMLElement;
  private readonly table: DataTable;
  private readonly charts = new Map<string, Chart>();
  private module: Promise<void> | undefined;
  private series: SeriesData = {};
  private former: FormerRun[] = [];
  private parameters: Parameters = {};
  private frame: number | undefined;

  constructor(
    private readonly root: HTMLElement,
    private readonly description: WidgetDescription,
  ) {
    this.host = part(root, "results");
    this.readouts = new Readouts(root, description);
    this.table = new DataTable(root, description);
    setText(part(root, "summary"), strings.chart.empty);
  }

  /** Fetches the chart's code, once for all widgets; rejects if it cannot be had, and then tries again when asked. */
  load(): Promise<void> {
    this.module ??= import("./chart").then(
      ({ createChart }) => {
        for (const panel of this.description.labels.panels) {
          const figure = this.figure(panel.id);
          const chart = createChart(part(figure, "plot"), part(figure, "values"), panel, this.description.labels);
          this.charts.set(panel.id, chart);
        }
        this.draw();
      },
      (error: unknown) => {
        this.module = undefined;
        throw error;
      },
    );
    return this.module;
  }

  show(visible: boolean): void {
    this.host.hidden = !visible;
    if (visible) this.draw();
  }

  set stale(stale: boolean) {
    this.host.toggleAttribute("data-stale", stale);
  }

  /** Empties everything for a new run. */
  clear(): void {
    this.series = {};
    this.readouts.all({});
    this.explain(null);
    this.verdict(null);
    this.provenance(null);
    this.stale = false;
    this.draw();
  }

  point(series: string, x: number, y: number): void {
    (this.series[series] ??= []).push([x, y]);
    this.schedule();
  }

  readout(name: string, value: number | null): void {
    this.readouts.set(name, value);
  }

  /** Shows a finished or reread run whole. */
  reading(reading: Pick<Reading, "readouts" | "series">): void {
    this.series = structuredClone(reading.series);
    this.readouts.all(reading.readouts);
    this.draw();
  }

  explain(text: string | null): void {
    const element = part(this.root, "explanation");
    element.hidden = text === null || text === "";
    element.replaceChildren(...paragraphs(this.description, text ?? "").map((paragraph) => make("p", {}, paragraph)));
  }

  /** Says in the readouts' labels how the samples are read. */
  readAt(parameters: Parameters): void {
    this.readouts.label(parameters);
  }

  verdict(verdict: { text: string; right: boolean | null } | null): void {
    const element = maybePart(this.root, "verdict"); // under the bet, which a widget may not have
    if (!element) return;
    showText(element, verdict?.text ?? null);
    element.dataset["right"] = verdict?.right === null || !verdict ? "none" : String(verdict.right);
  }

  provenance(run: { backend: string; digest: string | null } | null): void {
    const element = part(this.root, "provenance");
    element.hidden = run === null;
    if (!run) return;
    const texts: Record<string, string> = {
      numpy: strings.results["backend-numpy"],
      kernel: strings.results["backend-kernel"],
    };
    element.replaceChildren(texts[run.backend] ?? run.backend);
    if (run.digest !== null) {
      const code = document.createElement("code");
      code.dataset["digest"] = run.digest;
      code.title = run.digest;
      code.textContent = run.digest.slice(0, 12);
      element.append(` ${strings.results.digest}: `, code);
    }
  }

  /** Runs drawn faintly behind, newest first. */
  set previous(runs: FormerRun[]) {
    this.former = runs;
    const place = maybePart(this.root, "previous");
    if (place) {
      const seeds = runs.map((run) => String(run.seed)).join("; ");
      setText(place, runs.length > 0 ? fill(strings.chart.previous, { seeds }) : "");
    }
    this.schedule();
  }

  /** Parameters whose present value some panel marks on its axis. */
  set marked(parameters: Parameters) {
    this.parameters = parameters;
    this.schedule();
  }

  /** Draws at once: for the end of a run, which must not wait for a frame that a hidden tab never gets. */
  draw(): void {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
    this.table.update(this.series);
    const { labels, parameters } = this.description;
    for (const panel of labels.panels) {
      setText(part(this.figure(panel.id), "summary"), summarise(labels, panel, this.series));
      const parameter = parameters.find(({ name }) => name === panel.x.parameter);
      const value = parameter ? this.parameters[parameter.name] : undefined;
      const x = Number(value);
      const marker =
        parameter && value !== undefined && Number.isFinite(x)
          ? { x, text: valueText(parameter, labels.parameters[parameter.name], value) }
          : undefined;
      this.charts.get(panel.id)?.update({
        series: this.series,
        previous: this.former.map((run) => run.series),
        ...(marker ? { marker } : {}),
      });
    }
  }

  private schedule(): void {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  private figure(id: string): HTMLElement {
    const figure = this.root.querySelector<HTMLElement>(`[data-panel="${CSS.escape(id)}"]`);
    if (!figure) throw new Error(`theme/widget.html has no panel ${id}`);
    return figure;
  }
}

/** One paragraph for each of the notes that the explanation is made of, told by how they begin. */
function paragraphs({ labels }: WidgetDescription, text: string): string[] {
  const starts = Object.values(labels.notes ?? {}).map((note) => note.split("{")[0] ?? "").filter((start) => start.length > 3);
  const found: string[] = [];
  for (const sentence of text.split(/(?<=[.!?]»?) (?=[\p{Lu}«])/u)) {
    const last = found.length - 1;
    if (last < 0 || starts.some((start) => sentence.startsWith(start))) found.push(sentence);
    else found[last] = `${found[last]} ${sentence}`;
  }
  return found.filter((paragraph) => paragraph !== "");
}

function showText(element: HTMLElement, text: string | null): void {
  element.hidden = text === null || text === "";
  setText(element, text ?? "");
}

/** The finished runs of one widget: which to bring back, which to draw behind, which owes the same bits. */

import type { Parameters, RunRecord } from "../engine/protocol";
import type { Runtime } from "../engine/runtime";
import type { Storage } from "../engine/storage";
import type { WidgetDescription } from "./describe";
import { differing } from "./parameters";
import type { FormerRun } from "./results";
import type { SeriesData } from "./series";

const DRAWN_BEHIND = 4;

/** Results on the page: a run's record, and the parameters under which its samples are read now. */
export interface Shown {
  run: RunRecord;
  read: Parameters;
}

export class History {
  /** Finished runs, newest first. */
  private finished: RunRecord[] = [];

  constructor(private readonly widget: WidgetDescription) {}

  /** Reads the stored runs; resolves to the newest, which may be one that never ended. */
  async load(storage: Storage): Promise<RunRecord | undefined> {
    const stored = await storage.lastRuns(this.widget.id, DRAWN_BEHIND + 1);
    const runs = stored.filter(({ entry }) => entry === "experiment");
    const known = new Set(this.finished.map(({ id }) => id));
    this.finished.push(...runs.filter(({ state, id }) => state === "done" && !known.has(id)));
    return runs[0];
  }

  add(run: RunRecord): void {
    this.finished = [run, ...this.finished.filter(({ id }) => id !== run.id)];
  }

  /** The newest run that agrees with `given` in everything that is not just read again. */
  matching(given: Parameters): RunRecord | undefined {
    const fixed = this.widget.parameters.filter(({ name, rereads }) => !rereads && given[name] !== undefined);
    return this.finished.find(({ params }) => fixed.every(({ name }) => params[name] === given[name]));
  }

  /** An earlier run of the same experiment, so that the same bits are due. */
  twin(run: RunRecord): RunRecord | undefined {
    return this.finished.find(
      (other) =>
        other.id !== run.id &&
        other.backend === run.backend &&
        other.recipe === run.recipe && // an updated course owes no old bits
        other.digest !== null &&
        differing(this.widget, other.params, run.params).length === 0,
    );
  }

  /** The newest runs whose curves differ from `shown`'s and from each other's. */
  behind(shown: RunRecord | null): RunRecord[] {
    const seen = new Set(shown ? [this.curve(shown)] : []);
    const drawn: RunRecord[] = [];
    for (const run of this.finished) {
      const curve = this.curve(run);
      if (seen.has(curve) || drawn.length === DRAWN_BEHIND) continue;
      seen.add(curve);
      drawn.push(run);
    }
    return drawn;
  }

  /** What makes a run's curves: the backend, and the parameters that are not just read again. */
  private curve(run: RunRecord): string {
    const names = this.widget.parameters.filter(({ rereads }) => !rereads).map(({ name }) => name);
    return JSON.stringify([run.backend, ...names.map((name) => run.params[name])]);
  }
}

/**
 * The former runs as drawn behind, always read as the present results are: two votes at different checkpoints
 * would be a false comparison. A run that cannot be read so (yet) is not drawn.
 */
export class Behind {
  /** Series of former runs read again, by run and parameters. */
  private readonly read = new Map<string, SeriesData>();
  private present: { run: RunRecord | null; read: Parameters } | null = null;

  constructor(
    private readonly widget: WidgetDescription,
    private readonly history: History,
    private readonly runtime: Runtime,
    private readonly draw: (runs: FormerRun[]) => void,
  ) {}

  show(run: RunRecord | null, read: Parameters): void {
    this.present = { run, read };
    this.again();
  }

  /** Draws what can be drawn now, and reads the rest as soon as there is an engine to do it. */
  again(): void {
    const present = this.present;
    if (!present) return;
    const drawn: FormerRun[] = [];
    let missing: { key: string; run: RunRecord; parameters: Parameters } | undefined;
    for (const run of this.history.behind(present.run)) {
      const parameters = { ...run.params };
      for (const { name, rereads } of this.widget.parameters) {
        const value = present.read[name];
        if (rereads && value !== undefined) parameters[name] = value;
      }
      const key = JSON.stringify([run.id, parameters]);
      const same = differing(this.widget, run.params, parameters).length === 0;
      const series = same ? run.series : this.read.get(key);
      if (series) drawn.push({ seed: run.seed, series });
      else if (Object.keys(run.samples).length > 0) missing ??= { key, run, parameters };
    }
    this.draw(drawn);
    if (!missing || this.runtime.status !== "ready") return;
    const { key, run, parameters } = missing;
    this.runtime.reread(this.widget.id, run.samples, parameters).then(
      (reading) => {
        this.read.set(key, { ...run.series, ...reading.series });
        if (this.present === present) this.again();
      },
      () => undefined, // it stays undrawn
    );
  }
}

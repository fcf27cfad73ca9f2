/** The reference run that comes with the page: folded while there are controls to have one of one's own. */

import type { Parameters, RunRecord } from "../engine/protocol";
import { maybePart } from "./dom";

interface ReferenceRun {
  params?: Parameters;
  backend?: string;
  readouts: Record<string, number | null>;
}

export class Recorded {
  private readonly details: HTMLDetailsElement | null;

  constructor(
    private readonly section: HTMLElement,
    /** Whether there are results of the reader's own on the page. */
    private readonly own: () => boolean,
  ) {
    this.details = maybePart<HTMLDetailsElement>(section, "recorded");
  }

  hydrate(signal: AbortSignal): void {
    this.close();
    const help = maybePart(this.section, "recorded-help");
    if (help) help.hidden = false;
    let before = false;
    addEventListener("beforeprint", () => {
      before = this.details?.open ?? false;
      if (this.details && !this.own()) this.details.open = true;
    }, { signal });
    addEventListener("afterprint", () => {
      if (this.details) this.details.open = before;
    }, { signal });
  }

  close(): void {
    if (this.details) this.details.open = false;
  }

  /** Whether `run` owed the reference run's numbers and gave them: same parameters, and the backend that repeats. */
  matches(run: RunRecord): boolean {
    const text = this.details?.dataset["record"];
    if (!text || run.backend !== "kernel") return false;
    const { params, backend, readouts } = JSON.parse(text) as ReferenceRun;
    if (!params || backend !== run.backend) return false;
    const same = (a: Readonly<Record<string, unknown>>, b: Readonly<Record<string, unknown>>): boolean =>
      Object.entries(a).every(([name, value]) => b[name] === value);
    return same(params, run.params) && same(readouts, run.readouts);
  }
}

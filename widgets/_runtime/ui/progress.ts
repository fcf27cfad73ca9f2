/** Stage, share and time left. The clock runs only while the run does, and starts again if its rate jumps. */

import type { LoadStage } from "../engine/protocol";
import type { WidgetLabels } from "./describe";
import { part, setText } from "./dom";
import { formatNumber } from "./numbers";
import { fill, strings, timeLeft } from "./text";

/** Seconds over which the rate is averaged: long enough to be calm, short enough to notice another stage. */
const MEMORY_SECONDS = 6;

export class ProgressView {
  private readonly host: HTMLElement;
  private readonly bar: HTMLProgressElement;
  private readonly text: HTMLElement;
  private readonly list: HTMLElement;
  private readonly stages: Map<string, HTMLElement>;
  private share = 0;
  private stage = "";
  private since: number | null = null;
  private active = 0;
  private marks: { at: number; share: number }[] = [];

  constructor(
    root: HTMLElement,
    private readonly labels: WidgetLabels,
  ) {
    this.host = part(root, "progress");
    this.bar = part<HTMLProgressElement>(root, "bar");
    this.text = part(root, "progress-text");
    this.list = part(root, "stages");
    const items = this.list.querySelectorAll<HTMLElement>("[data-stage]");
    this.stages = new Map([...items].map((item) => [item.dataset["stage"] ?? "", item]));
  }

  /** Milliseconds for which the run has been going, pauses left out. */
  get elapsed(): number {
    return this.active + (this.since === null ? 0 : performance.now() - this.since);
  }

  get shareText(): string {
    return formatNumber(this.share, "percent", 0);
  }

  reset(): void {
    this.share = 0;
    this.stage = "";
    this.since = null;
    this.active = 0;
    this.marks = [];
    this.host.hidden = false;
    this.list.hidden = false;
    this.bar.hidden = false;
    this.mark("");
    this.bar.removeAttribute("value");
    setText(this.text, "");
  }

  hide(): void {
    this.host.hidden = true;
  }

  loading(stage: LoadStage | undefined): void {
    const name = stage ? strings.runtime[stage.stage] : strings.states.loading;
    if (stage && stage.totalBytes > 0 && stage.stage !== "boot") {
      this.bar.value = stage.loadedBytes / stage.totalBytes;
      setText(this.text, `${name} · ${megabytes(stage)}`);
    } else {
      this.bar.removeAttribute("value");
      setText(this.text, name);
    }
  }

  start(): void {
    this.since ??= performance.now();
    this.show();
  }

  pause(): void {
    this.active = this.elapsed;
    this.since = null;
    this.marks = [];
    setText(this.text, fill(strings.progress.paused, { share: this.shareText }));
  }

  waiting(): void {
    this.bar.removeAttribute("value");
    setText(this.text, strings.progress.waiting);
  }

  update(stage: string, done: number, total: number): void {
    this.share = total > 0 ? done / total : 0;
    this.stage = stage;
    const at = this.elapsed / 1000;
    this.marks.push({ at, share: this.share });
    while (this.marks.length > 2 && at - (this.marks[1]?.at ?? at) > MEMORY_SECONDS) this.marks.shift();
    this.show();
  }

  /** The run has ended: of the bar, only a line of text is left. */
  finish(text: string): void {
    this.active = this.elapsed;
    this.since = null;
    this.list.hidden = true;
    this.bar.hidden = true;
    setText(this.text, text);
  }

  private show(): void {
    this.bar.value = this.share;
    this.mark(this.stage);
    const parts = [this.labels.stages[this.stage] ?? this.stage, this.shareText];
    const left = this.secondsLeft();
    if (left !== null) parts.push(timeLeft(left));
    setText(this.text, parts.filter((text) => text !== "").join(" · "));
  }

  private secondsLeft(): number | null {
    const first = this.marks[0];
    const last = this.marks[this.marks.length - 1];
    if (!first || !last || last.at - first.at < 0.8 || last.share <= first.share) return null;
    return ((1 - this.share) * (last.at - first.at)) / (last.share - first.share);
  }

  private mark(current: string): void {
    for (const [name, item] of this.stages) {
      if (name === current) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    }
  }
}

export function megabytes(stage: LoadStage): string {
  const text = (bytes: number): string => formatNumber(bytes / 1e6, "number", 1);
  return fill(strings.runtime.megabytes, { loaded: text(stage.loadedBytes), total: text(stage.totalBytes) });
}

/** A polite live region that speaks at most every five seconds: milestones wait their turn, the newest wins. */

import { setText } from "./dom";

const QUIET_MILLISECONDS = 5000;

export class Announcer {
  private last = Number.NEGATIVE_INFINITY;
  private waiting: string | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly region: HTMLElement) {}

  /** Says `text` as soon as the region has been quiet for five seconds. */
  say(text: string): void {
    this.waiting = text;
    if (this.timer !== undefined) return;
    const wait = this.last + QUIET_MILLISECONDS - performance.now();
    if (wait <= 0) this.flush();
    else this.timer = setTimeout(() => this.flush(), wait);
  }

  /** Says `text` at once, for the answer to something the reader just did. */
  answer(text: string): void {
    this.waiting = text;
    this.flush();
  }

  close(): void {
    clearTimeout(this.timer);
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.waiting === null) return;
    setText(this.region, this.waiting);
    this.waiting = null;
    this.last = performance.now();
  }
}

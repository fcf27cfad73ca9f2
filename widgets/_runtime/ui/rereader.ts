/** Reads a finished run's samples again when a control that only reads them moves. The newest wish wins. */

import type { Parameters, Reading } from "../engine/protocol";
import type { Runtime } from "../engine/runtime";
import type { Shown } from "./history";
import { strings } from "./text";

interface Hooks {
  /** The results that are on the page now. */
  shown(): Shown | null;
  /** Something to tell while it lasts, or nothing any more. */
  tell(text: string | null): void;
  read(shown: Shown, parameters: Parameters, reading: Reading): void;
  failed(message: string): void;
}

export class Rereader {
  private wanted: Parameters | null = null;
  private busy = false;

  constructor(
    private readonly runtime: Runtime,
    private readonly widget: string,
    private readonly hooks: Hooks,
  ) {}

  request(parameters: Parameters): void {
    this.wanted = parameters;
    if (!this.busy) void this.work();
  }

  cancel(): void {
    this.wanted = null;
  }

  private async work(): Promise<void> {
    this.busy = true;
    try {
      let told: string | null = null;
      for (let shown = this.hooks.shown(); shown && this.wanted; shown = this.hooks.shown()) {
        const parameters = this.wanted;
        this.wanted = null;
        if (Object.keys(shown.run.samples).length === 0) {
          told = strings.parameters.unread;
          continue;
        }
        if (this.runtime.status !== "ready") {
          this.hooks.tell(strings.parameters.rereading);
          await this.runtime.load();
        }
        const reading = await this.runtime.reread(this.widget, shown.run.samples, parameters);
        if (this.hooks.shown() === shown) this.hooks.read(shown, parameters, reading);
      }
      this.hooks.tell(told);
    } catch (error) {
      this.hooks.tell(null);
      this.hooks.failed(error instanceof Error ? error.message : String(error));
    } finally {
      this.busy = false;
    }
  }
}

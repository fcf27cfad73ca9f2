/** The page's side of the engine: one worker per page, its loading, its runs. */

import type { Parameters, Reading, RunHandle, RunHandlers, RuntimeConfig, RuntimeStatus, LoadStage, Samples, SiteConfig } from "./protocol";

export type { Parameters, Reading, RunHandle, RunHandlers, RuntimeConfig, RuntimeStatus, LoadStage, Samples, SiteConfig };
export type StatusListener = (status: RuntimeStatus, stage?: LoadStage, error?: string) => void;

/** The engine's configuration from the page's `#raona-config`; relative URLs resolve against the page. */
export function runtimeConfig(site: SiteConfig, backend: RuntimeConfig["backend"] = "numpy"): RuntimeConfig {
  const root = new URL(site.root, document.baseURI).href;
  return { root, course: site.course, worker: new URL(site.runtime.worker, root).href, manifest: site.runtime, backend };
}

export class Runtime {
  status: RuntimeStatus = "off";
  constructor(readonly config: RuntimeConfig) {}
  /** Called at once with the present status, then at every change. Returns the way to stop listening. */
  subscribe(listener: StatusListener): () => void { throw new Error(`not yet: ${listener.name}`); }
  /** Messages for the reader that are no error, e.g. "storage is full"; returns the way to stop listening. */
  onNotice(listener: (message: string) => void): () => void { throw new Error(`not yet: ${listener.name}`); }
  /** Idempotent; after a failure it tries again. Rejects with a Catalan message. */
  load(): Promise<void> { throw new Error("not yet"); }
  /** Starts a run, loading the runtime first if need be; failures come through `handlers.state("error", …)`. */
  start(widget: string, parameters: Parameters, handlers: RunHandlers, entry = "experiment"): RunHandle {
    throw new Error(`not yet: ${widget} ${Object.keys(parameters).length} ${String(handlers)} ${entry}`);
  }
  /** Readouts and series of a finished run's samples under other parameters; rejects with a Catalan message. */
  reread(widget: string, samples: Samples, parameters: Parameters): Promise<Reading> {
    throw new Error(`not yet: ${widget} ${String(samples)} ${String(parameters)}`);
  }
  /** Ends the worker. */
  close(): void { throw new Error("not yet"); }
}

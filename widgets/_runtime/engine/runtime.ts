/** The page's side of the engine: its one worker, its loading, its runs. */

import type {
  FromWorker,
  LoadStage,
  Parameters,
  Reading,
  RunHandle,
  RunHandlers,
  RunState,
  RuntimeConfig,
  RuntimeStatus,
  Samples,
  SiteConfig,
  StoredCheckpoint,
  ToWorker,
  WorkerConfig,
} from "./protocol";
import { STRINGS } from "./strings";

export type { LoadStage, Parameters, Reading, RunHandle, RunHandlers, RuntimeConfig, RuntimeStatus, Samples, SiteConfig };
export type StatusListener = (status: RuntimeStatus, stage?: LoadStage, error?: string) => void;

/** The engine's configuration from the page's `#raona-config`; relative URLs resolve against the page. */
export function runtimeConfig(site: SiteConfig, backend: RuntimeConfig["backend"] = "kernel"): RuntimeConfig {
  const root = new URL(site.root, document.baseURI).href;
  return { root, course: site.course, worker: new URL(site.runtime.worker, root).href, manifest: site.runtime, backend };
}

interface Run {
  handlers: RunHandlers;
  start: Extract<ToWorker, { type: "start" }>;
  sent: boolean;
  paused: boolean;
  stopping: ReturnType<typeof setTimeout> | null;
}

interface Call {
  resolve(reading: Reading): void;
  reject(error: Error): void;
}

export class Runtime {
  status: RuntimeStatus = "off";
  private stage: LoadStage | undefined;
  private error: string | undefined;
  private worker: Worker | null = null;
  private loading: { promise: Promise<void>; resolve(): void; reject(error: Error): void } | null = null;
  private watch: ReturnType<typeof setInterval> | undefined;
  private idle: ReturnType<typeof setTimeout> | undefined;
  private silence = 0;
  private calls = 0;
  private readonly runs = new Map<string, Run>();
  private readonly asked = new Map<number, Call>();
  private readonly kept = new Map<string, StoredCheckpoint>();
  private readonly listeners = new Set<StatusListener>();
  private readonly noticeListeners = new Set<(message: string) => void>();

  constructor(readonly config: RuntimeConfig) {
    this.setStatus("off");
    document.addEventListener("visibilitychange", () => this.wake());
    addEventListener("pageshow", () => this.wake());
  }

  /** Called at once with the present status, then at every change. Returns the way to stop listening. */
  subscribe(listener: StatusListener): () => void {
    this.listeners.add(listener);
    listener(this.status, this.stage, this.error);
    return () => this.listeners.delete(listener);
  }

  /** Messages for the reader that are no error, e.g. "storage is full"; returns the way to stop listening. */
  onNotice(listener: (message: string) => void): () => void {
    this.noticeListeners.add(listener);
    return () => this.noticeListeners.delete(listener);
  }

  /** Idempotent; after a failure it tries again. Rejects with a Catalan message. */
  load(): Promise<void> {
    if (this.loading) return this.loading.promise;
    clearTimeout(this.idle);
    let settle: { resolve(): void; reject(error: Error): void } | undefined;
    const promise = new Promise<void>((resolve, reject) => {
      settle = { resolve, reject };
    });
    promise.catch(() => undefined);
    this.loading = { promise, ...settle! };
    this.setStatus("loading");
    const hopeless = this.hopeless();
    if (hopeless) this.crash(hopeless);
    else this.open();
    return promise;
  }

  /** Starts a run, loading the runtime first if need be; failures come through `handlers.state("error", …)`. */
  start(widget: string, parameters: Parameters, handlers: RunHandlers, entry = "experiment"): RunHandle {
    const id = newId();
    const start = { type: "start" as const, run: id, widget, parameters, entry, created: Date.now() };
    const run: Run = { handlers, start, sent: false, paused: false, stopping: null };
    this.runs.set(id, run);
    clearTimeout(this.idle);
    if (this.status === "ready") this.send(run);
    else {
      handlers.state("loading");
      void this.load();
    }
    return { id, pause: () => this.hold(id, true), resume: () => this.hold(id, false), stop: () => this.stop(id) };
  }

  /** Readouts and series of a finished run's samples under other parameters; rejects with a Catalan message. */
  async reread(widget: string, samples: Samples, parameters: Parameters): Promise<Reading> {
    await this.load();
    return new Promise((resolve, reject) => {
      const call = ++this.calls;
      this.asked.set(call, { resolve, reject });
      this.post({ type: "reread", call, widget, samples, parameters });
      this.restWhenIdle();
    });
  }

  /** Ends the worker, runs included. */
  close(): void {
    for (const [id] of this.runs) this.end(id, "stopped");
    this.drop();
    this.setStatus("off");
  }

  // -------------------------------------------------------------- the worker

  private hopeless(): string | null {
    if (location.protocol === "file:") return STRINGS.openedFromDisk;
    if (typeof Worker !== "function" || typeof WebAssembly !== "object") return STRINGS.tooOld;
    return null;
  }

  private open(): void {
    // A worker loaded from a file would escape the page's content security policy; one from a blob inherits it.
    const source = new Blob([`import ${JSON.stringify(this.config.worker)};`], { type: "text/javascript" });
    const url = URL.createObjectURL(source);
    const worker = new Worker(url, { type: "module" });
    this.worker = worker;
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (worker === this.worker) this.hear(data);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (worker === this.worker) this.crash(this.status === "loading" ? STRINGS.workerMissing : STRINGS.crashed);
    };
    const { root, course, manifest, backend } = this.config;
    const config: WorkerConfig = { root, course, manifest, backend, kept: [...this.kept.values()] };
    this.post({ type: "open", config });
    this.silence = 0;
    this.watch = setInterval(() => this.patience(), 1000);
  }

  /** Counts its own ticks, not the clock: a tab that slept is not held against the network. */
  private patience(): void {
    this.silence++;
    const seconds = this.config.timeoutSeconds ?? 30;
    if (this.status === "ready") {
      if (this.silence >= (this.config.silenceSeconds ?? 15)) this.crash(STRINGS.crashed);
    } else if (this.stage && this.stage.stage !== "fetch") {
      if (this.silence >= 3 * seconds) this.crash(STRINGS.startStalled);
    } else if (this.silence >= seconds) this.crash(STRINGS.stalled(seconds));
  }

  /** A tab comes back: let the worker go on, and see that it is still alive (phones end workers of hidden tabs). */
  private wake(): void {
    if (document.visibilityState !== "visible" || this.status !== "ready" || this.watch !== undefined) return;
    this.silence = 0;
    this.watch = setInterval(() => this.patience(), 1000);
    this.post({ type: "ping", call: ++this.calls });
  }

  private post(message: ToWorker): void {
    this.worker?.postMessage(message);
  }

  private hear(message: FromWorker): void {
    this.silence = 0;
    if (this.status === "ready") this.calm();
    const run = "run" in message ? this.runs.get(message.run) : undefined;
    if (message.type === "stage") {
      const { stage, loadedBytes, totalBytes } = message;
      this.setStatus("loading", { stage, loadedBytes, totalBytes });
    } else if (message.type === "ready") this.ready();
    else if (message.type === "failed") {
      console.error(message.trace);
      this.crash(message.message);
    } else if (message.type === "event") run?.handlers.event(message.event);
    else if (message.type === "state") this.hearState(message.run, message.state, message.detail);
    else if (message.type === "done") {
      this.forget(message.run);
      run?.handlers.done(message.result);
    } else if (message.type === "reading") this.take(message.call)?.resolve(message.reading);
    else if (message.type === "refused") this.take(message.call)?.reject(new Error(message.message));
    else if (message.type === "keep") this.kept.set(message.checkpoint.key, message.checkpoint);
    else if (message.type === "notice") for (const listener of this.noticeListeners) listener(message.message);
  }

  private hearState(id: string, state: RunState, detail?: string): void {
    const run = this.runs.get(id);
    if (state === "stopped" || state === "error") this.end(id, state, detail);
    // A message that crossed with the reader's pause or stop is out of date.
    else if (run && !run.stopping && (state === "paused") === run.paused) run.handlers.state(state, detail);
  }

  private ready(): void {
    this.calm();
    this.setStatus("ready");
    this.loading?.resolve();
    for (const run of this.runs.values()) this.send(run);
    this.restWhenIdle();
  }

  private calm(): void {
    clearInterval(this.watch);
    this.watch = undefined;
  }

  /** The worker is gone or no good: whoever waits hears `message`, and the next `load()` begins anew. */
  private crash(message: string): void {
    const { loading, status } = this;
    this.drop();
    this.setStatus("failed", undefined, message);
    if (status === "loading") loading?.reject(new Error(message));
    for (const id of [...this.runs.keys()]) this.end(id, "error", message);
  }

  private drop(): void {
    this.calm();
    clearTimeout(this.idle);
    this.worker?.terminate();
    this.worker = null;
    this.loading = null;
    for (const call of this.asked.values()) call.reject(new Error(STRINGS.crashed));
    this.asked.clear();
  }

  private restWhenIdle(): void {
    clearTimeout(this.idle);
    if (this.runs.size > 0 || this.status !== "ready") return;
    const rest = (): void => {
      if (this.status !== "ready") return;
      if (!navigator.onLine) return this.restWhenIdle(); // it could not come back
      this.drop();
      this.setStatus("off");
    };
    this.idle = setTimeout(rest, (this.config.idleMinutes ?? 15) * 60_000);
  }

  private setStatus(status: RuntimeStatus, stage?: LoadStage, error?: string): void {
    [this.status, this.stage, this.error] = [status, stage, error];
    document.body.dataset["runtime"] = status;
    for (const listener of this.listeners) listener(status, stage, error);
  }

  // -------------------------------------------------------------- runs

  private send(run: Run): void {
    run.sent = true;
    this.post(run.start);
    if (run.paused) this.post({ type: "pause", run: run.start.run });
  }

  private hold(id: string, paused: boolean): void {
    const run = this.runs.get(id);
    if (!run || run.paused === paused || run.stopping) return;
    run.paused = paused;
    if (run.sent) this.post({ type: paused ? "pause" : "resume", run: id });
    else run.handlers.state(paused ? "paused" : "loading");
  }

  private stop(id: string): void {
    const run = this.runs.get(id);
    if (!run || run.stopping) return;
    if (!run.sent) {
      this.end(id, "stopped");
      return;
    }
    this.post({ type: "stop", run: id });
    run.stopping = setTimeout(() => this.stopHard(id), (this.config.stopSeconds ?? 3) * 1000);
  }

  /** The worker does not answer: end it, start another, and tell the other runs. */
  private stopHard(id: string): void {
    this.drop();
    this.setStatus("off");
    this.end(id, "stopped");
    for (const other of [...this.runs.keys()]) this.end(other, "error", STRINGS.restarted);
    void this.load();
  }

  private end(id: string, state: RunState, detail?: string): void {
    const run = this.runs.get(id);
    this.forget(id);
    run?.handlers.state(state, detail);
  }

  private forget(id: string): void {
    clearTimeout(this.runs.get(id)?.stopping ?? undefined);
    this.runs.delete(id);
    this.restWhenIdle();
  }

  private take(call: number): Call | undefined {
    const found = this.asked.get(call);
    this.asked.delete(call);
    return found;
  }
}

/** Unlike `crypto.randomUUID`, there on plain http too. */
function newId(): string {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return `${Date.now().toString(36)}-${[...random].map((word) => word.toString(36)).join("")}`;
}

/** What the page, the worker and the Python bridge say to each other. Types only: this file emits no code. */

// ---------------------------------------------------------------- the site's configuration

/** One file under `base`, as the build wrote it. */
export interface RuntimeFile {
  name: string;
  bytes: number;
  sha256: string;
}

/** The manifest that the build publishes in every page (written by builder/runtime.py). */
export interface RuntimeManifest {
  version: string;
  /** Folder of Pyodide's files, relative to the site's root. */
  base: string;
  files: RuntimeFile[];
  /** Names in the published lock that are loaded at start, e.g. ["numpy"]. */
  packages: string[];
  /** The course's own wheel (minigpt and widgets), url relative to the site's root. */
  wheel: { url: string; bytes: number; sha256: string };
}

/** `#raona-config` of a page, as far as the engine needs it. */
export interface SiteConfig {
  /** Relative URL from the page to the site's root. */
  root: string;
  course: string;
  version: string;
  /** `worker`: URL of the bundled worker.ts relative to the site's root. */
  runtime: RuntimeManifest & { worker: string };
}

/** What `new Runtime()` takes: every URL absolute. `runtimeConfig(site)` in runtime.ts makes one. */
export interface RuntimeConfig {
  root: string;
  course: string;
  worker: string;
  manifest: RuntimeManifest;
  backend: Backend;
  /** Give up loading after so long without progress (default 30; tripled while Python starts). */
  timeoutSeconds?: number;
  /** Ask this long for a cooperative stop before the worker is ended (default 3). */
  stopSeconds?: number;
  /** When a tab comes back, a worker that says nothing for so long counts as dead (default 15). */
  silenceSeconds?: number;
  /** End the worker after so long without a run (default 15). */
  idleMinutes?: number;
}

export type Backend = "numpy" | "kernel";

// ---------------------------------------------------------------- runs and their events

export type Value = string | number | boolean | null;
export type Parameters = Record<string, Value>;
export type Point = [number, number];
export type Samples = Record<string, unknown>;

export type RunEvent =
  | { type: "progress"; stage: string; done: number; total: number }
  | { type: "point"; series: string; x: number; y: number }
  | { type: "readout"; name: string; value: number | null }
  | { type: "checkpoint"; key: string; format: string; steps: number; seed: number; bytes: number; stored: boolean }
  | { type: "sample"; name: string; data: unknown }
  | { type: "note"; name: string; text: string };

/** A checkpoint event as the bridge gives it; the page hears of it without its bytes, and whether it outlives the page. */
export interface CheckpointEvent {
  type: "checkpoint";
  key: string;
  format: string;
  steps: number;
  seed: number;
  data: Uint8Array;
}

/**
 * `loading`: the runtime is being brought in. `waiting`: the run lacks a checkpoint (detail: its key).
 * `error`: detail is a Catalan message. `stopped`, `done` (told through `handlers.done`) and `error` are final.
 */
export type RunState = "loading" | "running" | "waiting" | "paused" | "stopped" | "done" | "error";

/** A finished (or stopped, or running) run as it is stored. */
export interface RunRecord {
  id: string;
  widget: string;
  entry: string;
  params: Parameters;
  seed: number;
  backend: string;
  /** Milliseconds since 1970. */
  created: number;
  state: "running" | "stopped" | "done" | "error";
  readouts: Record<string, number | null>;
  series: Record<string, Point[]>;
  samples: Samples;
  digest: string | null;
  /** Digest of the recipes and the kernel that computed it; older records have none. */
  recipe?: string;
  explanation: string | null;
  outcome: string | null;
  /** What the reader predicted; the page adds it. */
  prediction?: unknown;
  revision?: number;
}

export interface RunResult {
  digest: string;
  explanation: string;
  outcome: string | null;
  /** The record of `raona run --json`, readouts and series included. */
  record: Record<string, unknown>;
  /** As stored; pass it to `saveRun({...run, prediction})` to add what the reader predicted. */
  run: RunRecord;
}

export interface Reading {
  readouts: Record<string, number | null>;
  series: Record<string, Point[]>;
  explanation: string;
  outcome: string | null;
}

export interface RunHandlers {
  state(state: RunState, detail?: string): void;
  event(event: RunEvent): void;
  done(result: RunResult): void;
}

export interface RunHandle {
  readonly id: string;
  pause(): void;
  resume(): void;
  stop(): void;
}

export interface StoredCheckpoint {
  key: string;
  format: string;
  steps: number;
  seed: number;
  backend: string;
  created: number;
  data: ArrayBuffer;
}

// ---------------------------------------------------------------- loading

/** `off` → `loading` → `ready`, or `failed`, from which `load()` tries again. */
export type RuntimeStatus = "off" | "loading" | "ready" | "failed";

/** fetch: Pyodide itself; boot: Python starts; packages: NumPy; course: the course's own code. */
export interface LoadStage {
  stage: "fetch" | "boot" | "packages" | "course";
  loadedBytes: number;
  totalBytes: number;
}

// ---------------------------------------------------------------- page → worker

export interface WorkerConfig {
  root: string;
  course: string;
  manifest: RuntimeManifest;
  backend: Backend;
  /** Checkpoints that an earlier worker of this page could not put in storage. */
  kept: StoredCheckpoint[];
}

export type ToWorker =
  | { type: "open"; config: WorkerConfig }
  | { type: "start"; run: string; widget: string; parameters: Parameters; entry: string; created: number }
  | { type: "pause" | "resume" | "stop"; run: string }
  | { type: "reread"; call: number; widget: string; samples: Samples; parameters: Parameters }
  | { type: "ping"; call: number };

// ---------------------------------------------------------------- worker → page

export type FromWorker =
  | ({ type: "stage" } & LoadStage)
  | { type: "ready" }
  | { type: "failed"; message: string; trace: string }
  | { type: "event"; run: string; event: RunEvent }
  | { type: "state"; run: string; state: RunState; detail?: string }
  | { type: "done"; run: string; result: RunResult }
  | { type: "reading"; call: number; reading: Reading }
  | { type: "refused"; call: number; message: string }
  | { type: "pong"; call: number }
  | { type: "notice"; message: string }
  | { type: "keep"; checkpoint: StoredCheckpoint };

// ---------------------------------------------------------------- worker ↔ bridge.py

/** One output of `Session.advance`, converted to plain JavaScript. */
export type BridgeOutput =
  | { run: string; event: CheckpointEvent | Exclude<RunEvent, { type: "checkpoint" }> }
  | { run: string; state: "done"; digest: string; explanation: string; outcome: string | null; record: Record<string, unknown> }
  | { run: string; state: "error"; message: string; trace: string }
  | { run: string; state: "waiting"; key: string }
  | { run: string; state: "running" }
  | { need: string }
  | { idle: true };

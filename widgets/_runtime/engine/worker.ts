/**
 * The page's one worker: Pyodide and the course's Python, which it drives in slices.
 *
 * Slices are triggered by messages to itself, not timers, which hidden tabs throttle; between two of them the page's
 * messages get their turn. Checkpoints and readouts are in storage before their run goes on.
 */

import type {
  BridgeOutput,
  CheckpointEvent,
  FromWorker,
  Parameters,
  Reading,
  RunEvent,
  RunRecord,
  Samples,
  StoredCheckpoint,
  ToWorker,
  WorkerConfig,
} from "./protocol";
import { LoadError, loadPython } from "./pyodide";
import { openStorage, type Storage } from "./storage";
import { STRINGS } from "./strings";

/** `Session` of ../bridge.py. */
interface Session {
  start(run: string, widget: string, parameters: Parameters, entry: string): Parameters;
  pause(run: string): void;
  resume(run: string): void;
  stop(run: string): void;
  advance(milliseconds: number): BridgeOutput[];
  provide(key: string, data: Uint8Array | undefined): void;
  committed(run: string): void;
  reread(widget: string, samples: Samples, parameters: Parameters): Reading;
}

interface Entry {
  record: RunRecord;
  /** A widget's main runs are stored, its asides are not. */
  saved: boolean;
}

const SLICE_MS = 16;

const post = (message: FromWorker): void => self.postMessage(message);
const ticks = new MessageChannel();
/** The runs that are on. Whatever ends one takes it out first, so that it ends once. */
const runs = new Map<string, Entry>();
const kept = new Map<string, StoredCheckpoint>();
let session: Session | null = null;
let storage: Storage | null = null;
let backend = "";
let ticking = false;

async function open(config: WorkerConfig): Promise<void> {
  try {
    for (const checkpoint of config.kept) kept.set(checkpoint.key, checkpoint);
    backend = config.backend;
    const opening = openStorage(config.course);
    const pyodide = await loadPython(config, (stage) => post({ type: "stage", ...stage }));
    session = pyodide.pyimport("widgets._runtime.bridge").open(config.backend) as Session;
    storage = await opening;
    storage.onNotice((message) => post({ type: "notice", message }));
    post({ type: "ready" });
  } catch (error) {
    const message = error instanceof LoadError ? error.message : STRINGS.noStart(lastLine(error));
    post({ type: "failed", message, trace: String(error) });
  }
}

/** What a Python traceback ends with, without the exception's module. */
function lastLine(error: unknown): string {
  const text = (error instanceof Error ? error.message : String(error)).trim();
  return (text.split("\n").at(-1) ?? text).replace(/^[\w.]*\b(\w+(?:Error|Exception|Interrupt)\b)/, "$1");
}

// ---------------------------------------------------------------- the loop

function wake(): void {
  if (ticking || !session) return;
  ticking = true;
  ticks.port2.postMessage(null);
}

ticks.port1.onmessage = () => {
  ticking = false;
  if (!session) return;
  let outputs: BridgeOutput[];
  try {
    outputs = session.advance(SLICE_MS);
  } catch (error) {
    // Python itself is in an unknown state: the page starts another worker.
    session = null;
    post({ type: "failed", message: STRINGS.crashed, trace: String(error) });
    return;
  }
  let idle = false;
  for (const output of outputs) {
    if ("idle" in output) idle = true;
    else if ("need" in output) void answer(output.need);
    else if ("event" in output) take(output.run, output.event);
    else if (output.state === "done") void finish(output.run, output);
    else if (output.state === "error") void fail(output.run, output.message, output.trace);
    else post({ type: "state", run: output.run, state: output.state, ...("key" in output && { detail: output.key }) });
  }
  if (!idle) wake();
};

async function answer(key: string): Promise<void> {
  const found = kept.get(key) ?? (await storage?.getCheckpoint(key).catch(() => null));
  session?.provide(key, found ? new Uint8Array(found.data) : undefined);
  wake();
}

function take(run: string, event: CheckpointEvent | Exclude<RunEvent, { type: "checkpoint" }>): void {
  const record = runs.get(run)?.record;
  if (event.type === "checkpoint" || event.type === "readout") {
    if (record && event.type === "readout") record.readouts[event.name] = event.value;
    void commit(run, event);
    return;
  }
  if (record && event.type === "point") (record.series[event.series] ??= []).push([event.x, event.y]);
  if (record && event.type === "sample") record.samples[event.name] = event.data;
  if (record) post({ type: "event", run, event });
}

/** Stores what the event brings, tells the page, and lets the run go on. Training for others commits here too. */
async function commit(run: string, event: CheckpointEvent | Extract<RunEvent, { type: "readout" }>): Promise<void> {
  let told: RunEvent;
  if (event.type === "checkpoint") {
    const { data, ...rest } = event;
    const stored = await keep({ ...withoutType(rest), backend, created: Date.now(), data: data.slice().buffer });
    told = { ...rest, bytes: data.byteLength, stored };
  } else {
    await save(runs.get(run));
    told = event;
  }
  if (runs.has(run)) post({ type: "event", run, event: told });
  session?.committed(run);
  wake();
}

function withoutType<T extends { type: string }>({ type: _type, ...rest }: T): Omit<T, "type"> {
  return rest;
}

/** In storage (then true), or, where nothing can be stored, with the page, which outlives this worker. */
async function keep(checkpoint: StoredCheckpoint): Promise<boolean> {
  try {
    if (storage?.persistent) await storage.putCheckpoint(checkpoint);
    if (storage?.persistent) return true;
  } catch {
    // The storage has told its listeners why.
  }
  kept.set(checkpoint.key, checkpoint);
  post({ type: "keep", checkpoint });
  return false;
}

async function save(entry: Entry | undefined): Promise<void> {
  if (!entry?.saved) return;
  try {
    await storage?.saveRun(entry.record);
  } catch {
    // The storage has told its listeners why.
  }
}

/** Takes a run out of those that are on; undefined if it has ended already. */
function end(run: string): Entry | undefined {
  const entry = runs.get(run);
  runs.delete(run);
  return entry;
}

async function finish(run: string, output: Extract<BridgeOutput, { state: "done" }>): Promise<void> {
  const entry = end(run);
  if (!entry) return;
  const { record } = entry;
  const { digest, explanation, outcome, record: reported } = output;
  Object.assign(record, { state: "done", digest, explanation, outcome: outcome ?? null });
  if (typeof reported["recipe"] === "string") record.recipe = reported["recipe"];
  await save(entry);
  post({ type: "done", run, result: { digest, explanation, outcome: outcome ?? null, record: reported, run: record } });
}

async function fail(run: string, message: string, trace: string): Promise<void> {
  if (trace) console.error(trace);
  const entry = end(run);
  if (!entry) return;
  entry.record.state = "error";
  await save(entry);
  post({ type: "state", run, state: "error", detail: STRINGS.runFailed(message) });
}

// ---------------------------------------------------------------- what the page asks

function begin({ run, widget, parameters, entry, created }: Extract<ToWorker, { type: "start" }>): void {
  if (!session) {
    post({ type: "state", run, state: "error", detail: STRINGS.notReady });
    return;
  }
  try {
    const params = session.start(run, widget, parameters, entry);
    const record: RunRecord = {
      ...{ id: run, widget, entry, params, seed: Number(params["seed"] ?? 1), backend, created, state: "running" },
      ...{ readouts: {}, series: {}, samples: {}, digest: null, explanation: null, outcome: null },
    };
    runs.set(run, { record, saved: entry === "experiment" });
    post({ type: "state", run, state: "running" });
  } catch (error) {
    post({ type: "state", run, state: "error", detail: STRINGS.runFailed(lastLine(error)) });
  }
}

async function stop(run: string): Promise<void> {
  const entry = end(run);
  if (!entry) return;
  session?.stop(run);
  entry.record.state = "stopped";
  await save(entry);
  post({ type: "state", run, state: "stopped" });
}

function reread({ call, widget, samples, parameters }: Extract<ToWorker, { type: "reread" }>): void {
  try {
    if (!session) throw new Error(STRINGS.notReady);
    const reading = session.reread(widget, samples, parameters);
    post({ type: "reading", call, reading: { ...reading, outcome: reading.outcome ?? null } });
  } catch (error) {
    post({ type: "refused", call, message: STRINGS.runFailed(lastLine(error)) });
  }
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.type === "open") void open(data.config);
  else if (data.type === "start") begin(data);
  else if (data.type === "reread") reread(data);
  else if (data.type === "ping") post({ type: "pong", call: data.call });
  else if (data.type === "stop") void stop(data.run);
  else if (runs.has(data.run)) {
    if (data.type === "pause") session?.pause(data.run);
    else session?.resume(data.run);
    post({ type: "state", run: data.run, state: data.type === "pause" ? "paused" : "running" });
  }
  wake();
};

/**
 * What the browser keeps: checkpoints, runs and progress, in IndexedDB or, failing that, in memory.
 *
 * The layout stands in ../storage.json, which Python reads too. A new store or index takes the next schema version as
 * its `since`, and opening an older database adds what came since. Nothing here needs a secure origin.
 */

import { openDB, type IDBPDatabase } from "idb";
import schema from "../storage.json";
import type { RunRecord, StoredCheckpoint } from "./protocol";
import { STRINGS } from "./strings";

export type { RunRecord, StoredCheckpoint };
export type StoreName = "checkpoints" | "runs" | "progress";
export type CheckpointInfo = Omit<StoredCheckpoint, "data"> & { bytes: number };

export interface ProgressExport {
  raona: "progress";
  format: 1;
  course: string;
  exported: string;
  entries: Record<string, unknown>;
}

export interface Storage {
  /** False when nothing outlives the page. */
  readonly persistent: boolean;
  /** Hears, in Catalan, that something is not being kept: at once if that is so already. Returns the way to stop. */
  onNotice(listener: (message: string) => void): () => void;
  getCheckpoint(key: string): Promise<StoredCheckpoint | null>;
  /** Rejects with a `StorageError` when there is no room; so does every other writer, and `onNotice` tells. */
  putCheckpoint(checkpoint: StoredCheckpoint): Promise<void>;
  listCheckpoints(): Promise<CheckpointInfo[]>;
  deleteCheckpoints(): Promise<void>;
  /** Adds to what is stored under the same id (so a prediction survives). Keeps 5 runs of each widget: see `outdated`. */
  saveRun(run: RunRecord): Promise<void>;
  /** Newest first. One that is still "running" after a reload was cut short. */
  lastRuns(widget: string, count: number): Promise<RunRecord[]>;
  getProgress(id: string): Promise<unknown>;
  /**
   * Stores a JSON value. If another tab has written the entry since this one last read it, two plain objects are
   * merged (this tab's keys win), anything else is replaced. Resolves to what is now stored.
   */
  putProgress(id: string, value: unknown): Promise<unknown>;
  allProgress(): Promise<Record<string, unknown>>;
  exportProgress(): Promise<string>;
  /** Validates everything first, then merges; rejects with a Catalan message. Resolves to the number of entries. */
  importProgress(json: string): Promise<number>;
  /** Asks the browser not to throw this away; false if it will not promise. The first saved run asks by itself. */
  persist(): Promise<boolean>;
  /** Hears of entries that another tab, or this page's worker, has changed. Returns the way to stop listening. */
  onChange(listener: (store: StoreName, id: string) => void): () => void;
  close(): void;
}

/** A failure that the reader should hear of: the message is Catalan. */
export class StorageError extends Error {}

interface Progress {
  id: string;
  value: unknown;
  revision: number;
  changed: number;
}

export interface Schema {
  database: string;
  version: number;
  stores: Record<string, { since: number; keyPath: string; indexes: Record<string, { since: number; keyPath: string }> }>;
}

const RUNS_KEPT = 5;
const OPEN_SECONDS = 5;
const LARGEST_IMPORT = 1_000_000;

/** Never rejects: if IndexedDB cannot be used, the storage is in memory and says so. */
export async function openStorage(courseId: string, layout: Schema = schema): Promise<Storage> {
  const rows = new Database(layout.database.replace("{course}", courseId), layout);
  try {
    await rows.open();
    return new Kept(courseId, rows);
  } catch (error) {
    return new Kept(courseId, new Memory(), whyMemory(error));
  }
}

function whyMemory(error: unknown): string {
  if (error instanceof StorageError) return error.message;
  return error instanceof Error && error.name === "VersionError" ? STRINGS.outdated : STRINGS.memoryOnly;
}

// ---------------------------------------------------------------- rows: IndexedDB, or Maps

type Change = (current: any) => unknown;

interface Rows {
  get(store: StoreName, key: string): Promise<any>;
  all(store: StoreName): Promise<any[]>;
  /** Every change reads and writes in one transaction, so two tabs cannot lose each other's. `null` deletes. */
  change(store: StoreName, changes: [key: string, change: Change][]): Promise<void>;
  close(): void;
}

class Database implements Rows {
  private connection: Promise<IDBPDatabase> | null = null;

  constructor(private readonly name: string, private readonly layout: Schema) {}

  open(): Promise<IDBPDatabase> {
    this.connection ??= this.connect().catch((error: unknown) => {
      this.connection = null;
      throw error;
    });
    return this.connection;
  }

  private connect(): Promise<IDBPDatabase> {
    const { name, layout } = this;
    const forget = (): void => {
      this.connection = null;
    };
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new StorageError(STRINGS.blocked)), OPEN_SECONDS * 1000);
      openDB(name, layout.version, {
        upgrade: (_database, from, _to, transaction) => migrate(transaction, layout, from),
        blocking: (_current, _wanted, event) => {
          (event.target as IDBDatabase).close();
          forget();
        },
        terminated: forget,
      })
        .then((database) => resolve(database), reject)
        .finally(() => clearTimeout(late));
    });
  }

  /** Runs `use`; if the connection turns out to be dead, once more on a fresh one. */
  private async with<T>(use: (database: IDBPDatabase) => Promise<T>): Promise<T> {
    try {
      return await use(await this.open());
    } catch (error) {
      if (isFull(error) || (error instanceof Error && error.name === "DataCloneError")) throw error;
      this.close();
      return use(await this.open());
    }
  }

  get(store: StoreName, key: string): Promise<any> {
    return this.with((database) => database.get(store, key));
  }

  all(store: StoreName): Promise<any[]> {
    return this.with((database) => database.getAll(store));
  }

  change(store: StoreName, changes: [string, Change][]): Promise<void> {
    return this.with(async (database) => {
      const transaction = database.transaction(store, "readwrite");
      const work = changes.map(async ([key, change]) => {
        const next = change(await transaction.store.get(key));
        if (next === null) await transaction.store.delete(key);
        else await transaction.store.put(next);
      });
      await Promise.all([...work, transaction.done]);
    });
  }

  close(): void {
    this.connection?.then((database) => database.close()).catch(() => undefined);
    this.connection = null;
  }
}

/** Brings a database of version `from` to the layout's, one version after the other. */
function migrate(transaction: any, layout: Schema, from: number): void {
  for (let version = from + 1; version <= layout.version; version++) {
    for (const [name, store] of Object.entries(layout.stores)) {
      if (store.since === version) transaction.db.createObjectStore(name, { keyPath: store.keyPath });
      for (const [index, { since, keyPath }] of Object.entries(store.indexes)) {
        if (since === version) transaction.objectStore(name).createIndex(index, keyPath);
      }
    }
  }
}

const isFull = (error: unknown): boolean => error instanceof Error && error.name === "QuotaExceededError";

class Memory implements Rows {
  private readonly stores = new Map<string, Map<string, any>>();

  private store(name: StoreName): Map<string, any> {
    const store = this.stores.get(name) ?? new Map<string, any>();
    this.stores.set(name, store);
    return store;
  }

  async get(store: StoreName, key: string): Promise<any> {
    return structuredClone(this.store(store).get(key));
  }

  async all(store: StoreName): Promise<any[]> {
    return structuredClone([...this.store(store).values()]);
  }

  async change(store: StoreName, changes: [string, Change][]): Promise<void> {
    const rows = this.store(store);
    for (const [key, change] of changes) {
      const next = change(structuredClone(rows.get(key)));
      if (next === null) rows.delete(key);
      else rows.set(key, structuredClone(next));
    }
  }

  close(): void {}
}

// ---------------------------------------------------------------- the storage itself

class Kept implements Storage {
  private readonly seen = new Map<string, number>();
  private readonly listeners = new Set<(store: StoreName, id: string) => void>();
  private readonly noticeListeners = new Set<(message: string) => void>();
  private readonly channel: BroadcastChannel | null;
  private askedToPersist = false;

  constructor(private readonly course: string, private rows: Rows, private notice?: string) {
    this.channel = typeof BroadcastChannel === "function" ? new BroadcastChannel(`raona-${course}`) : null;
    this.channel?.addEventListener("message", ({ data }: MessageEvent<{ store: StoreName; id: string }>) => {
      for (const listener of this.listeners) listener(data.store, data.id);
    });
  }

  get persistent(): boolean {
    return this.rows instanceof Database;
  }

  /** Storage that stops working altogether goes on in memory; a full one stays as it is. */
  private async using<T>(use: (rows: Rows) => Promise<T>): Promise<T> {
    try {
      return await use(this.rows);
    } catch (error) {
      if (isFull(error)) throw this.failure(STRINGS.full);
      if (!this.persistent || (error instanceof Error && error.name === "DataCloneError")) {
        throw this.failure(STRINGS.storageFailed(error instanceof Error ? error.message : String(error)));
      }
      this.rows.close();
      this.rows = new Memory();
      this.tell(whyMemory(error));
      return use(this.rows);
    }
  }

  private failure(message: string): StorageError {
    this.tell(message);
    return new StorageError(message);
  }

  private tell(message: string): void {
    if (message === this.notice) return;
    this.notice = message;
    for (const listener of this.noticeListeners) listener(message);
  }

  private async change(store: StoreName, changes: [string, Change][]): Promise<void> {
    await this.using((rows) => rows.change(store, changes));
    for (const [id] of changes) this.channel?.postMessage({ store, id });
  }

  async getCheckpoint(key: string): Promise<StoredCheckpoint | null> {
    return (await this.using((rows) => rows.get("checkpoints", key))) ?? null;
  }

  putCheckpoint(checkpoint: StoredCheckpoint): Promise<void> {
    return this.change("checkpoints", [[checkpoint.key, () => checkpoint]]);
  }

  async listCheckpoints(): Promise<CheckpointInfo[]> {
    const all: StoredCheckpoint[] = await this.using((rows) => rows.all("checkpoints"));
    return all.map(({ data, ...rest }) => ({ ...rest, bytes: data.byteLength }));
  }

  async deleteCheckpoints(): Promise<void> {
    const all = await this.listCheckpoints();
    await this.change("checkpoints", all.map(({ key }) => [key, () => null]));
  }

  async saveRun(run: RunRecord): Promise<void> {
    const merge = (old: RunRecord | undefined): RunRecord => {
      const merged = { ...old, ...run, revision: (old?.revision ?? 0) + 1 };
      if (run.prediction === undefined && old?.prediction !== undefined) merged.prediction = old.prediction;
      return merged;
    };
    if (!this.askedToPersist) void this.persist();
    await this.change("runs", [[run.id, merge]]);
    const old = outdated(await this.lastRuns(run.widget, Infinity), run.id);
    if (old.length > 0) await this.change("runs", old.map(({ id }) => [id, () => null]));
  }

  async lastRuns(widget: string, count: number): Promise<RunRecord[]> {
    const all: RunRecord[] = await this.using((rows) => rows.all("runs"));
    const own = all.filter((run) => run.widget === widget);
    return own.sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1)).slice(0, count);
  }

  private see(entry: Progress): unknown {
    this.seen.set(entry.id, entry.revision);
    return entry.value;
  }

  async getProgress(id: string): Promise<unknown> {
    const entry: Progress | undefined = await this.using((rows) => rows.get("progress", id));
    return entry && this.see(entry);
  }

  async putProgress(id: string, value: unknown): Promise<unknown> {
    let written: Progress | undefined;
    const seen = this.seen.get(id) ?? 0;
    const write = (old: Progress | undefined): Progress => {
      const merged = old && old.revision !== seen ? merge(old.value, value) : value;
      written = { id, value: merged, revision: (old?.revision ?? 0) + 1, changed: Date.now() };
      return written;
    };
    await this.change("progress", [[id, write]]);
    return written && this.see(written);
  }

  async allProgress(): Promise<Record<string, unknown>> {
    const all: Progress[] = await this.using((rows) => rows.all("progress"));
    return Object.fromEntries(all.map((entry) => [entry.id, this.see(entry)]));
  }

  async exportProgress(): Promise<string> {
    const { persistent } = this;
    const entries = await this.allProgress();
    if (persistent && !this.persistent) throw new StorageError(this.notice); // else a file with nothing in it
    const exported = new Date().toISOString();
    const file: ProgressExport = { raona: "progress", format: 1, course: this.course, exported, entries };
    return JSON.stringify(file, null, 1);
  }

  async importProgress(json: string): Promise<number> {
    const entries = Object.entries(readExport(json, this.course));
    const now = Date.now();
    await this.change(
      "progress",
      entries.map(([id, value]) => [
        id,
        (old: Progress | undefined): Progress => {
          const entry = { id, value: merge(old?.value, value), revision: (old?.revision ?? 0) + 1, changed: now };
          this.see(entry);
          return entry;
        },
      ]),
    );
    return entries.length;
  }

  async persist(): Promise<boolean> {
    this.askedToPersist = true;
    if (!this.persistent || typeof navigator === "undefined") return false;
    const manager = navigator.storage as { persist?(): Promise<boolean> } | undefined;
    try {
      return (await manager?.persist?.()) ?? false;
    } catch {
      return false;
    }
  }

  onChange(listener: (store: StoreName, id: string) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  onNotice(listener: (message: string) => void): () => void {
    this.noticeListeners.add(listener);
    if (this.notice !== undefined) listener(this.notice);
    return () => this.noticeListeners.delete(listener);
  }

  close(): void {
    this.channel?.close();
    this.rows.close();
  }
}

/** Which of a widget's runs, newest first, must go: never the one just saved, and unfinished ones before the rest. */
function outdated(runs: RunRecord[], saved: string): RunRecord[] {
  const rank = (run: RunRecord): number => (run.id === saved ? 0 : run.state === "done" ? 1 : 2);
  return runs.toSorted((a, b) => rank(a) - rank(b)).slice(RUNS_KEPT);
}

// ---------------------------------------------------------------- progress files

type Plain = Record<string, unknown>;

const isPlain = (value: unknown): value is Plain =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Two plain objects together, the second's keys winning; otherwise the second. */
function merge(old: unknown, added: unknown): unknown {
  return isPlain(old) && isPlain(added) ? { ...old, ...added } : added;
}

/** The entries of an exported file. Throws a `StorageError` that says, in Catalan, what is wrong with it. */
export function readExport(json: string, course: string): Plain {
  if (json.length > LARGEST_IMPORT) throw new StorageError(STRINGS.tooLarge);
  let file: unknown;
  try {
    file = JSON.parse(json);
  } catch {
    throw new StorageError(STRINGS.notJson);
  }
  if (!isPlain(file) || file["raona"] !== "progress" || typeof file["format"] !== "number") {
    throw new StorageError(STRINGS.notProgress);
  }
  if (file["format"] > 1) throw new StorageError(STRINGS.newerFormat);
  if (file["format"] !== 1 || typeof file["course"] !== "string" || !isPlain(file["entries"])) {
    throw new StorageError(STRINGS.notProgress);
  }
  if (file["course"] !== course) throw new StorageError(STRINGS.otherCourse(file["course"], course));
  for (const [id, value] of Object.entries(file["entries"])) {
    if (id === "" || id.length > 200 || id === "__proto__" || value === null) {
      throw new StorageError(STRINGS.badEntry(id.slice(0, 40)));
    }
  }
  return file["entries"];
}

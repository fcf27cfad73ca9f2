/** What the browser keeps: checkpoints, runs and progress, in IndexedDB or, failing that, in memory. */

import type { RunRecord, StoredCheckpoint } from "./protocol";

export type { RunRecord, StoredCheckpoint };
export interface CheckpointInfo extends Omit<StoredCheckpoint, "data"> { bytes: number; }
export interface ProgressExport { raona: "progress"; format: 1; course: string; exported: string; entries: Record<string, unknown>; }

export interface Storage {
  /** False when nothing outlives the page; then `notice` says so in Catalan. */
  readonly persistent: boolean;
  readonly notice?: string;
  getCheckpoint(key: string): Promise<StoredCheckpoint | null>;
  putCheckpoint(checkpoint: StoredCheckpoint): Promise<void>;
  listCheckpoints(): Promise<CheckpointInfo[]>;
  deleteCheckpoints(): Promise<void>;
  /** Adds to what is stored under the same id (so a prediction survives); keeps the last 5 runs per widget. */
  saveRun(run: RunRecord): Promise<void>;
  /** Newest first. */
  lastRuns(widget: string, count: number): Promise<RunRecord[]>;
  getProgress(id: string): Promise<unknown>;
  /**
   * Stores a JSON value. If another tab has written the entry since this one last read it, two plain objects are
   * merged (this tab's keys win), anything else is replaced. Resolves to what is now stored.
   */
  putProgress(id: string, value: unknown): Promise<unknown>;
  allProgress(): Promise<Record<string, unknown>>;
  exportProgress(): Promise<string>;
  /** Validates first, then merges; rejects with a Catalan message. Resolves to the number of entries. */
  importProgress(json: string): Promise<number>;
  /** Asks the browser not to throw this away; false if it will not say yes. */
  persist(): Promise<boolean>;
  /** Hears of entries that another tab has changed. Returns the way to stop listening. */
  onChange(listener: (store: "checkpoints" | "runs" | "progress", id: string) => void): () => void;
  close(): void;
}

/** Never rejects: if IndexedDB cannot be used, the storage is in memory and says so. */
export function openStorage(courseId: string): Promise<Storage> { throw new Error(`not yet: ${courseId}`); }

/**
 * Brings Pyodide, NumPy and the course's wheel into this worker, from the site's own files.
 *
 * Every download starts at once, is counted for the progress bar and checked. WebAssembly then gets the browser's own
 * response out of its cache rather than the bytes read, since only with that one does the browser keep the compiled code
 * for the next visit (2.5 against 4.1 s measured); a copied or re-wrapped response loses it. Private windows, which cache
 * no file of that size, and servers that type .wasm wrongly or forbid caching go without: they have the copies of kept.ts.
 */

import type { PyodideInterface } from "pyodide";
import { KeptFiles } from "./kept";
import type { LoadStage, RuntimeManifest } from "./protocol";
import { STRINGS } from "./strings";

/** Why the runtime could not be loaded; the message is Catalan. */
export class LoadError extends Error {}

type Report = (stage: LoadStage) => void;
type Wanted = { url: string; name: string; bytes: number; sha256: string };

const WASM = "application/wasm";
/** The network itself: while Pyodide starts, `fetch` answers with the downloads that this brings in. */
const fetchFromNetwork = globalThis.fetch.bind(globalThis);
const CORE = { loader: "pyodide.js", module: "pyodide.asm.js", wasm: "pyodide.asm.wasm" };

/** Pyodide with the manifest's packages loaded and the course's wheel on its path. Rejects with a `LoadError`. */
export async function loadPython(
  { root, course, manifest }: { root: string; course: string; manifest: RuntimeManifest },
  report: Report,
): Promise<PyodideInterface> {
  const kept = KeptFiles.open(course, `${manifest.base}${manifest.wheel.sha256}`);
  const base = new URL(manifest.base, root).href;
  const progress = new Progress(manifest, report);
  const modules = Promise.all([
    importModule(base, CORE.loader, manifest, progress),
    importModule(base, CORE.module, manifest, progress),
  ]);
  const wheel = download({ ...manifest.wheel, url: new URL(manifest.wheel.url, root).href, name: "raona.whl" }, kept, progress);
  const files = new Map<string, Promise<Response>>();
  for (const file of manifest.files) {
    if (file.name === CORE.loader || file.name === CORE.module) continue;
    const url = base + file.name;
    files.set(url, download({ ...file, url }, kept, progress));
  }
  const failure = firstFailure([modules, wheel, ...files.values()]);
  const restore = serve(files, failure.reject);
  try {
    return await Promise.race([failure.promise, start(base, manifest, modules, wheel, progress)]);
  } catch (error) {
    if (error instanceof LoadError) throw error;
    throw new LoadError(STRINGS.noStart(error instanceof Error ? error.message : String(error)));
  } finally {
    restore();
  }
}

async function start(
  base: string,
  manifest: RuntimeManifest,
  modules: Promise<[any, any]>,
  wheel: Promise<Response>,
  progress: Progress,
): Promise<PyodideInterface> {
  const [loader, module] = await modules;
  const options = { indexURL: base, createPyodideModule: module.default, env: { PYTHONHASHSEED: "0" } };
  const pyodide = (await loader.loadPyodide(options)) as PyodideInterface;
  progress.enter("packages");
  await pyodide.loadPackage(manifest.packages, { messageCallback: () => undefined });
  progress.enter("course");
  pyodide.unpackArchive(await (await wheel).arrayBuffer(), "wheel");
  return pyodide;
}

class Progress {
  private readonly totalBytes: number;
  private loadedBytes = 0;
  private stage: LoadStage["stage"] = "fetch";

  constructor(manifest: RuntimeManifest, private readonly report: Report) {
    this.totalBytes = manifest.files.reduce((sum, file) => sum + file.bytes, manifest.wheel.bytes);
    this.tell();
  }

  add(bytes: number): void {
    this.loadedBytes += bytes;
    if (this.stage === "fetch" && this.loadedBytes >= this.totalBytes) this.stage = "boot";
    this.tell();
  }

  enter(stage: LoadStage["stage"]): void {
    this.stage = stage;
    this.tell();
  }

  private tell(): void {
    this.report({ stage: this.stage, loadedBytes: Math.min(this.loadedBytes, this.totalBytes), totalBytes: this.totalBytes });
  }
}

/** Modules are imported by URL, since the policy allows no blob; their bytes were checked when the site was built. */
async function importModule(base: string, name: string, manifest: RuntimeManifest, progress: Progress): Promise<any> {
  try {
    const module = await import(base + name);
    progress.add(manifest.files.find((file) => file.name === name)?.bytes ?? 0);
    return module;
  } catch {
    throw new LoadError(STRINGS.unreachable(name));
  }
}

/** The response to one file, complete and with the right bytes. */
async function download(file: Wanted, kept: Promise<KeptFiles>, progress: Progress): Promise<Response> {
  const copies = await kept;
  const type = file.name.endsWith(".wasm") ? WASM : "application/octet-stream";
  let data = await copies.get(file.url);
  if (data && (await isRight(data, file))) progress.add(data.byteLength);
  else {
    // Every address is pinned to its contents, so what is in the cache needs no asking whether it is still current.
    data = await read(file, "force-cache", progress);
    // A damaged copy in the cache, or one of an earlier version of the course.
    if (!(await isRight(data, file))) data = await read(file, "reload", progress);
    if (!(await isRight(data, file))) throw new LoadError(STRINGS.damaged(file.name));
    void copies.put(file.url, type, data.slice(0));
  }
  if (type !== WASM) return new Response(data);
  return (await untouched(file)) ?? new Response(data, { headers: { "content-type": WASM } });
}

async function read(file: Wanted, cache: RequestCache, progress: Progress): Promise<ArrayBuffer> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  try {
    const response = await fetchFromNetwork(file.url, { cache });
    if (!response.ok) throw new LoadError(STRINGS.missing(file.name, response.status));
    const reader = response.body?.getReader();
    for (;;) {
      const chunk = await reader?.read();
      if (!chunk || chunk.done) return await new Blob(chunks).arrayBuffer();
      chunks.push(chunk.value);
      progress.add(chunk.value.byteLength);
    }
  } catch (error) {
    throw error instanceof LoadError ? error : new LoadError(STRINGS.unreachable(file.name));
  }
}

/** Plain-http origins have no `crypto.subtle`: there the length must do. */
async function isRight(data: ArrayBuffer, file: Wanted): Promise<boolean> {
  const subtle = crypto.subtle as SubtleCrypto | undefined;
  if (data.byteLength !== file.bytes || !subtle) return data.byteLength === file.bytes;
  const digest = new Uint8Array(await subtle.digest("SHA-256", data));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("") === file.sha256;
}

/** The file just read, as the browser's own response from its cache; null if it is not there or is typed wrongly. */
async function untouched(file: Wanted): Promise<Response | null> {
  try {
    const integrity = `sha256-${base64(file.sha256)}`;
    const response = await fetchFromNetwork(file.url, { cache: "only-if-cached", mode: "same-origin", integrity });
    return response.ok && response.headers.get("content-type") === WASM ? response : null;
  } catch {
    return null;
  }
}

const base64 = (hex: string): string => btoa(hex.replace(/../g, (byte) => String.fromCharCode(parseInt(byte, 16))));

/**
 * Answers Pyodide's own fetches with the downloads under way, and nothing else from the network. Pyodide only warns when
 * WebAssembly fails and then waits for ever, so that failure is passed on. Returns the way back.
 */
function serve(files: Map<string, Promise<Response>>, fail: (error: unknown) => void): () => void {
  const { instantiateStreaming } = WebAssembly;
  globalThis.fetch = (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    const prepared = files.get(url);
    files.delete(url);
    return prepared ?? fetchFromNetwork(input, init);
  };
  WebAssembly.instantiateStreaming = async (source, imports) => {
    try {
      return await instantiateStreaming(source, imports);
    } catch (error) {
      fail(error);
      throw error;
    }
  };
  return () => {
    globalThis.fetch = fetchFromNetwork;
    WebAssembly.instantiateStreaming = instantiateStreaming;
  };
}

/** A promise that only ever rejects: with the first failure among `work`, or by hand. */
function firstFailure(work: Promise<unknown>[]): { promise: Promise<never>; reject: (error: unknown) => void } {
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<never>((_, refuse) => {
    reject = refuse;
  });
  for (const one of work) one.catch(reject);
  promise.catch(() => undefined);
  return { promise, reject };
}

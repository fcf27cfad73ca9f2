/**
 * Brings Pyodide, NumPy and the course's wheel into this worker, from the site's own files.
 *
 * Every download starts at once. A file is fetched twice: the first time read and counted, for the progress bar, which
 * leaves it in the browser's cache; the second time out of that cache with its sha256 as fetch integrity, which works on
 * plain http too. The second response reaches WebAssembly untouched, so that the browser can keep the compiled code for
 * the next visit (a counted, copied or re-wrapped one loses that, 2.5 against 4.1 s measured); only a server that types
 * .wasm wrongly pays for a copy.
 */

import type { PyodideInterface } from "pyodide";
import type { LoadStage, RuntimeManifest } from "./protocol";
import { STRINGS } from "./strings";

/** Why the runtime could not be loaded; the message is Catalan. */
export class LoadError extends Error {}

type Report = (stage: LoadStage) => void;
type Wanted = { url: string; name: string; bytes: number; sha256: string };

const CORE = { loader: "pyodide.js", module: "pyodide.asm.js", wasm: "pyodide.asm.wasm" };

/** Pyodide with the manifest's packages loaded and the course's wheel on its path. Rejects with a `LoadError`. */
export async function loadPython(root: string, manifest: RuntimeManifest, report: Report): Promise<PyodideInterface> {
  const base = new URL(manifest.base, root).href;
  const progress = new Progress(manifest, report);
  const modules = Promise.all([
    importModule(base, CORE.loader, manifest, progress),
    importModule(base, CORE.module, manifest, progress),
  ]);
  const wheel = download({ ...manifest.wheel, url: new URL(manifest.wheel.url, root).href, name: "raona.whl" }, progress);
  const files = new Map<string, Promise<Response>>();
  for (const file of manifest.files) {
    if (file.name === CORE.loader || file.name === CORE.module) continue;
    const url = base + file.name;
    files.set(url, download({ ...file, url }, progress));
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
async function download(file: Wanted, progress: Progress): Promise<Response> {
  let counted = 0;
  const count = (bytes: number): void => {
    counted += bytes;
    progress.add(bytes);
  };
  let response: Response;
  try {
    response = await fetch(file.url, { cache: "force-cache" });
  } catch {
    throw new LoadError(STRINGS.unreachable(file.name));
  }
  if (!response.ok) throw new LoadError(STRINGS.missing(file.name, response.status));
  // What may not be cached would cross the network twice: take its bytes in one go.
  if (/no-store/i.test(response.headers.get("cache-control") ?? "")) await response.body?.cancel();
  else await drain(response, count, file.name);
  const integrity = `sha256-${base64(file.sha256)}`;
  try {
    response = await fetch(file.url, { cache: "force-cache", integrity });
  } catch {
    // A damaged copy in the cache, or one of an earlier version of the course.
    response = await fetch(file.url, { cache: "reload", integrity }).catch(() => {
      throw new LoadError(STRINGS.damaged(file.name));
    });
  }
  count(file.bytes - counted);
  const wrong = file.url.endsWith(".wasm") && response.headers.get("content-type") !== "application/wasm";
  return wrong ? new Response(await response.arrayBuffer(), { headers: { "content-type": "application/wasm" } }) : response;
}

async function drain(response: Response, count: (bytes: number) => void, name: string): Promise<void> {
  const reader = response.body?.getReader();
  try {
    for (;;) {
      const chunk = await reader?.read();
      if (!chunk || chunk.done) return;
      count(chunk.value.byteLength);
    }
  } catch {
    throw new LoadError(STRINGS.unreachable(name));
  }
}

const base64 = (hex: string): string => btoa(hex.replace(/../g, (byte) => String.fromCharCode(parseInt(byte, 16))));

/**
 * Answers Pyodide's own fetches with the downloads under way, and nothing else from the network. Pyodide only warns when
 * WebAssembly fails and then waits for ever, so that failure is passed on. Returns the way back.
 */
function serve(files: Map<string, Promise<Response>>, fail: (error: unknown) => void): () => void {
  const { fetch } = globalThis;
  const { instantiateStreaming } = WebAssembly;
  globalThis.fetch = (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    const prepared = files.get(url);
    files.delete(url);
    return prepared ?? fetch(input, init);
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
    globalThis.fetch = fetch;
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

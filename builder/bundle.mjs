// Bundles the site's scripts and its style sheet with esbuild.
// stdin: {kind: "scripts", root, modules: {name: file}, classic: {name: file}, views: {widget: file}, outdir}
//     or {kind: "style", root, file, generated: {name: css}, outdir}
// stdout: {urls: {name: file name in outdir}, imports: {name: [file names loaded at once with it]}}
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build } from "esbuild";

const request = JSON.parse(readFileSync(0, "utf8"));

const common = {
  absWorkingDir: request.root,
  outdir: request.outdir,
  bundle: true,
  minify: true,
  metafile: true,
  charset: "utf8",
  legalComments: "none",
  logLevel: "silent",
  // File names carry a hash of the sources' paths too: keep them below the root even if node_modules is a link.
  preserveSymlinks: true,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
};

/** `raona:views` and style sheets that the build itself writes, as modules. */
function virtual(files, filter, loader) {
  return {
    name: "virtual",
    setup(builder) {
      builder.onResolve({ filter }, ({ path: name }) => (name in files ? { path: name, namespace: "virtual" } : undefined));
      builder.onLoad({ filter: /.*/, namespace: "virtual" }, ({ path: name }) => ({
        contents: files[name],
        loader,
        resolveDir: request.root,
      }));
    },
  };
}

function outputs(result, entries) {
  const urls = {};
  const imports = {};
  const byPath = result.metafile.outputs;
  for (const [file, output] of Object.entries(byPath)) {
    if (!output.entryPoint) continue;
    const name = Object.keys(entries).find((key) => path.resolve(request.root, output.entryPoint) === entries[key]);
    if (!name) continue;
    urls[name] = path.basename(file);
    const waiting = [file];
    const seen = new Set();
    while (waiting.length) {
      for (const { path: imported, kind } of byPath[waiting.pop()].imports) {
        if (kind === "import-statement" && imported in byPath && !seen.has(imported)) {
          seen.add(imported);
          waiting.push(imported);
        }
      }
    }
    imports[name] = [...seen].map((imported) => path.basename(imported)).sort();
  }
  return { urls, imports };
}

async function scripts() {
  const absolute = (files) => Object.fromEntries(Object.entries(files).map(([key, file]) => [key, path.resolve(request.root, file)]));
  const modules = absolute(request.modules);
  const classic = absolute(request.classic);
  const views = Object.entries(request.views).map(([id, file]) => `${JSON.stringify(id)}: () => import(${JSON.stringify("./" + file)})`);
  const plugins = [virtual({ "raona:views": `export const views = {${views.join(", ")}};` }, /^raona:views$/, "js")];
  const named = (files) => Object.entries(files).map(([out, file]) => ({ in: file, out }));
  const first = await build({ ...common, entryPoints: named(modules), format: "esm", splitting: true, plugins });
  const second = await build({ ...common, entryPoints: named(classic), format: "iife" });
  const [a, b] = [outputs(first, modules), outputs(second, classic)];
  return { urls: { ...a.urls, ...b.urls }, imports: { ...a.imports, ...b.imports } };
}

async function style() {
  const entry = path.resolve(request.root, request.file);
  const plugins = [virtual(request.generated, /^generated:/, "css")];
  const result = await build({
    ...common,
    entryPoints: [{ in: entry, out: "site" }],
    plugins,
    external: ["*.woff2"],
  });
  return outputs(result, { site: entry });
}

try {
  const result = request.kind === "scripts" ? await scripts() : await style();
  writeFileSync(1, JSON.stringify(result));
} catch (error) {
  const lines = (error.errors ?? []).map(({ text, location }) => (location ? `${location.file}:${location.line}: ${text}` : text));
  writeFileSync(1, JSON.stringify({ errors: lines.length ? lines : [String(error.message ?? error)] }));
}

// Compiles Python modules with the very Python that the pages run. In: JSON on stdin. Out: a zip of bytecode at `out`.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { core, stdlib, archives, imports, whole, documented, out } = JSON.parse(readFileSync(0, "utf8"));
const { loadPyodide } = await import(pathToFileURL(`${core}/pyodide.mjs`).href);
const python = await loadPyodide({ stdLibURL: stdlib, env: { PYTHONHASHSEED: "0" } });
// Where Pyodide itself puts packages.
const SITE_PACKAGES = python.runPython("import sysconfig; sysconfig.get_paths()['purelib']");
for (const [name, path] of Object.entries(archives)) {
  const data = new Uint8Array(readFileSync(path));
  python.FS.writeFile(`/tmp/${name}`, data);
  python.unpackArchive(data, "wheel", { extractDir: SITE_PACKAGES });
}
python.FS.writeFile("/tmp/request.json", JSON.stringify({ archives: Object.keys(archives), imports, whole, documented }));
try {
  python.runPython(readFileSync(new URL("bytecode_inside.py", import.meta.url), "utf8"));
  writeFileSync(out, python.FS.readFile("/tmp/bytecode.zip"));
  console.log(JSON.stringify({ compiled: python.globals.get("compiled") }));
} catch (error) {
  console.log(JSON.stringify({ error: error.message.trim().split("\n").at(-1) }));
}

/** The course's backends in Pyodide, as the built site brings it: its runtime, its wheel, and bench's own Python. */

import { serve } from "./lane.js";

serve(async ({ site, manifest, code, peer }) => {
  const base = new URL(manifest.base, site).href;
  const [loader, module, wheel, bench] = await Promise.all([
    import(`${base}pyodide.js`),
    import(`${base}pyodide.asm.js`),
    fetch(new URL(manifest.wheel.url, site)).then((response) => response.arrayBuffer()),
    fetch(code).then((response) => response.arrayBuffer()),
  ]);
  const options = { indexURL: base, createPyodideModule: module.default, env: { PYTHONHASHSEED: "0" } };
  const pyodide = await loader.loadPyodide(options);
  await pyodide.loadPackage(manifest.packages, { messageCallback: () => undefined });
  pyodide.unpackArchive(wheel, "wheel");
  pyodide.unpackArchive(bench, "zip");
  const lanes = pyodide.pyimport("bench.lane");
  const lane = lanes.Lane(peer);
  return (command) => {
    const result = JSON.parse(lanes.answer(lane, JSON.stringify(command)));
    if (result.error) throw new Error(result.error);
    return result;
  };
});

"""The NumPy that pages load lacks what was stripped from it and nothing else."""

import json
from pathlib import Path

import pytest

from builder.runtime import prepare_runtime
from builder.serve import running
from widgets._runtime.store import cache_folder

pytestmark = pytest.mark.browser

PAGE = "<!doctype html><title>wait</title><script type=module src=main.js></script>"
MAIN = """
const worker = new Worker("worker.js", { type: "module" });
worker.onmessage = ({ data }) => { window.result = data; document.title = "done"; };
"""
WORKER = """
const base = new URL("BASE", import.meta.url).href;
try {
  const [{ loadPyodide }, { default: createPyodideModule }] =
    await Promise.all([import(base + "pyodide.js"), import(base + "pyodide.asm.js")]);
  const pyodide = await loadPyodide({ indexURL: base, createPyodideModule, packages: ["numpy"] });
  const code = await (await fetch("probe.py")).text();
  postMessage(pyodide.runPython(code));
} catch (error) { postMessage(JSON.stringify({ error: String(error) })); }
"""
PROBE = """
import json
import numpy as np

missing = []
for name in np.__all__:
    try:
        getattr(np, name)
    except ImportError:
        missing.append(name)
values = np.random.Generator(np.random.PCG64(np.random.SeedSequence([1, 2]))).random((50, 4))
measured = [np.median(values), np.quantile(values, 0.3), np.std(values), np.linalg.norm(values), np.unique(values).size]
json.dumps({"version": np.__version__, "missing": sorted(missing), "finite": bool(np.isfinite(measured).all())})
"""


def test_only_what_was_stripped_is_missing_from_numpy_in_the_page(chromium, tmp_path):
    manifest = prepare_runtime(tmp_path / "pyodide", None, cache_folder(), print)
    worker = WORKER.replace("BASE", manifest["base"])
    for name, content in {"index.html": PAGE, "main.js": MAIN, "worker.js": worker, "probe.py": PROBE}.items():
        Path(tmp_path, name).write_text(content, encoding="utf-8")
    with running(tmp_path, prefix="/curs/ia/") as url:
        page = chromium.new_page()
        page.goto(url)
        page.wait_for_function("document.title === 'done'", timeout=120_000)
        found = json.loads(page.evaluate("window.result"))
        page.close()
    version = next(file["name"].split("-")[1] for file in manifest["files"] if file["name"].startswith("numpy-"))
    assert found == {"version": version, "missing": ["f2py", "fft", "polynomial", "testing"], "finite": True}

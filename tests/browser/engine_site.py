"""A site with nothing but the engine: the real runtime, and the course's wheel with one more widget that misbehaves."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from builder.runtime import prepare_runtime
from builder.wheel import build_wheel, describe_wheel
from widgets._runtime.store import cache_folder

ROOT = Path(__file__).resolve().parents[2]
POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; connect-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'"
)

TOY_LABELS = """
title = "Joguina"
question = "?"
[predict]
kind = "choice"
question = "?"
options = [{ value = "yes", text = "Sí" }, { value = "no", text = "No" }]
right = "Sí."
wrong = "No."
[parameters]
steps = { label = "Passos" }
pace = { label = "Pas" }
fault = { label = "Avaria" }
port = { label = "Port" }
seed = { label = "Llavor" }
[stages]
train = "Entrenant"
[series]
direct = { label = "Directe", colour = "direct" }
[readouts]
half = { label = "Meitat", format = "integer" }
[[panels]]
id = "p"
title = "P"
series = ["direct"]
x = { label = "x", format = "integer" }
y = { label = "y", format = "number" }
[notes]
[asides]
need = {}
"""

TOY = '''
"""A widget for tests of the engine: some steps of a given length, a small training half-way, and faults at will."""

import time

from minigpt import recipes
from minigpt.lab import SEED, Aside, ModelKey, Need, Parameter, point, progress, readout, sample

PARAMETERS = (
    Parameter("steps", "integer", default=10, minimum=1, maximum=100000),
    Parameter("pace", "integer", default=2, minimum=0, maximum=60000),
    Parameter("fault", "choice", default="none", options=("none", "hang", "error", "reach")),
    Parameter("port", "integer", default=0, minimum=0, maximum=65535),
    SEED,
)
SERIES = ("direct",)
READOUTS = ("half",)


def experiment(parameters, lab):
    for step in range(parameters["steps"]):
        end = time.perf_counter() + parameters["pace"] / 1000
        while time.perf_counter() < end:
            pass
        yield progress("train", step, parameters["steps"])
        yield point("direct", step, step / 2)
        if step == parameters["steps"] // 2:
            yield from recipes.train(lab, ("direct",), parameters["seed"], steps=20)
            yield readout("half", step)
            while parameters["fault"] == "hang":
                pass
            if parameters["fault"] == "error":
                raise ValueError("it broke")
            if parameters["fault"] == "reach":
                reach(parameters["port"])
    yield sample("values", {"list": [1, None, 2.5]})


def reach(port):
    """Ask another origin for something, as Python in the page could."""
    from js import XMLHttpRequest

    request = XMLHttpRequest.new()
    request.open("GET", f"http://127.0.0.1:{port}/secret", False)
    request.send()


def reread(samples, parameters):
    assert samples["values"]["list"] == [1, None, 2.5], samples
    return {"half": parameters["steps"] / 2}, {"direct": [[0, parameters["steps"]]]}


def explain(parameters, readouts, series):
    return []


def need(parameters, lab):
    model = yield Need(ModelKey("direct", 20, parameters["seed"]))
    yield sample("size", {"size": int(model.size)})


ASIDES = {"need": Aside(parameters=(SEED,), experiment=need)}
'''

PAGE = """<!doctype html><html lang="ca"><meta charset="utf-8"><title>Motor</title>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<script type="application/json" id="raona-config">{config}</script>
<body><script type="module" src="assets/engine.js"></script></body></html>
"""

ENTRY = """
import {{ Runtime, runtimeConfig }} from "{engine}/runtime.ts";
import {{ openStorage }} from "{engine}/storage.ts";
import {{ STRINGS }} from "{engine}/strings.ts";

const site = JSON.parse(document.getElementById("raona-config").textContent);
const log = [];
const storages = {{}};
globalThis.engine = {{
  log, STRINGS, openStorage, site,
  create: (options = {{}}) => {{
    const runtime = (globalThis.runtime = new Runtime({{ ...runtimeConfig(site), ...options }}));
    runtime.subscribe((status, stage, error) => log.push({{ status, stage, error }}));
    runtime.onNotice((notice) => log.push({{ notice }}));
    return runtime;
  }},
  run: (name, widget, parameters, entry) => {{
    const run = {{ states: [], events: [], result: null }};
    run.handle = globalThis.runtime.start(widget, parameters, {{
      state: (state, detail) => run.states.push(detail === undefined ? state : [state, detail]),
      event: (event) => run.events.push(event),
      done: (result) => {{ run.result = result; run.states.push("done"); }},
    }}, entry);
    (globalThis.runs ??= {{}})[name] = run;
  }},
}};
globalThis.engineReady = true;
"""


def build_engine_site(out: Path) -> Path:
    """Fill `out`/site with index.html, assets, pyodide/ and runtime/."""
    source = out / "source"
    for package in ("minigpt", "widgets"):
        ignored = shutil.ignore_patterns("*.ts", "__pycache__", "node_modules")
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", source)
    toy = source / "widgets" / "toy"
    toy.mkdir()
    (toy / "__init__.py").write_text("from widgets._runtime.notebook import door\n\nrun = door(__name__)\n")
    (toy / "experiment.py").write_text(TOY)
    (toy / "labels.toml").write_text(TOY_LABELS)

    site = out / "site"
    manifest = prepare_runtime(site / "pyodide", None, cache_folder(), lambda _: None)
    manifest["wheel"] = describe_wheel(build_wheel(site / "runtime", root=source), site)
    return build_page(out, manifest)


def build_page(out: Path, manifest: dict[str, Any]) -> Path:
    """Fill `out`/site with index.html and assets only: enough for what needs no Python."""
    site = out / "site"
    entry = out / "engine.js"
    entry.parent.mkdir(parents=True, exist_ok=True)
    engine = ROOT / "widgets" / "_runtime" / "engine"
    entry.write_text(ENTRY.format(engine=engine.as_posix()))
    command = [ROOT / "node_modules" / ".bin" / "esbuild", "--bundle", "--format=esm", "--splitting", "--minify"]
    command += [f"--outdir={site / 'assets'}", "--log-level=warning", "--charset=utf8"]
    subprocess.run([*command, f"engine={entry}", f"worker={engine / 'worker.ts'}"], check=True, cwd=ROOT)
    runtime = {**manifest, "worker": "assets/worker.js"}
    config = {"root": "./", "course": "prova", "version": "0.1.0", "runtime": runtime}
    page = PAGE.format(policy=POLICY, config=json.dumps(config))
    (site / "index.html").write_text(page, encoding="utf-8")
    return site

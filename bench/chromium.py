"""Chromium: the page whose workers are lanes, and what has to be built and served for it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page

from bench.lanes import NPM_PACKAGES, PYTHON_EXTRA, ROOT, LaneError, PeerInfo
from bench.material import Material, packed

BENCH = Path(__file__).resolve().parent
BROWSER_FILES = BENCH / "browser"
MODULES = BENCH / "node_modules"
TFJS_FILES = MODULES / "@tensorflow" / "tfjs-backend-wasm" / "dist"
ORT_FILES = MODULES / "onnxruntime-web" / "dist"
PYTHON_FILES = ("__init__.py", "lane.py", "material.py", "workload.py", "peers/__init__.py", "peers/ours.py")


def options() -> dict[str, Any]:
    """How Chromium is launched; without the flags it asks for updates and experiments, also in the middle of a run."""
    from builder.environment import find_browser

    found = find_browser(Path(sys.executable))
    if found is None:
        raise LaneError("no Chromium was found: make install-tests, or name one in RAONA_BROWSER")
    quiet = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return {"executable_path": os.fspath(found), "args": [*quiet, "--disable-sync", *root]}


def site_config(site: Path) -> dict[str, Any]:
    """#raona-config of the widget's page."""
    text = (site / "widget" / "cot" / "index.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="raona-config">(.*?)</script>', text, re.DOTALL)
    assert found, "the built page has no #raona-config"
    return json.loads(found[1])


class Files:
    """The served folder: `site/`, and `bench/` with the page, its workers and what they load."""

    def __init__(self, root: Path, site: Path):
        self.root, self.bench, self.site = root, root / "bench", site
        self.bench.mkdir(parents=True)
        shutil.copy(BROWSER_FILES / "page.html", self.bench / "index.html")
        self._bundle("page", "python_lane", "simd_lane")
        self._python()

    def _bundle(self, *names: str) -> None:
        esbuild = ROOT / "node_modules" / ".bin" / "esbuild"
        entries = [str(BROWSER_FILES / f"{name}.js") for name in names]
        command = [esbuild, *entries, "--bundle", "--format=esm", "--minify", "--target=es2022", "--log-level=error"]
        done = subprocess.run([*command, f"--outdir={self.bench}"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise LaneError(f"esbuild failed on {', '.join(names)}: {done.stderr.strip()[:300]}")

    def _python(self) -> None:
        """Bench's own Python, unpacked beside the course's wheel."""
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for name in PYTHON_FILES:
                archive.write(BENCH / name, f"bench/{name}")
        (self.bench / "python.zip").write_bytes(data.getvalue())

    def add_tfjs(self) -> None:
        if not TFJS_FILES.is_dir():
            raise LaneError(f"not installed: {NPM_PACKAGES}")
        self._bundle("tfjs_lane")
        folder = self.bench / "tfjs"
        folder.mkdir()
        for path in TFJS_FILES.glob("*.wasm"):
            shutil.copy(path, folder)

    def add_ort(self, materials: dict[str, Material]) -> None:
        """materials: by the folder that their graphs get."""
        if not ORT_FILES.is_dir():
            raise LaneError(f"not installed: {NPM_PACKAGES}")
        self._bundle("ort_lane")
        folder = self.bench / "ort"
        folder.mkdir()
        for path in ORT_FILES.glob("ort-training-wasm-simd*"):
            shutil.copy(path, folder)
        given = json.dumps({name: packed(material) for name, material in materials.items()})
        command = [sys.executable, "-W", "ignore", "-m", "bench.ort_graphs", self.bench / "graphs"]
        done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=ROOT, check=False)
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1][:200]
            if "ModuleNotFoundError" in reason or "ImportError" in reason:
                raise LaneError(f"its graphs cannot be made ({reason}): {PYTHON_EXTRA} (on Python 3.11 or older)")
            raise LaneError(f"its graphs cannot be made: {reason}")


class ChromiumLane:
    """A worker of the bench page."""

    def __init__(self, page: Page, address: str, peer: PeerInfo, files: Files):
        self.page, self.name = page, peer.name
        bench = f"{address}bench/"
        if peer.where == "pyodide":
            site = f"{address}site/"
            manifest = site_config(files.site)["runtime"]
            given = {"site": site, "manifest": manifest, "code": f"{bench}python.zip"}
            self._open("python_lane.js", {**given, "peer": peer.name.removesuffix("-chromium")})
        elif peer.where == "tfjs":
            self._open("tfjs_lane.js", {"files": f"{bench}tfjs/"})
        elif peer.where == "ort":
            self._open("ort_lane.js", {"files": f"{bench}ort/", "graphs": f"{bench}graphs/"})
        else:
            self._open("simd_lane.js", {"file": f"{bench}simd.wasm"})

    def _open(self, file: str, given: dict[str, Any]) -> None:
        self._call("([name, file, given]) => lanes.open(name, file, given)", [self.name, file, given])

    def ask(self, **command: Any) -> dict[str, Any]:
        return self._call("([name, command]) => lanes.ask(name, command)", [self.name, command])

    def _call(self, script: str, given: list[Any]) -> Any:
        try:
            return self.page.evaluate(script, given)
        except Error as error:
            reason = error.message.splitlines()[0].removeprefix("Page.evaluate: ").removeprefix("Error: ")
            raise LaneError(reason[:300]) from None

    def close(self) -> None:
        pass  # the worker goes with the page

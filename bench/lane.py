"""One peer, waiting for commands: `python -m bench.lane NAME` reads them from stdin, one JSON object a line.

In Chromium the same `Lane` runs in Pyodide and gets its commands by messages (browser/python_lane.js).
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from bench.material import Material, unpack
from bench.workload import check, timed
from minigpt.model import ModelShape

MODULES = {
    "kernel": ("bench.peers.ours", "Own", ("kernel",)),
    "numpy": ("bench.peers.ours", "Own", ("numpy",)),
    "torch-eager": ("bench.peers.pytorch", "Eager", ()),
    "torch-compiled": ("bench.peers.pytorch", "Compiled", ()),
    "jax-jit": ("bench.peers.jax_jit", "Jit", ()),
    "jax-scan": ("bench.peers.jax_jit", "Scanned", ()),
}
"""Module, class and arguments of each peer, imported only when it is asked for."""


class Lane:
    def __init__(self, name: str):
        module, peer, arguments = MODULES[name]
        self.peer = getattr(importlib.import_module(module), peer)(*arguments)
        self.material: Material | None = None

    def handle(self, command: dict[str, Any]) -> dict[str, Any]:
        """Answer to one command: describe, load, check, time, cot."""
        match command["do"]:
            case "describe":
                return {"versions": self.peer.versions()}
            case "load":
                arrays = {name: unpack(array) for name, array in command["material"]["arrays"].items()}
                self.material = Material(ModelShape(**command["material"]["shape"]), arrays)
                return {}
            case "check":
                return check(self.peer, self.material)
            case "time":
                return timed(self.peer, self.material, command["work"], command["seconds"])
            case "cot":
                return self.peer.whole_cot()
        raise ValueError(f"unknown command {command['do']!r}")


def answer(lane: Lane, line: str) -> str:
    """JSON of the answer, or of the error that came instead."""
    try:
        return json.dumps(lane.handle(json.loads(line)))
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"})


def main(name: str) -> None:
    try:
        lane = Lane(name)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(answer(lane, line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

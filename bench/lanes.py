"""The lanes in which peers are timed: a process each natively, a worker each in Chromium, under the same commands."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
PYTHON_EXTRA = "pip install --no-build-isolation --editable '.[bench]'"
NPM_PACKAGES = "npm ci --prefix bench"


class LaneError(Exception):
    """A lane that cannot be timed; the message stands in the table instead of numbers."""


@dataclass(frozen=True)
class PeerInfo:
    """A row of the tables. install: the command that brings what it needs, if it is not part of the project."""

    name: str
    title: str
    where: str
    own: bool = False
    install: str = ""
    grows: bool = True


PEERS = (
    PeerInfo("kernel-chromium", "kernel, Chromium", "pyodide", own=True),
    PeerInfo("kernel-native", "kernel, native", "native", own=True),
    PeerInfo("numpy-chromium", "NumPy reference, Chromium", "pyodide", own=True),
    PeerInfo("numpy-native", "NumPy reference, native", "native", own=True),
    PeerInfo("torch-eager", "PyTorch eager, native", "native", install=PYTHON_EXTRA),
    PeerInfo("torch-compiled", "torch.compile, native", "native", install=PYTHON_EXTRA, grows=False),
    PeerInfo("jax-jit", "JAX jit, native", "native", install=PYTHON_EXTRA),
    PeerInfo("jax-scan", "JAX jit, 50 steps a call, native", "native", install=PYTHON_EXTRA, grows=False),
    PeerInfo("tfjs-wasm", "TensorFlow.js WASM, Chromium", "tfjs", install=NPM_PACKAGES),
    PeerInfo("ort-web", "ONNX Runtime Web training, Chromium", "ort", install=f"{PYTHON_EXTRA} and {NPM_PACKAGES}"),
)


class Lane(Protocol):
    def ask(self, **command: Any) -> dict[str, Any]:
        """The answer to a command; see bench/lane.py. Raises LaneError."""
        ...

    def close(self) -> None: ...


class NativeLane:
    """A process of `bench.lane`."""

    def __init__(self, peer: PeerInfo):
        # Set where old OpenBLAS builds misbehave; they slow a current NumPy, and with it every comparison, down.
        hindering = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
        environment = {name: value for name, value in os.environ.items() if name not in hindering}
        if peer.name.startswith("torch"):
            environment["OMP_NUM_THREADS"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "bench.lane", peer.name.removesuffix("-native")],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            first = self._answer()
            if "missing" in first:
                raise LaneError(f"not installed ({first['missing']}): {peer.install}")
        except LaneError:
            self.close()
            raise

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended: there is no answer to be read either
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise LaneError(f"its process ended with status {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise LaneError(answer["error"])
        return answer

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

"""The course's two backends, used as the course uses them."""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.workload import BETA1, BETA2, CLIP_NORM, EPSILON, RATE
from minigpt.backend import AdamState, open_backend
from minigpt.model import ModelShape


class Own:
    def __init__(self, name: str):
        self.backend = open_backend(name)

    def versions(self) -> dict[str, str]:
        where = "Pyodide" if sys.platform == "emscripten" else "natively"
        return {"Python": f"{platform.python_version()} {where}", "NumPy": np.__version__}

    def load(self, shape: ModelShape, parameters: np.ndarray) -> None:
        self.shape, self.parameters, self.reference = shape, parameters.copy(), parameters.copy()
        self.state = AdamState.like(self.parameters, beta1=BETA1, beta2=BETA2, epsilon=EPSILON)

    def step(self, tokens: np.ndarray, weights: np.ndarray) -> None:
        self.backend.sft_step(self.parameters, tokens, weights, self.state, RATE, self.shape, clip_norm=CLIP_NORM)

    def logprobs(self, tokens: np.ndarray, *, reference: bool = False) -> np.ndarray:
        parameters = self.reference if reference else self.parameters
        inputs, targets = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
        return self.backend.token_logprobs(self.backend.forward(parameters, inputs, self.shape).logits, targets)

    def decode(self, prompts: np.ndarray, length: int, uniforms: np.ndarray | None) -> np.ndarray:
        return self.backend.decode(self.parameters, prompts, length, self.shape, uniforms=uniforms).tokens

    def finish(self) -> None:
        pass

    def whole_cot(self) -> dict[str, Any]:
        """The widget's own experiment, from the command line's door."""
        from widgets._runtime.native import run_to_end
        from widgets._runtime.store import FileStore

        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            record = run_to_end("cot", {}, backend=self.backend.name, store=FileStore(Path(folder)))
            seconds = time.perf_counter() - start
        return {"ms": seconds * 1000, "digest": record["digest"]}

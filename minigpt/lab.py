"""What an experiment is made of: validated parameters, events, named streams, and the models it asks for.

An experiment is a generator. It yields JSON-ready events (a checkpoint's bytes are the one exception), `None` when a
slice of work is done and there is nothing to report, and `Need` when it lacks a model:

    model = yield Need(ModelKey("reasoned", 500, seed=1))

Whoever drives it (browser worker, command line, notebook, test) answers by `.send()`. It yields at least every 20 ms of
kernel time, so that pause, stop and a second run are honoured in between.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from minigpt import streams
from minigpt.backend import DEFAULT_BACKEND, Backend, open_backend
from minigpt.checkpoint import save_model
from minigpt.model import COURSE_SHAPE, ModelShape
from minigpt.task import FORMATS

Event = dict[str, Any]
Experiment = Generator[Any, Any, Any]

RECIPE_SOURCES = ("task.py", "streams.py", "model.py", "backend.py", "supervised.py", "recipes.py")
BACKEND_SOURCES = {
    "numpy": ("reference.py",),
    "kernel": ("kernel/kernel.c", "kernel/build.py", "kernel/__init__.py"),
}


class ParameterError(ValueError):
    """A parameter is unknown, malformed or out of range. The message says which, and what was expected."""


@dataclass(frozen=True)
class Parameter:
    """One control of a widget, in the page's units.

    kind: "choice" (one of options), "integer", "number" or "percent" (a whole number of per cent).
    rereads: true if changing it only reads the samples of a finished run again, which a page does at once.
    """

    name: str
    kind: str
    default: Any
    options: tuple = ()
    minimum: float | None = None
    maximum: float | None = None
    step: float = 1
    rereads: bool = False

    def __post_init__(self):
        if self.kind not in ("choice", "integer", "number", "percent"):
            raise ValueError(f"parameter {self.name!r} has unknown kind {self.kind!r}")
        self.check(self.default)

    def check(self, value: Any) -> Any:
        """The value, of the right type. A string is read as a number, as the command line and links give it."""
        if isinstance(value, str):
            value = self._from_text(value)
        if self.kind == "choice":
            if value not in self.options or isinstance(value, bool):
                raise ParameterError(f"{self.name} must be one of {', '.join(map(str, self.options))}, got {value!r}")
            return self.options[self.options.index(value)]
        whole = self.kind in ("integer", "percent")
        if isinstance(value, float) and whole and value.is_integer():
            value = int(value)
        allowed = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed) or not self._within(value):
            what = "a whole number" if whole else "a number"
            raise ParameterError(f"{self.name} must be {what} from {self.minimum} to {self.maximum}, got {value!r}")
        return value if whole else float(value)

    def _within(self, value) -> bool:
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return math.isfinite(value) and low <= value <= high

    def _from_text(self, text: str) -> Any:
        for option in self.options:
            if text == str(option):
                return option
        for read in (int, float):
            try:
                return read(text)
            except ValueError:
                continue
        return text

    def describe(self) -> dict[str, Any]:
        description: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "default": self.default,
            "rereads": self.rereads,
        }
        if self.kind == "choice":
            return {**description, "options": list(self.options)}
        return {**description, "minimum": self.minimum, "maximum": self.maximum, "step": self.step}


SEED = Parameter("seed", "integer", default=1, minimum=0, maximum=streams.SEED_LIMIT - 1)


def check_parameters(parameters: tuple[Parameter, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Defaults filled in, every value checked. Raises ParameterError for an unknown name or a bad value."""
    known = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in known:
            raise ParameterError(f"there is no parameter {name!r}: expected one of {', '.join(known)}")
    return {name: parameter.check(given.get(name, parameter.default)) for name, parameter in known.items()}


@dataclass(frozen=True)
class ModelKey:
    """Which model: what it was shown, for how many supervised steps, from which seed."""

    format: str
    steps: int
    seed: int

    def __post_init__(self):
        if self.format not in FORMATS:
            raise ValueError(f"unknown format {self.format!r}: expected one of {', '.join(FORMATS)}")
        if not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps must be a positive whole number, got {self.steps!r}")


@dataclass(frozen=True)
class Need:
    """Yielded by an experiment that lacks a model; the answer sent back is its flat float32 parameters."""

    key: ModelKey


@cache
def recipe_digest(backend: str) -> str:
    """sha256 of the sources that decide a checkpoint's bits, the kernel's compiler and its flags included.

    A changed recipe or kernel never reuses old weights.
    """
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for name in (*RECIPE_SOURCES, *BACKEND_SOURCES[backend]):
        digest.update(name.encode() + b"\0" + (root / name).read_bytes() + b"\0")
    return digest.hexdigest()


@dataclass
class Lab:
    """What an experiment may use: the compute backend, its seed's random streams, and its models' names."""

    seed: int
    backend: Backend = field(default_factory=lambda: open_backend(DEFAULT_BACKEND))
    shape: ModelShape = COURSE_SHAPE

    def stream(self, name: str) -> np.random.Generator:
        return streams.stream(self.seed, name)

    def uniforms(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        return streams.uniforms(self.seed, name, shape)

    def key_text(self, key: ModelKey) -> str:
        return f"{key.format}/{key.steps}/{key.seed}/{self.backend.name}/{recipe_digest(self.backend.name)[:16]}"

    def checkpoint(self, key: ModelKey, parameters: np.ndarray) -> Event:
        metadata = {
            "format": key.format,
            "steps": str(key.steps),
            "seed": str(key.seed),
            "backend": self.backend.name,
            "recipe": recipe_digest(self.backend.name),
        }
        return {
            "type": "checkpoint",
            "key": self.key_text(key),
            "format": key.format,
            "steps": key.steps,
            "seed": key.seed,
            "data": save_model(parameters, metadata, self.shape),
        }


def progress(stage: str, done: float, total: float) -> Event:
    """How far the whole run is: `done` of `total`, in units of about equal time."""
    return {"type": "progress", "stage": stage, "done": done, "total": total}


def point(series: str, x: float, y: float) -> Event:
    return {"type": "point", "series": series, "x": x, "y": float(y)}


def readout(name: str, value: float) -> Event:
    return {"type": "readout", "name": name, "value": float(value)}


def sample(name: str, data: Any) -> Event:
    """What was sampled, kept so that a control which only reads it can answer at once."""
    return {"type": "sample", "name": name, "data": data}


def note(name: str, **values: float) -> Event:
    """A remark on the run: the name of a text in the widget's labels, and the numbers to put in it."""
    return {"type": "note", "name": name, "values": values}


@dataclass(frozen=True)
class Aside:
    """A small experiment beside the main one, such as trying a sum of one's own."""

    parameters: tuple[Parameter, ...]
    experiment: Callable[[dict[str, Any], Lab], Experiment]

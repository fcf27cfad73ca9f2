"""Finds the widgets and holds each to the contract: what its experiment declares, its labels must name."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from minigpt.lab import Aside, Experiment, Lab, ModelKey, Parameter, check_parameters
from widgets._runtime.catalan import FORMATS, fill

WIDGETS = Path(__file__).parent.parent
REQUIRED_LABELS = ("title", "question", "predict", "stages", "panels", "notes")
MAIN = "experiment"
"""Name of a widget's main entry; its asides have their own."""


class WidgetError(Exception):
    """A widget breaks the contract, or there is no such widget. The message says what was expected."""


@dataclass(frozen=True)
class Widget:
    """One widget: its experiment, what it declares, and its Catalan texts."""

    id: str
    folder: Path
    module: ModuleType
    labels: dict[str, Any]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.module.PARAMETERS

    @property
    def readouts(self) -> tuple[str, ...]:
        return self.module.READOUTS

    @property
    def series(self) -> tuple[str, ...]:
        return self.module.SERIES

    @property
    def asides(self) -> dict[str, Aside]:
        return getattr(self.module, "ASIDES", {})

    def entry(self, name: str) -> tuple[tuple[Parameter, ...], Callable[[dict, Lab], Experiment]]:
        """Parameters and generator function of the main experiment or of an aside."""
        if name == MAIN:
            return self.parameters, self.module.experiment
        if name not in self.asides:
            raise WidgetError(f"widget {self.id!r} has no part {name!r}: expected {', '.join([MAIN, *self.asides])}")
        return self.asides[name].parameters, self.asides[name].experiment

    def check(self, given: dict[str, Any], entry: str = MAIN) -> dict[str, Any]:
        """Validated parameters of an entry, defaults filled in. Raises ParameterError."""
        return check_parameters(self.entry(entry)[0], given)

    def produces(self, parameters: dict[str, Any]) -> list[ModelKey]:
        return self.module.produces(parameters) if hasattr(self.module, "produces") else []

    def reread(self, samples: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """A finished run's samples read again: {readouts, series (those that change), explanation, outcome}."""
        parameters = self.check(given)
        readouts, series = self.module.reread(samples, parameters)
        explanation = self.explanation(parameters, readouts, series)
        return {
            "readouts": readouts,
            "series": series,
            "explanation": explanation,
            "outcome": self.outcome(readouts),
        }

    def note(self, name: str, values: dict[str, Any]) -> str:
        return fill(self.labels["notes"][name], values)

    def explanation(self, parameters: dict, readouts: dict, series: dict) -> str:
        """One Catalan paragraph with the measured numbers."""
        return " ".join(self.note(*chosen) for chosen in self.module.explain(parameters, readouts, series))

    def outcome(self, readouts: dict) -> str | None:
        """The option of the prediction that came true, if the prediction is a choice."""
        return self.module.outcome(readouts) if hasattr(self.module, "outcome") else None

    def describe(self, backend: str) -> dict[str, Any]:
        """What the page knows of the widget, JSON-ready."""
        return {
            "id": self.id,
            "parameters": [parameter.describe() for parameter in self.parameters],
            "readouts": list(self.readouts),
            "series": list(self.series),
            "asides": {
                name: {"parameters": [parameter.describe() for parameter in aside.parameters]}
                for name, aside in self.asides.items()
            },
            "labels": self.labels,
            "backend": backend,
        }


def _import(folder: Path) -> ModuleType:
    if folder.parent.resolve() == WIDGETS.resolve():
        if not hasattr(importlib.import_module(f"widgets.{folder.name}"), "run"):
            raise WidgetError(
                f"widget {folder.name!r}: its __init__.py must define `run = door(__name__)`, the notebooks' door"
            )
        return importlib.import_module(f"widgets.{folder.name}.experiment")
    name = f"_raona_widget_{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, folder / "experiment.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def _faults_of_labels(widget: Widget) -> list[str]:
    """What the labels lack, or say of something that is not there."""
    labels = widget.labels
    faults = [f"lacks {key}" for key in REQUIRED_LABELS if key not in labels]
    for table, names in (
        ("parameters", [parameter.name for parameter in widget.parameters]),
        ("readouts", widget.readouts),
        ("series", widget.series),
    ):
        for name in names:
            entry = labels.get(table, {}).get(name, {})
            faults += [f"lacks {table}.{name}.label"] if "label" not in entry else []
            if entry.get("format", "number") not in FORMATS:
                faults.append(f"{table}.{name}.format is {entry['format']!r}, expected one of {', '.join(FORMATS)}")
        faults += [f"{table}.{name} is not declared" for name in sorted(set(labels.get(table, {})) - set(names))]
    faults += [f"lacks asides.{name}" for name in widget.asides if name not in labels.get("asides", {})]
    drawn = {name for panel in labels.get("panels", []) for name in panel.get("series", [])}
    faults += [f"no panel draws the series {name!r}" for name in widget.series if name not in drawn]
    faults += [f"a panel draws the unknown series {name!r}" for name in sorted(drawn - set(widget.series))]
    for panel in labels.get("panels", []):
        faults += [f"a panel lacks {key}" for key in ("id", "title", "x", "y") if key not in panel]
    return faults


def load(folder: Path) -> Widget:
    """One widget from its folder. Raises WidgetError if it breaks the contract."""
    id = folder.name.replace("_", "-")
    module = _import(folder)
    for name in ("PARAMETERS", "SERIES", "READOUTS", "experiment", "reread", "explain"):
        if not hasattr(module, name):
            raise WidgetError(f"widget {id!r}: its experiment.py must define {name}")
    labels_file = folder / "labels.toml"
    if not labels_file.is_file():
        raise WidgetError(f"widget {id!r}: {labels_file.name} is missing; it holds the widget's Catalan texts")
    try:
        labels = tomllib.loads(labels_file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise WidgetError(f"widget {id!r}: {labels_file.name} is not TOML: {error}") from None
    widget = Widget(id, folder, module, labels)
    faults = _faults_of_labels(widget)
    if faults:
        raise WidgetError(f"widget {id!r}: {labels_file.name}: {'; '.join(faults)}")
    return widget


@cache
def discover(root: Path = WIDGETS) -> dict[str, Widget]:
    """Every widget of a folder, by id. Raises WidgetError if there is none: a course without widgets is a mistake."""
    folders = sorted(path.parent for path in root.glob("*/experiment.py") if re.match(r"[a-z]", path.parent.name))
    if not folders:
        raise WidgetError(f"no widget in {root}: expected folders with an experiment.py")
    return {widget.id: widget for widget in map(load, folders)}


def find(id: str, root: Path = WIDGETS) -> Widget:
    widgets = discover(root)
    if id not in widgets:
        raise WidgetError(f"there is no widget {id!r}: expected one of {', '.join(widgets)}")
    return widgets[id]

"""The notebook's door: `cot.run(seed=7).plot()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minigpt.backend import DEFAULT_BACKEND
from widgets._runtime.catalan import format_number
from widgets._runtime.native import run_to_end
from widgets._runtime.registry import Widget, find


@dataclass(frozen=True)
class Result:
    """A finished run: `readouts`, `series`, `samples`, `explanation`; shown as a table, drawn by `plot`."""

    widget: Widget
    record: dict[str, Any]

    @property
    def readouts(self) -> dict[str, float]:
        return self.record["readouts"]

    @property
    def series(self) -> dict[str, list[list[float]]]:
        return self.record["series"]

    @property
    def samples(self) -> dict[str, Any]:
        return self.record["samples"]

    @property
    def explanation(self) -> str:
        return self.record["explanation"]

    def plot(self):
        """The widget's figure as a matplotlib Figure."""
        from widgets._runtime.figure import draw

        return draw(self.widget, self.record)

    def __str__(self) -> str:
        labels = self.widget.labels["readouts"]
        rows = [
            f"{labels[name]['label']}: {format_number(value, labels[name].get('format', 'number'))}"
            for name, value in self.readouts.items()
        ]
        return "\n".join([*rows, self.explanation])

    __repr__ = __str__


def door(package: str) -> Callable[..., Result]:
    """The `run` function of a widget's package, as `run(seed=7, k=3, backend="numpy")`.

    Names of parameters are written with underscores where they have hyphens (`model_seed`).
    """
    id = package.rpartition(".")[2].replace("_", "-")

    def run(*, backend: str = DEFAULT_BACKEND, **parameters: Any) -> Result:
        given = {name.replace("_", "-"): value for name, value in parameters.items()}
        return Result(find(id), run_to_end(id, given, backend=backend))

    run.__doc__ = f"Run the experiment of widget {id!r} to its end; unknown or bad parameters raise ParameterError."
    return run

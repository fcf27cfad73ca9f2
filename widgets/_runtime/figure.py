"""A run's figure in matplotlib: recorded figures of the pages, and `.plot()` in notebooks.

Deterministic: the same record gives the same bytes. Text is drawn as outlines: an image cannot use the page's fonts.
"""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure

from widgets._runtime.catalan import format_number
from widgets._runtime.registry import Widget

PALETTE_FILE = Path(__file__).parents[2] / "theme" / "palette.json"
PANEL_WIDTH, PANEL_HEIGHT = 4.6, 3.3
LABEL_GAP = 0.055
"""Least distance between two direct labels, in shares of the panel's height."""

SETTINGS = {
    "svg.hashsalt": "raona",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@cache
def palette(theme: str) -> dict[str, str]:
    """Colours by name, for "light" or "dark": the same that the page uses."""
    groups = json.loads(PALETTE_FILE.read_text(encoding="utf-8"))[theme]
    return {**groups["interface"], **{f"series-{name}": colour for name, colour in groups["series"].items()}}


def draw(widget: Widget, record: dict[str, Any], *, dark: bool = False, font: Path | None = None) -> Figure:
    """One panel per `panels` entry of the labels, side by side, each series labelled at its end.

    font: a file of the page's typeface, which draws smaller than matplotlib's own and so gets larger sizes.
    """
    panels, colours = widget.labels["panels"], palette("dark" if dark else "light")
    settings = {**SETTINGS, **(_typeface(font) if font else {})}
    with matplotlib.rc_context({**settings, "text.color": colours["ink"], "axes.edgecolor": colours["line-strong"]}):
        figure = Figure(figsize=(PANEL_WIDTH * len(panels), PANEL_HEIGHT), layout="constrained")
        figure.patch.set_alpha(0)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw_panel(axes, widget, panel, record, colours)
    return figure


def _typeface(font: Path) -> dict[str, Any]:
    font_manager.fontManager.addfont(font)
    family = [font_manager.FontProperties(fname=font).get_name(), SETTINGS["font.family"]]
    return {"font.family": family, "font.size": 11, "xtick.labelsize": 10.5, "ytick.labelsize": 10.5}


def _draw_panel(axes, widget: Widget, panel: dict, record: dict, colours: dict[str, str]) -> None:
    axes.patch.set_alpha(0)
    size = matplotlib.rcParams["font.size"]
    axes.set_title(panel["title"], loc="left", fontsize=1.11 * size, color=colours["ink"], wrap=True)
    for axis, side in ((axes.xaxis, "x"), (axes.yaxis, "y")):
        format = panel[side].get("format", "number")
        axis.set_major_formatter(lambda value, _, format=format: format_number(value, format))
        axis.set_label_text(panel[side]["label"], color=colours["ink-faint"])
    # Said here, since an axis may make its ticks when it is drawn, outside of these settings.
    family, ticks = matplotlib.rcParams["font.family"], matplotlib.rcParams["xtick.labelsize"]
    axes.tick_params(colors=colours["ink-faint"], length=3, labelfontfamily=family, labelsize=ticks)
    axes.grid(axis="y", color=colours["line"], linewidth=0.6)
    axes.set_axisbelow(True)
    for limits, side in ((axes.set_xlim, "x"), (axes.set_ylim, "y")):
        if "minimum" in panel[side] and "maximum" in panel[side]:
            margin = 0.02 * (panel[side]["maximum"] - panel[side]["minimum"])
            limits(panel[side]["minimum"], panel[side]["maximum"] + margin)
    ends = []
    for name in panel["series"]:
        points = record["series"].get(name, [])
        if not points:
            continue
        label = widget.labels["series"][name]
        colour = colours[f"series-{label.get('colour', name)}"]
        style = "--" if label.get("dash") else "-"
        marker = "o" if len(points) <= 8 else None
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, style, color=colour, linewidth=1.8, marker=marker, markersize=4, clip_on=False)
        ends.append((ys[-1], label["label"], colour))
    _label_ends(axes, ends)


def _label_ends(axes, ends: list[tuple[float, str, str]]) -> None:
    """Direct labels right of the panel, pushed apart where the curves end together."""
    low, high = axes.get_ylim()
    size = 0.944 * matplotlib.rcParams["font.size"]
    reached = None
    for value, text, colour in sorted(ends, key=lambda end: end[0]):
        height = (value - low) / (high - low)
        height = height if reached is None else max(height, reached + LABEL_GAP)
        reached = height
        axes.annotate(
            text, (1.02, height), xycoords="axes fraction", color=colour, va="center", ha="left", fontsize=size
        )


def svg(figure: Figure) -> bytes:
    """The figure's SVG, with nothing in it that changes from one build to the next."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(SETTINGS):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return buffer.getvalue()

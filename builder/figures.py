"""The recorded figure of each widget: one reference run with default parameters, made at build time and drawn twice.

Both are kept in the cache under the digest of every source that can change them, so that a build with nothing new in
`minigpt` or `widgets` trains nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from builder import fonts
from builder.errors import BuildError
from builder.files import write_whole


@dataclass(frozen=True)
class Drawing:
    """One panel in both themes, each an SVG. width, height: CSS pixels."""

    light: bytes
    dark: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Figure:
    """A reference run and its panels, in the order of the labels; apart, so that a phone can stack them."""

    record: dict[str, Any]
    panels: list[Drawing]


class Recorder(Protocol):
    """What the build needs of widgets/_runtime: tests give a fake one."""

    def run(self, widget: str) -> dict[str, Any]: ...

    def draw(self, widget: str, record: dict[str, Any], *, dark: bool) -> list[bytes]: ...

    def run_sources(self, widget: str) -> Iterable[Path]: ...

    def draw_sources(self, widget: str) -> Iterable[Path]: ...


class NativeRecorder:
    """Runs and draws by the same functions as the command line and the notebooks."""

    def __init__(self, root: Path, backend: str, cache: Path):
        self.root, self.backend, self.cache = root, backend, cache

    def run(self, widget: str) -> dict[str, Any]:
        from widgets._runtime.native import run_to_end
        from widgets._runtime.store import FileStore

        return run_to_end(widget, {}, backend=self.backend, store=FileStore(self.cache / "checkpoints"))

    def draw(self, widget: str, record: dict[str, Any], *, dark: bool) -> list[bytes]:
        from widgets._runtime.figure import draw, svg
        from widgets._runtime.registry import find

        found = find(widget)
        alone = [replace(found, labels={**found.labels, "panels": [panel]}) for panel in found.labels["panels"]]
        font = fonts.drawing_font(self.root / "node_modules", self.cache)
        return [svg(draw(one, record, dark=dark, font=font)) for one in alone]

    def run_sources(self, widget: str) -> list[Path]:
        folder = self.root / "widgets" / widget.replace("-", "_")
        folders = (self.root / "minigpt", folder, self.root / "widgets/_runtime")
        return [
            path for place in folders for suffix in ("*.py", "*.toml", "*.c") for path in sorted(place.rglob(suffix))
        ]

    def draw_sources(self, widget: str) -> list[Path]:
        return [*self.run_sources(widget), self.root / "theme/palette.json", Path(__file__), Path(fonts.__file__)]


def reference_figure(
    widget: str, recorder: Recorder, cache: Path, say: Callable[[str], object], title: str = ""
) -> Figure:
    """The widget's recorded run and its drawings, from the cache if its sources have not changed."""
    import numpy

    stamp = f"python {sys.version_info[:2]} numpy {numpy.__version__}"
    run_key = _digest(recorder.run_sources(widget), stamp + widget)
    record_path = cache / "records" / f"{widget}-{run_key}.json"
    if record_path.is_file():
        record = json.loads(record_path.read_text(encoding="utf-8"))
    else:
        say(f"Recording the reference run of {widget} ({title or 'default parameters'})")
        # Through JSON and back, so that the first build and a cached one see the very same values.
        text = json.dumps(_plain(recorder.run(widget)), sort_keys=True, ensure_ascii=False)
        write_whole(record_path, text.encode())
        record = json.loads(text)
    draw_key = _digest(recorder.draw_sources(widget), stamp + run_key)
    themes = {}
    for name, dark in (("light", False), ("dark", True)):
        path = cache / "figures" / f"{widget}-{draw_key}-{name}.json"
        if not path.is_file():
            drawn = [svg.decode() for svg in recorder.draw(widget, record, dark=dark)]
            write_whole(path, json.dumps(drawn, ensure_ascii=False).encode())
        themes[name] = [svg.encode() for svg in json.loads(path.read_text(encoding="utf-8"))]
    pairs = zip(themes["light"], themes["dark"], strict=True)
    return Figure(record, [Drawing(light, dark, *_size(widget, light)) for light, dark in pairs])


def _plain(value: Any) -> Any:
    """JSON values only; arrays and bytes that a sample may hold are left out of the page's record."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items() if key != "samples"}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        return value.item()
    return value


def _digest(sources: Iterable[Path], stamp: str) -> str:
    digest = hashlib.sha256(stamp.encode())
    for path in sources:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:24]


def _size(widget: str, svg: bytes) -> tuple[int, int]:
    head = svg[:2000].decode("utf-8", "replace")
    match = re.search(r'<svg[^>]*?\bviewBox="0 0 ([\d.]+) ([\d.]+)"', head, re.S)
    if not match:
        raise BuildError(f"The figure of {widget} is no SVG with a viewBox.", "See widgets/_runtime/figure.py.")
    points = 96 / 72  # matplotlib writes its viewBox in points
    return round(float(match[1]) * points), round(float(match[2]) * points)

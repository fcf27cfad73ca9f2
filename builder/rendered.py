"""A page on its way to HTML: what was rendered, what is still to be checked, and placeholders for what comes later."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLACEHOLDER = re.compile("\ue000(\\w+):([^\ue001]*)\ue001")


def placeholder(kind: str, key: object) -> str:
    return f"\ue000{kind}:{key}\ue001"


def fill(html: str, kind: str, replacement: Callable[[str], str]) -> str:
    """Replace the placeholders of one kind by what `replacement` makes of their key."""
    return PLACEHOLDER.sub(lambda match: replacement(match[2]) if match[1] == kind else match[0], html)


@dataclass(frozen=True)
class Formula:
    tex: str
    display: bool
    path: Path
    line: int


@dataclass(frozen=True)
class Link:
    """A link to check: target page ("" is the home page) and fragment, or a glossary term."""

    target: str
    fragment: str
    line: int
    term: bool = False


@dataclass
class WidgetUse:
    id: str
    presets: dict[str, Any]
    caption: str
    instance: str
    line: int


@dataclass
class Section:
    id: str
    number: int | None
    title: str  # HTML
    html: str = ""
    has_formulas: bool = False  # a passage with two readings: "sense fórmules" changes it


@dataclass
class Rendered:
    lead: str = ""
    sections: list[Section] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)  # id -> line
    links: list[Link] = field(default_factory=list)
    widgets: list[WidgetUse] = field(default_factory=list)
    formulas: list[Formula] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    references: dict[str, str] = field(default_factory=dict)  # key -> text of a link to it
    cited: list[tuple[str, int]] = field(default_factory=list)

"""Which characters the built pages use, so that fonts can be cut to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Characters:
    text: set[str] = field(default_factory=set)
    headings: set[str] = field(default_factory=set)
    math: set[str] = field(default_factory=set)


class _Reader(HTMLParser):
    def __init__(self, found: Characters):
        super().__init__(convert_charrefs=True)
        self.found = found
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("h1", "h2", "math", "style"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("alt", "title", "aria-label", "placeholder", "value") and value:
                self.found.text.update(value)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if "math" in self.open:
            self.found.math.update(data)
        else:
            self.found.text.update(data)
            if self.open:
                self.found.headings.update(data)


def characters_of(texts: Iterable[str]) -> Characters:
    """Printable characters of HTML (or plain) texts: all, those in h1 and h2, and those in formulas."""
    found = Characters()
    for text in texts:
        reader = _Reader(found)
        reader.feed(text)
        reader.close()
    for characters in (found.text, found.headings, found.math):
        characters.difference_update(
            {character for character in characters if not character.isprintable()} - {"\u00a0"}
        )
        characters.difference_update(map(chr, range(0xE000, 0xE010)))
    return found

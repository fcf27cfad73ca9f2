"""Last look at what was built: every address in every page is relative, leads somewhere, and stays on this site."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from builder.errors import BuildError, Problem
from builder.rendered import PLACEHOLDER

FETCHED = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "srcset"),
    ("video", "src"),
    ("audio", "src"),
    ("object", "data"),
    ("embed", "src"),
}


@dataclass
class _Page:
    ids: dict[str, int] = field(default_factory=dict)
    links: list[tuple[str, str, str, int]] = field(default_factory=list)  # tag, attribute, address, line
    faults: list[tuple[str, int]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self, page: _Page):
        super().__init__(convert_charrefs=True)
        self.page = page
        self.script = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line = self.getpos()[0]
        values = dict(attrs)
        for name, value in attrs:
            if name == "id" and value:
                if value in self.page.ids:
                    self.page.faults.append((f"the id {value!r} occurs twice", line))
                self.page.ids.setdefault(value, line)
            elif name in ("href", "src", "srcset", "data", "action", "poster"):
                self.page.links.append((tag, name, value or "", line))
            elif name.startswith("on"):
                self.page.faults.append((f"an inline handler {name}, which the security policy blocks", line))
        if tag == "script" and "src" not in values and values.get("type") != "application/json":
            self.page.faults.append(("an inline script, which the security policy blocks", line))


def check_output(folder: Path) -> None:
    """Raises BuildError for a dangling, absolute or foreign address, a doubled id, or an unfilled placeholder."""
    pages: dict[str, _Page] = {}
    problems: list[Problem] = []
    files = sorted(folder.rglob("*.html"))
    if not files:
        raise BuildError("the build made no pages.", "Report this: it is a fault of the builder.")
    for file in files:
        text = file.read_text(encoding="utf-8")
        page = _Page()
        reader = _Reader(page)
        reader.feed(text)
        reader.close()
        pages[file.relative_to(folder).as_posix()] = page
        if match := PLACEHOLDER.search(text):
            page.faults.append(
                (f"an unfilled placeholder {match[1]}:{match[2]}", text[: match.start()].count("\n") + 1)
            )
    for name, page in pages.items():
        for fault, line in page.faults:
            problems.append(Problem(f"{fault}.", "Mend the template or the builder.", Path(name), line))
        for tag, attribute, address, line in page.links:
            fault = _fault(folder, pages, name, (tag, attribute) in FETCHED, address)
            if fault:
                problems.append(
                    Problem(
                        f"<{tag} {attribute}={address!r}>: {fault}.",
                        "Mend the template or the text that writes it.",
                        Path(name),
                        line,
                    )
                )
    if problems:
        raise BuildError(problems)


def _fault(folder: Path, pages: dict[str, _Page], name: str, fetched: bool, address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme == "data" and fetched:
        return ""
    if parts.scheme or parts.netloc:
        return "the page would fetch it from another site" if fetched else ""
    if address.startswith("/"):
        return "an absolute address, which breaks under a sub-path"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
    if path.startswith(".."):
        return "it leads out of the site"
    if parts.path.endswith("/") or (folder / path).is_dir():
        path = posixpath.normpath(posixpath.join(path, "index.html"))
    if not (folder / path).is_file():
        return "there is no such file"
    if parts.fragment and path in pages and unquote(parts.fragment) not in pages[path].ids:
        return f"{path} has no such id"
    return ""

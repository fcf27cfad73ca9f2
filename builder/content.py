"""Finds and reads the course's Markdown files: front matter, prerequisites, glossary; checks what points where."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from builder.dialect import PageRenderer, slug
from builder.errors import BuildError, Problems, expected
from builder.markup import HEADING_ID
from builder.rendered import Link, Rendered

STATUSES = ("ready", "planned")
LEVELS = ("inicial", "intermedi", "avançat")
LESSON_KEYS = ("title", "kind", "status", "block", "level", "time", "needs", "summary")
PAGE_KEYS = ("title", "kind", "status", "summary")
HOME, GLOSSARY = "inici", "glossari"


@dataclass
class Page:
    """One Markdown file. `body_line` is the line of the file where its body starts, from 1."""

    path: Path
    slug: str
    title: str
    kind: str = "page"
    status: str = "ready"
    block: int = 0
    level: str = ""
    time: str = ""
    needs: list[str] = field(default_factory=list)
    summary: str = ""
    body: str = ""
    body_line: int = 1
    key_lines: dict[str, int] = field(default_factory=dict)

    @property
    def is_lesson(self) -> bool:
        return self.kind == "lesson"

    @property
    def is_home(self) -> bool:
        return self.slug == HOME

    @property
    def url(self) -> str:
        """From the site's root: "" for the home page, else "slug/"."""
        return "" if self.is_home else f"{self.slug}/"


@dataclass
class Term:
    name: str
    slug: str
    line: int
    html: str = ""
    pages: list[Page] = field(default_factory=list)  # where it is linked from


@dataclass
class Course:
    """course.toml and every page of content/, lessons in an order that respects prerequisites."""

    id: str
    title: str
    settings: dict[str, Any]
    lessons: list[Page]
    pages: list[Page]
    glossary: Page | None
    depths: dict[str, int]  # lesson -> longest chain of prerequisites before it

    @property
    def all(self) -> list[Page]:
        return [*self.lessons, *self.pages, *([self.glossary] if self.glossary else [])]

    def lesson(self, name: str) -> Page:
        return next(page for page in self.lessons if page.slug == name)


def read_course(course_file: Path, content: Path, problems: Problems) -> Course:
    """Read course.toml and all of `content`. Raises BuildError if there is no lesson; other faults go to `problems`."""
    if not course_file.is_file():
        raise BuildError("the course has no course.toml.", 'Write one with id = "…" and title = "…".', path=course_file)
    try:
        settings = tomllib.loads(course_file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BuildError(f"not valid TOML: {error}.", "Mend the file.", path=course_file) from None
    for key in ("id", "title"):
        if not settings.get(key):
            raise BuildError(f"course.toml says no {key!r}.", f'Add {key} = "…".', path=course_file)
    lessons = [read_page(path, problems, "lesson") for path in sorted(content.glob("*.md")) if path.stem != GLOSSARY]
    pages = [read_page(path, problems, "page") for path in sorted((content / "pages").glob("*.md"))]
    if not lessons:
        raise BuildError(
            "no lessons found.", "Expected at least one content/<slug>.md with `kind: lesson`.", path=content
        )
    if not any(page.is_home for page in pages):
        problems.add("there is no home page.", "Expected pages/inici.md.", path=content)
    glossary_path = content / f"{GLOSSARY}.md"
    glossary = read_page(glossary_path, problems, "page") if glossary_path.is_file() else None
    depths = _order(lessons, problems)
    lessons.sort(key=lambda page: (depths[page.slug], page.block, page.slug))
    return Course(settings["id"], settings["title"], settings, lessons, pages, glossary, depths)


def read_page(path: Path, problems: Problems, kind: str) -> Page:
    text = re.sub(
        r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"), flags=re.S
    )
    match = re.match(r"---\n(.*?)\n---[ \t]*(?:\n|$)", text, re.S)
    if not match:
        problems.add("no front matter.", "Start the file with `---`, `title: …` and `---`.", path=path, line=1)
        return Page(path, path.stem, path.stem, kind, body=text)
    try:
        front = yaml.safe_load(match[1]) or {}
        if not isinstance(front, dict):
            raise yaml.YAMLError("expected `key: value` lines")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error)
        problems.add(
            f"the front matter is not valid YAML: {reason}.",
            'Quote values with a colon: title: "18 · A: b".',
            path=path,
            line=2 + (mark.line if mark else 0),
        )
        front = {}
    lines = {
        key: number for number, line in enumerate(match[1].split("\n"), 2) if (key := line.partition(":")[0].strip())
    }
    page = Page(
        path=path,
        slug=path.stem,
        title=str(front.get("title", "")).strip(),
        kind=str(front.get("kind", kind)),
        status=str(front.get("status", "ready")),
        block=front.get("block", 0),
        level=str(front.get("level", "")),
        time=str(front.get("time", "")),
        needs=front.get("needs") or [],
        summary=str(front.get("summary", "")).strip(),
        body=text[match.end() :],
        body_line=match[0].count("\n") + 1,
        key_lines=lines,
    )
    _check_front_matter(page, front, kind, problems)
    return page


def _check_front_matter(page: Page, front: dict[str, Any], kind: str, problems: Problems) -> None:
    def complain(key: str, what: str, fix: str) -> None:
        problems.add(what, fix, path=page.path, line=page.key_lines.get(key, 1))

    known = LESSON_KEYS if kind == "lesson" else PAGE_KEYS
    for key in front:
        if key not in known:
            complain(key, f"unknown key {key!r} in the front matter.", expected(known, key))
    if not page.title:
        complain("title", "the page has no title.", "Add `title: …` to the front matter.")
    if page.kind != kind:
        complain("kind", f"kind is {page.kind!r}.", f"Files in this folder are `kind: {kind}`.")
        page.kind = kind
    if page.status not in STATUSES:
        complain("status", f"status is {page.status!r}.", expected(STATUSES, page.status))
    if kind != "lesson":
        return
    if not isinstance(page.block, int) or page.block < 1:
        complain("block", f"block is {page.block!r}.", "Give the number of the course's block: `block: 5`.")
        page.block = 0
    if page.level not in LEVELS:
        complain("level", f"level is {page.level!r}.", expected(LEVELS, page.level))
    if not page.time:
        complain("time", "the lesson has no reading time.", 'Add `time: "1 h"`.')
    if not isinstance(page.needs, list):
        complain("needs", f"needs is {page.needs!r}.", "Write a list of slugs: `needs: [grpo]`, or `needs: []`.")
        page.needs = []


def _order(lessons: list[Page], problems: Problems) -> dict[str, int]:
    """Longest chain of prerequisites before each lesson; unknown and circular ones are problems."""
    known = {page.slug: page for page in lessons}
    for page in lessons:
        for need in page.needs:
            if need not in known:
                problems.add(
                    f"the prerequisite {need!r} is no lesson.",
                    expected(known, str(need)),
                    path=page.path,
                    line=page.key_lines.get("needs", 1),
                )
    depths: dict[str, int] = {}

    def depth(name: str, trail: tuple[str, ...]) -> int:
        if name in trail:
            page = known[name]
            problems.add(
                f"circular prerequisites: {' → '.join([*trail[trail.index(name) :], name])}.",
                "Remove one of them from `needs`.",
                path=page.path,
                line=page.key_lines.get("needs", 1),
            )
            return 0
        if name not in depths:
            needs = [need for need in known[name].needs if need in known]
            depths[name] = max((1 + depth(need, (*trail, name)) for need in needs), default=0)
        return depths[name]

    for page in lessons:
        depth(page.slug, ())
    return depths


# Glossary


def fold(text: str) -> str:
    """For comparing and sorting Catalan words: no accents, no case, no middle dot."""
    plain = unicodedata.normalize("NFKD", text.casefold().replace("·", ""))
    return "".join(character for character in plain if not unicodedata.combining(character))


def read_terms(glossary: Page | None) -> list[Term]:
    """The `## term {#slug}` headings of the glossary, in the file's order."""
    terms = []
    for number, line in enumerate((glossary.body if glossary else "").split("\n")):
        if line.startswith("## "):
            name = line[3:].strip()
            match = HEADING_ID.search(name)
            plain = HEADING_ID.sub("", name)
            terms.append(
                Term(plain, match[1] if match else slug(plain), (glossary.body_line if glossary else 1) + number)
            )
    return terms


def term_index(terms: list[Term]) -> dict[str, Term]:
    """Every way to name a term in `[[…]]`: its heading, the heading without what stands in brackets, its slug."""
    index: dict[str, Term] = {}
    for term in terms:
        plain = re.sub(r"[*_`]", "", term.name)
        for name in (plain, re.sub(r"\s*\([^)]*\)", "", plain), term.slug):
            index.setdefault(fold(name), term)
    return index


# Links


def check_links(
    page: Page, rendered: Rendered, ids: dict[str, set[str]], terms: dict[str, Term], problems: Problems
) -> None:
    """Check the links of a rendered page. ids: page slug ("" is home) -> the ids that it holds."""
    for link in rendered.links:
        if link.term:
            _check_term(page, link, terms, problems)
            continue
        target = page.slug if link.target == "." else link.target
        target = "" if target == HOME else target
        if target not in ids:
            problems.add(
                f"dangling link: there is no page {link.target!r}.",
                expected((name or HOME for name in ids), link.target),
                path=page.path,
                line=link.line,
            )
        elif link.fragment and link.fragment not in ids[target]:
            problems.add(
                f"dangling link: {target or HOME} has no #{link.fragment}.",
                expected(ids[target], link.fragment),
                path=page.path,
                line=link.line,
            )


def _check_term(page: Page, link: Link, terms: dict[str, Term], problems: Problems) -> None:
    term = terms.get(fold(link.fragment))
    if term is None:
        problems.add(
            f"the glossary has no term {link.fragment!r}.",
            expected({term.name for term in terms.values()}, link.fragment)
            + " Add it to glossari.md as `## term {#slug}`.",
            path=page.path,
            line=link.line,
        )
    elif page not in term.pages and page.slug != GLOSSARY:
        term.pages.append(page)


def renderer(
    page: Page, root: str, widgets: dict[str, dict[str, Any]], code_root: Path, problems: Problems
) -> PageRenderer:
    return PageRenderer(
        page.body,
        path=page.path,
        first_line=page.body_line,
        root=root,
        numbered=page.is_lesson,
        widgets=widgets,
        code_root=code_root,
        problems=problems,
    )

"""Renders one Markdown page of the course: sections, directives, quizzes, references, links, formulas.

Slow or later things (formulas, widgets, citations' texts) leave a placeholder in the HTML, which `fill` replaces.
Every check that needs only this page happens here; what points elsewhere is recorded in `Rendered.links` and
checked by content.check_links once all pages are known.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from markdown_it.token import Token

from builder import quiz, source
from builder.errors import Problems, expected
from builder.markup import HEADING_ID, Directive, GrammarError, parser

LEVELS = {"practice": "Pràctica", "research": "Recerca"}
CALLOUTS = {"pitfall": "Compte", "simplifies": "Què simplifica això", "note": "Nota"}
REFERENCE_ITEM = re.compile(r"^- \[([\w-]+)\]\s+(.*)$")
PLACEHOLDER = re.compile("\ue000(\\w+):([^\ue001]*)\ue001")


def placeholder(kind: str, key: object) -> str:
    return f"\ue000{kind}:{key}\ue001"


def fill(html: str, kind: str, replacement: Callable[[str], str]) -> str:
    """Replace the placeholders of one kind by what `replacement` makes of their key."""
    return PLACEHOLDER.sub(lambda match: replacement(match[2]) if match[1] == kind else match[0], html)


def slug(text: str) -> str:
    """ASCII identifier of a Catalan heading: "L·l, què és?" gives "ll-que-es"."""
    plain = unicodedata.normalize("NFKD", text.replace("·", "")).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "seccio"


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


class PageRenderer:
    """Renders the body of one page.

    path, first_line: where the body stands, for messages. root: relative prefix from the page to the site's root.
    widgets: id -> describe(). code_root: the folder whose packages excerpts are cut from.
    """

    def __init__(
        self,
        text: str,
        *,
        path: Path,
        first_line: int,
        root: str,
        numbered: bool,
        widgets: dict[str, dict[str, Any]],
        code_root: Path,
        problems: Problems,
    ):
        self.text, self.path, self.first_line, self.root, self.numbered = text, path, first_line, root, numbered
        self.widgets, self.code_root, self.problems = widgets, code_root, problems
        self.markdown = parser()
        self.markdown.core.ruler.before("inline", "heading_ids", _take_heading_ids)
        for name in (
            "text",
            "code_inline",
            "term",
            "citation",
            "math_inline",
            "math_inline_double",
            "math_block",
            "directive",
            "link_open",
            "table_open",
            "table_close",
            "heading_open",
            "heading_close",
            "fence",
            "code_block",
            "image",
        ):
            self.markdown.add_render_rule(name, _call(name))
        self.out = Rendered()
        self.within: list[str] = []
        self.duals_seen = 0

    # Entry

    def render(self) -> Rendered:
        section: Section | None = None
        number = 0
        for tokens in _split_sections(self._parse(self.text, self.first_line)):
            head = tokens[0]
            if head.type == "heading_open" and head.tag == "h2":
                is_numbered = self.numbered
                number += 1
                section = Section(
                    id=str(head.attrGet("id")),
                    number=number if is_numbered else None,
                    title=self._render(tokens[1:2]),
                )
                self.out.sections.append(section)
                self.duals_seen = 0
                section.html = self._render(tokens[3:])
                section.has_formulas = self.duals_seen > 0
            else:
                self.out.lead = self._render(tokens)
        for key, line in self.out.cited:
            if key not in self.out.references:
                self.problem(
                    f"there is no reference [@{key}] on this page.",
                    f"Add `- [{key}] …` to its `::: resources`, or mend the key. " + expected(self.out.references, key),
                    line,
                )
        labels = self.out.references
        self.out.lead = fill(self.out.lead, "cite", lambda key: labels.get(key, key))
        for section in self.out.sections:
            section.html = fill(section.html, "cite", lambda key: labels.get(key, key))
        return self.out

    def problem(self, what: str, fix: str, line: int) -> None:
        self.problems.add(what, fix, path=self.path, line=line)

    def blocks(self, text: str, line: int) -> str:
        """HTML of Markdown blocks whose first line is line `line` of the file."""
        return self._render(self._parse(text, line))

    def inline(self, text: str, line: int) -> str:
        tokens = self.markdown.parseInline(text, {})
        _give_lines(tokens, line)
        return self._render(tokens)

    # Parsing

    def _parse(self, text: str, line: int) -> list[Token]:
        try:
            tokens = self.markdown.parse(text, {})
        except GrammarError as error:
            self.problem(
                str(error),
                "Fences come in pairs of equal length: `::: name` … `:::`, outer ones longer.",
                line + error.line,
            )
            return []
        _give_lines(tokens, line)
        for position, token in enumerate(tokens):
            if token.type == "heading_open":
                self._name_heading(token, tokens[position + 1])
        return tokens

    def _name_heading(self, token: Token, content: Token) -> None:
        line = token.meta["line"]
        if token.tag == "h1":
            self.problem(
                "a heading of level 1 in the text.", "The title comes from the front matter; sections are `##`.", line
            )
        text = "".join(child.content for child in content.children or [])
        name = str(token.attrGet("id") or slug(text))
        token.attrSet("id", name)
        self.claim_id(name, line)

    def claim_id(self, name: str, line: int) -> None:
        if name in self.out.ids:
            self.problem(
                f"the id {name!r} is already used on line {self.out.ids[name]}.",
                "Give one of the two another {#id}.",
                line,
            )
        self.out.ids.setdefault(name, line)

    def _render(self, tokens: list[Token]) -> str:
        return self.markdown.renderer.render(tokens, self.markdown.options, {"page": self})

    # Inline rules

    def text_rule(self, token: Token) -> str:
        text = re.sub(r"(\d) %", "\\1\u00a0%", token.content)
        text = re.sub(r"(?<=\d) ([+−×÷=]) (?=\d)", "\u00a0\\1\u00a0", text)
        return escape(text, quote=False)

    def code_inline_rule(self, token: Token) -> str:
        kind = ' class="nobreak"' if len(token.content) <= 28 else ""
        return f"<code{kind}>{escape(token.content, quote=False)}</code>"

    def term_rule(self, token: Token) -> str:
        self.out.links.append(Link("glossari", token.meta["term"], token.meta["line"], term=True))
        return (
            f'<a class="term" href="{self.root}glossari/#{placeholder("term", token.meta["term"])}">'
            f"{escape(token.content, quote=False)}</a>"
        )

    def citation_rule(self, token: Token) -> str:
        line = token.meta["line"]
        self.out.cited.extend((key, line) for key in token.meta["keys"])
        links = (f'<a class="cite" href="#ref-{key}">{placeholder("cite", key)}</a>' for key in token.meta["keys"])
        return f'<span class="citation">({"; ".join(links)})</span>'

    def math_rule(self, token: Token, display: bool) -> str:
        line = token.meta["line"]
        if "plain" in self.within:
            self.problem(
                f"a formula (${token.content.strip()}$) in a plain-language passage.",
                "Say it in words: this passage is for readers who asked for no formulas.",
                line,
            )
        if display and "formal" not in self.within:
            self.problem(
                "a displayed formula outside `::: formal`.",
                "Put it in a `:::: dual` with a `::: plain` that says the same in words.",
                line,
            )
        # Temml keeps `3,14` together as one number; `3{,}14`, the habit of LaTeX, it does not.
        tex = re.sub(r"(?<=\d)\{,\}(?=\d)", ",", token.content.strip())
        self.out.formulas.append(Formula(tex, display, self.path, line))
        formula = placeholder("math", len(self.out.formulas) - 1)
        return f'<div class="formula">{formula}</div>\n' if display else formula

    def link_rule(self, token: Token) -> str:
        token.attrSet("href", self.resolve(str(token.attrGet("href") or ""), token.meta["line"]))
        attributes = "".join(f' {name}="{escape(str(value))}"' for name, value in token.attrs.items())
        return f"<a{attributes}>"

    def resolve(self, target: str, line: int) -> str:
        """URL of a link as written; records internal ones to be checked."""
        parts = urlsplit(target)
        if parts.scheme in ("https", "http", "mailto"):
            return target
        if parts.scheme or target.startswith("/") or not target:
            self.problem(
                f"the link target {target!r} is neither a page of the course nor an https address.",
                "Write (slug), (slug#id), (#id) or (https://…); absolute paths break under a sub-path.",
                line,
            )
            return "#"
        page = re.sub(r"^(\.{0,2}/)+|/$|(/?index)?\.(md|html)$", "", parts.path)
        page = re.sub(r"/$|^pages/|^inici$", "", page)
        fragment = f"#{parts.fragment}" if parts.fragment else ""
        if not parts.path:
            self.out.links.append(Link(".", parts.fragment, line))
            return fragment
        self.out.links.append(Link(page, parts.fragment, line))
        return (f"{self.root}{page}/" if page else self.root or "./") + fragment

    def image_rule(self, token: Token) -> str:
        self.problem(
            "an image in the text.",
            "Figures come from widgets, which draw their own data in both themes.",
            token.meta["line"],
        )
        return ""

    # Block rules

    def heading_rule(self, token: Token, opening: bool) -> str:
        if not opening:
            return f"</{token.tag}>\n"
        return f'<{token.tag} id="{escape(str(token.attrGet("id")))}">'

    def code_rule(self, token: Token) -> str:
        return source.highlighted(token.content, token.info.strip()) + "\n"

    def directive_rule(self, token: Token) -> str:
        directive: Directive = token.meta["directive"]
        line = token.meta["line"]
        handler = getattr(self, f"_{directive.name.replace('-', '_')}_directive", None)
        if handler:
            return handler(directive, line)
        if directive.name in CALLOUTS:
            return self._callout(directive, line)
        known = [name[1:-10].replace("_", "-") for name in dir(self) if name.endswith("_directive")] + list(CALLOUTS)
        self.problem(f"unknown directive `::: {directive.name}`.", expected(known, directive.name), line)
        return ""

    def _callout(self, directive: Directive, line: int) -> str:
        kind = CALLOUTS[directive.name]
        title = self.inline(directive.title, line) if directive.title else ""
        head = f'<span class="callout-kind">{kind}</span>' + (f" {title}" if title else "")
        body = self.blocks(directive.text, line + 1)
        return (
            f'<div class="callout callout-{directive.name}" role="note"><p class="callout-title">{head}</p>\n'
            f"{body}</div>\n"
        )

    def _dual_directive(self, directive: Directive, line: int) -> str:
        parts = {"formal": 0, "plain": 0}
        tokens = self._parse(directive.text, line + 1)
        html = {}
        for token in tokens:
            inner = token.meta.get("directive") if token.type == "directive" else None
            if inner is None or inner.name not in parts:
                self.problem(
                    "text in `:::: dual` outside its two readings.",
                    "It holds exactly one `::: formal` and one `::: plain`.",
                    token.meta["line"],
                )
                return ""
            parts[inner.name] += 1
            self.within.append(inner.name)
            html[inner.name] = self.blocks(inner.text, token.meta["line"] + 1)
            self.within.pop()
        if tokens and any(count != 1 for count in parts.values()):
            self.problem(
                f"`:::: dual` has {parts['formal']} formal and {parts['plain']} plain readings.",
                "It holds exactly one `::: formal` and one `::: plain`.",
                line,
            )
            return ""
        if not tokens:
            self.problem("an empty `:::: dual`.", "It holds one `::: formal` and one `::: plain`.", line)
            return ""
        self.duals_seen += 1
        return (
            f'<div class="dual"><div class="formal">\n{html["formal"]}</div>\n'
            f'<div class="plain"><p class="dual-label">En paraules</p>\n{html["plain"]}</div></div>\n'
        )

    def _formal_directive(self, directive: Directive, line: int) -> str:
        self.problem(
            f"`::: {directive.name}` outside `:::: dual`.", "Wrap the two readings in `:::: dual` … `::::`.", line
        )
        return ""

    _plain_directive = _formal_directive

    def _level_directive(self, directive: Directive, line: int) -> str:
        level = directive.words[0] if directive.words else ""
        if level not in LEVELS:
            self.problem(f"unknown reading level {level!r}.", expected(LEVELS, level), line)
            return ""
        if not directive.title:
            self.problem("a foldable passage without a title.", f'Write `::: level {level} "Title"`.', line)
        body = self.blocks(directive.text, line + 1)
        return (
            f'<details class="level" data-level="{level}"><summary><span class="level-tag">{LEVELS[level]}</span> '
            f'<span class="level-title">{self.inline(directive.title, line)}</span></summary>\n'
            f'<div class="level-body">\n{body}</div></details>\n'
        )

    def _widget_directive(self, directive: Directive, line: int) -> str:
        name = directive.words[0] if directive.words else ""
        description = self.widgets.get(name)
        if description is None:
            self.problem(f"unknown widget {name!r}.", expected(self.widgets, name), line)
            return ""
        presets = self._presets(name, description, directive.options, line)
        caption = self.blocks(directive.text, line + 1) if directive.text.strip() else ""
        count = sum(use.id == name for use in self.out.widgets)
        self.out.widgets.append(WidgetUse(name, presets, caption, f"{name}-{count + 1}", line))
        return placeholder("widget", len(self.out.widgets) - 1)

    def _presets(self, name: str, description: dict[str, Any], options: dict[str, str], line: int) -> dict[str, Any]:
        known = {parameter["name"]: parameter for parameter in description["parameters"]}
        presets: dict[str, Any] = {}
        for key, text in options.items():
            if key not in known:
                self.problem(f"widget {name} has no parameter {key!r}.", expected(known, key), line)
                continue
            try:
                presets[key] = parameter_value(known[key], text)
            except ValueError as error:
                self.problem(
                    f"{name}: {key}={text} is not valid: {error}.", "Mend the value after the widget's name.", line
                )
        return presets

    def _excerpt_directive(self, directive: Directive, line: int) -> str:
        name = directive.words[0] if directive.words else ""
        try:
            code = source.excerpt(name, self.code_root)
        except source.MissingExcerpt as error:
            self.problem(
                f"missing excerpt {name!r}: {error}.", "Name what is there: `::: excerpt package.module:object`.", line
            )
            return ""
        caption = self.blocks(directive.text, line + 1) if directive.text.strip() else ""
        return (
            f'<figure class="excerpt"><figcaption><code>{escape(name)}</code>{caption}</figcaption>\n'
            f"{source.highlighted(code)}</figure>\n"
        )

    def _quiz_directive(self, directive: Directive, line: int) -> str:
        return quiz.render(self, directive, line)

    def _resources_directive(self, directive: Directive, line: int) -> str:
        items: list[tuple[str, str, int]] = []
        for number, text in enumerate(directive.text.split("\n"), line + 1):
            if match := REFERENCE_ITEM.match(text.strip()):
                items.append((match[1], match[2], number))
            elif text.strip() and items and text.startswith((" ", "\t")):
                key, citation, start = items[-1]
                items[-1] = (key, f"{citation} {text.strip()}", start)
            elif text.strip():
                self.problem(
                    "a line of `::: resources` that is no reference.", "Write `- [key] Author year, …`.", number
                )
        if not items:
            self.problem("an empty `::: resources`.", "List at least one `- [key] Author year, …`.", line)
        html = []
        for key, citation, number in items:
            self.claim_id(f"ref-{key}", number)
            self.out.references[key] = citation_label(citation) or key
            html.append(
                f'<li id="ref-{key}" data-resource="{key}">'
                f'<div class="resource-text">{self.inline(citation, number)}</div>'
                '<label class="resource-mark js-only">'
                '<input type="checkbox" data-resource-check> Llegit</label></li>\n'
            )
        return (
            '<div class="resources" data-resources>'
            '<p class="resources-hint js-only">Marca els que hagis llegit. '
            f"<span data-resource-counter>0 de {len(items)} llegits</span></p>\n"
            f'<ol class="resource-list">\n{"".join(html)}</ol></div>\n'
        )


def citation_label(citation: str) -> str:
    """ "Wei, J.; Wang, X.; Zhou, D. (2022). …" gives "Wei et al., 2022": what a link to the reference says."""
    plain = re.sub(r"[*_]", "", citation)
    match = re.match(r"^(.*?)[\s,.(]*\b((?:19|20)\d\d)\b", plain)
    if not match:
        return ""
    names = [author.split(",")[0].strip() for author in match[1].split(";")]
    others = len(names) > 2 or any(re.search(r"\bet al\b", name) for name in names)
    first = re.sub(r"\s*\bet al\b\.?", "", names[0])
    authors = f"{first} et al." if others else " i ".join(names)
    return escape(f"{authors}, {match[2]}", quote=False)


def parameter_value(parameter: dict[str, Any], text: str) -> Any:
    """A preset in the page's units, checked against a parameter of describe(). Raises ValueError, in words."""
    if parameter["kind"] == "choice":
        for option in parameter["options"]:
            if str(option) == text:
                return option
        raise ValueError(f"expected one of {', '.join(map(str, parameter['options']))}")
    try:
        value = float(text) if parameter["kind"] == "number" else int(text)
    except ValueError:
        raise ValueError(f"expected a {'number' if parameter['kind'] == 'number' else 'whole number'}") from None
    low, high = parameter.get("minimum"), parameter.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(f"expected from {low} to {high}")
    return value


def _call(name: str):
    """Renderer rule that hands a token to the PageRenderer found in the environment."""

    def rule(renderer: Any, tokens: list[Token], index: int, options: Any, env: dict[str, Any]) -> str:
        page: PageRenderer = env["page"]
        token = tokens[index]
        match name:
            case "text":
                return page.text_rule(token)
            case "math_inline" | "math_inline_double" | "math_block":
                return page.math_rule(token, display=name != "math_inline")
            case "fence" | "code_block":
                return page.code_rule(token)
            case "heading_open" | "heading_close":
                return page.heading_rule(token, opening=name == "heading_open")
            case "link_open":
                return page.link_rule(token)
            case "table_open":
                return '<div class="table-wrap" role="region" aria-label="Taula" tabindex="0"><table>\n'
            case "table_close":
                return "</table></div>\n"
            case _:
                return getattr(page, f"{name}_rule")(token)

    return rule


def _split_sections(tokens: list[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = []
    for token in tokens:
        if not groups or (token.type == "heading_open" and token.tag == "h2"):
            groups.append([])
        groups[-1].append(token)
    return groups


def _give_lines(tokens: list[Token], offset: int) -> None:
    """Write each token's line of the file in its meta; inline tokens count the line breaks before them."""
    line = offset
    for token in tokens:
        if token.map:
            line = offset + token.map[0]
        token.meta = {**(token.meta or {}), "line": line}
        current = line
        for child in token.children or []:
            child.meta = {**(child.meta or {}), "line": current}
            if child.type in ("softbreak", "hardbreak"):
                current += 1


def _take_heading_ids(state: Any) -> None:
    for position, token in enumerate(state.tokens):
        if token.type == "heading_open" and (match := HEADING_ID.search(state.tokens[position + 1].content)):
            token.attrSet("id", match[1])
            inline = state.tokens[position + 1]
            inline.content = inline.content[: match.start()]

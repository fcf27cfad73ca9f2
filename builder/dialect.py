"""Renders one Markdown page of the course: sections, directives, quizzes, references, links, formulas.

Slow or later things (formulas, widgets, citations' texts) leave a placeholder in the HTML, which `fill` replaces.
Every check that needs only this page happens here; what points elsewhere is recorded in `Rendered.links` and
checked by content.check_links once all pages are known.
"""

from __future__ import annotations

import re
import unicodedata
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from markdown_it.token import Token

from builder import directives, source
from builder.errors import Problems, expected
from builder.markup import HEADING_ID, GrammarError, parser
from builder.rendered import Formula, Link, Rendered, Section, fill, placeholder


def slug(text: str) -> str:
    """ASCII identifier of a Catalan heading: "L·l, què és?" gives "ll-que-es"."""
    plain = unicodedata.normalize("NFKD", text.replace("·", "")).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "seccio"


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
        for tokens in _split_sections(self.parse(self.text, self.first_line)):
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
        return self._render(self.parse(text, line))

    def inline(self, text: str, line: int) -> str:
        tokens = self.markdown.parseInline(text, {})
        _give_lines(tokens, line)
        return self._render(tokens)

    # Parsing

    def parse(self, text: str, line: int) -> list[Token]:
        """Tokens of Markdown whose first line is line `line` of the file, each with its own line in its meta."""
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
        text = re.sub(r"(\d) (%|MB\b)", "\\1\u00a0\\2", token.content)
        text = re.sub(r" et al\.", "\u00a0et\u00a0al.", text)
        text = re.sub(r"(?<=\d) ([+−×÷=]) (?=\d)", "\u00a0\\1\u00a0", text)
        return escape(text, quote=False)

    def code_inline_rule(self, token: Token) -> str:
        kind = ' class="nobreak"' if len(token.content) <= 28 else ""
        return f"<code{kind}>{escape(token.content, quote=False)}</code>"

    def term_rule(self, token: Token) -> str:
        self.out.links.append(Link("glossari", token.meta["term"], token.meta["line"], term=True))
        return (
            f'<a class="term" href="{self.root}glossari/#{placeholder("term", token.meta["term"])}" '
            f'title="{placeholder("definition", token.meta["term"])}">'
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
        return directives.render(self, token.meta["directive"], token.meta["line"])


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

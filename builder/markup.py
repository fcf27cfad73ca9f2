"""The block and inline syntax that the course adds to CommonMark: `:::` directives, [[terms]], [@references], {#ids}.

Only the grammar lives here; what each directive means is in dialect.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

OPEN = re.compile(r"^(:{3,})[ \t]*([a-z][a-z-]*)(.*)$")
CLOSE = re.compile(r"^(:{3,})[ \t]*$")
CODE_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
ARGUMENT = re.compile(r'"(?P<text>[^"]*)"|\{#(?P<id>[^}\s]+)\}|(?P<name>[\w-]+)=(?P<value>\S+)|(?P<word>\S+)')
TERM = re.compile(r"\[\[([^\[\]|\n]+)(?:\|([^\[\]|]+))?\]\]")
CITATION = re.compile(r"\[@([\w-]+(?:\s*;\s*@[\w-]+)*)\]")
HEADING_ID = re.compile(r"\s*\{#([^}\s]+)\}\s*$")


class GrammarError(ValueError):
    """Malformed directive. `line` counts from 0 within the text being parsed."""

    def __init__(self, message: str, line: int):
        super().__init__(message)
        self.line = line


@dataclass
class Directive:
    """`::: name words options` and the raw text up to its closing fence."""

    name: str
    words: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    title: str = ""
    id: str = ""
    text: str = ""
    line: int = 0  # of the opening fence, from 0, within the text that was parsed


def parse_arguments(name: str, rest: str) -> Directive:
    directive = Directive(name)
    for match in ARGUMENT.finditer(rest):
        if match["text"] is not None:
            directive.title = match["text"]
        elif match["id"]:
            directive.id = match["id"]
        elif match["name"]:
            directive.options[match["name"]] = match["value"]
        else:
            directive.words.append(match["word"])
    return directive


def find_close(lines: list[str], start: int) -> int:
    """Index of the line that closes the directive opened at `start`; directives nest, code fences hide."""
    open_fences: list[tuple[str, int]] = []
    code = ""
    for number in range(start, len(lines)):
        line = lines[number].rstrip()
        fence = CODE_FENCE.match(line)
        if code:
            if fence and fence[1].startswith(code) and not line.strip().strip(code[0]):
                code = ""
            continue
        if fence:
            code = fence[1]
        elif opened := OPEN.match(line):
            open_fences.append((opened[1], number))
        elif closed := CLOSE.match(line):
            fence_text, line_number = open_fences.pop()
            if closed[1] != fence_text:
                raise GrammarError(
                    f"this fence has {len(closed[1])} colons, but the directive it closes was opened with "
                    f"{len(fence_text)} ({lines[line_number].strip()!r}).",
                    number,
                )
            if not open_fences:
                return number
    raise GrammarError(f"the directive {lines[start].strip()!r} is never closed.", start)


def _directive_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.sCount[start] - state.blkIndent >= 4 or state.level > 0:
        return False
    first = state.getLines(start, start + 1, state.blkIndent, False)
    opened = OPEN.match(first.rstrip())
    if not opened:
        if CLOSE.match(first.rstrip()):
            raise GrammarError("this fence closes nothing.", start)
        return False
    if silent:
        return True
    lines = state.getLines(0, end, 0, False).split("\n")
    last = find_close(lines, start)
    directive = parse_arguments(opened[2], opened[3])
    directive.text = "\n".join(lines[start + 1 : last])
    directive.line = start
    token = state.push("directive", "", 0)
    token.meta = {"directive": directive}
    token.map = [start, last + 1]
    state.line = last + 1
    return True


def _term_rule(state: StateInline, silent: bool) -> bool:
    match = TERM.match(state.src, state.pos)
    if not match:
        return False
    if not silent:
        token = state.push("term", "", 0)
        token.content = match[1].strip()
        token.meta = {"term": (match[2] or match[1]).strip()}
    state.pos = match.end()
    return True


def _citation_rule(state: StateInline, silent: bool) -> bool:
    match = CITATION.match(state.src, state.pos)
    if not match:
        return False
    if not silent:
        token = state.push("citation", "", 0)
        token.meta = {"keys": re.findall(r"[\w-]+", match[1])}
    state.pos = match.end()
    return True


def parser() -> MarkdownIt:
    """CommonMark without raw HTML, with tables, mathematics between dollars, `[span]{lang=en}` and the rules above."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True, allow_labels=False)
    markdown.use(attrs_plugin, spans=True)
    markdown.block.ruler.before(
        "fence", "directive", _directive_rule, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    markdown.inline.ruler.before("link", "term", _term_rule)
    markdown.inline.ruler.before("link", "citation", _citation_rule)
    return markdown

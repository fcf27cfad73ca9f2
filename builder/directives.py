"""What each `:::` directive becomes. HANDLERS is the dialect's vocabulary: a new word is one function and one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from builder import quiz, source
from builder.errors import expected
from builder.markup import Directive
from builder.rendered import WidgetUse, placeholder
from minigpt.lab import Parameter, ParameterError

if TYPE_CHECKING:
    from builder.dialect import PageRenderer

LEVELS = {"practice": "Pràctica", "research": "Recerca"}
PLANNED = "planned"  # what a section will say, while it is not written
CALLOUTS = {"pitfall": "Compte", "simplifies": "Què simplifica això", "note": "Nota", PLANNED: "En preparació"}
REFERENCE_ITEM = re.compile(r"^- \[([\w-]+)\]\s+(.*)$")


def render(page: PageRenderer, directive: Directive, line: int) -> str:
    """HTML of a directive whose opening fence is on line `line` of the page's file."""
    handler = HANDLERS.get(directive.name)
    if handler is None:
        page.problem(f"unknown directive `::: {directive.name}`.", expected(HANDLERS, directive.name), line)
        return ""
    return handler(page, directive, line)


def callout(page: PageRenderer, directive: Directive, line: int) -> str:
    kind = CALLOUTS[directive.name]
    title = page.inline(directive.title, line) if directive.title else ""
    head = f'<span class="callout-kind">{kind}</span>' + (f" {title}" if title else "")
    body = page.blocks(directive.text, line + 1)
    return (
        f'<div class="callout callout-{directive.name}" role="note"><p class="callout-title">{head}</p>\n{body}</div>\n'
    )


def dual(page: PageRenderer, directive: Directive, line: int) -> str:
    parts = {"formal": 0, "plain": 0}
    tokens = page.parse(directive.text, line + 1)
    html = {}
    for token in tokens:
        inner = token.meta.get("directive") if token.type == "directive" else None
        if inner is None or inner.name not in parts:
            page.problem(
                "text in `:::: dual` outside its two readings.",
                "It holds exactly one `::: formal` and one `::: plain`.",
                token.meta["line"],
            )
            return ""
        parts[inner.name] += 1
        page.within.append(inner.name)
        html[inner.name] = page.blocks(inner.text, token.meta["line"] + 1)
        page.within.pop()
    if tokens and any(count != 1 for count in parts.values()):
        page.problem(
            f"`:::: dual` has {parts['formal']} formal and {parts['plain']} plain readings.",
            "It holds exactly one `::: formal` and one `::: plain`.",
            line,
        )
        return ""
    if not tokens:
        page.problem("an empty `:::: dual`.", "It holds one `::: formal` and one `::: plain`.", line)
        return ""
    page.duals_seen += 1
    return (
        f'<div class="dual"><div class="formal">\n{html["formal"]}</div>\n'
        f'<div class="plain"><p class="dual-label">En paraules</p>\n{html["plain"]}</div></div>\n'
    )


def outside_dual(page: PageRenderer, directive: Directive, line: int) -> str:
    page.problem(f"`::: {directive.name}` outside `:::: dual`.", "Wrap the two readings in `:::: dual` … `::::`.", line)
    return ""


def level(page: PageRenderer, directive: Directive, line: int) -> str:
    level = directive.words[0] if directive.words else ""
    if level not in LEVELS:
        page.problem(f"unknown reading level {level!r}.", expected(LEVELS, level), line)
        return ""
    if not directive.title:
        page.problem("a foldable passage without a title.", f'Write `::: level {level} "Title"`.', line)
    body = page.blocks(directive.text, line + 1)
    return (
        f'<details class="level" data-level="{level}"><summary><span class="level-tag">{LEVELS[level]}</span> '
        f'<span class="level-title">{page.inline(directive.title, line)}</span></summary>\n'
        f'<div class="level-body">\n{body}</div></details>\n'
    )


def widget(page: PageRenderer, directive: Directive, line: int) -> str:
    name = directive.words[0] if directive.words else ""
    description = page.widgets.get(name)
    if description is None:
        page.problem(f"unknown widget {name!r}.", expected(page.widgets, name), line)
        return ""
    presets = _presets(page, name, description, directive.options, line)
    caption = page.blocks(directive.text, line + 1) if directive.text.strip() else ""
    count = sum(use.id == name for use in page.out.widgets)
    page.out.widgets.append(WidgetUse(name, presets, caption, f"{name}-{count + 1}", line))
    return placeholder("widget", len(page.out.widgets) - 1)


def _presets(
    page: PageRenderer, name: str, description: dict[str, Any], options: dict[str, str], line: int
) -> dict[str, Any]:
    known = {parameter["name"]: parameter for parameter in description["parameters"]}
    presets: dict[str, Any] = {}
    for key, text in options.items():
        if key not in known:
            page.problem(f"widget {name} has no parameter {key!r}.", expected(known, key), line)
            continue
        try:
            presets[key] = parameter(known[key]).check(text)
        except ParameterError as error:
            page.problem(f"{name}: {key}={text}: {error}.", "Mend the value after the widget's name.", line)
    return presets


def excerpt(page: PageRenderer, directive: Directive, line: int) -> str:
    name = directive.words[0] if directive.words else ""
    try:
        code = source.excerpt(name, page.code_root)
    except source.MissingExcerpt as error:
        page.problem(
            f"missing excerpt {name!r}: {error}.", "Name what is there: `::: excerpt package.module:object`.", line
        )
        return ""
    caption = page.blocks(directive.text, line + 1) if directive.text.strip() else ""
    return (
        f'<figure class="excerpt"><figcaption><code>{escape(name)}</code>{caption}</figcaption>\n'
        f"{source.highlighted(code)}</figure>\n"
    )


def resources(page: PageRenderer, directive: Directive, line: int) -> str:
    items: list[tuple[str, str, int]] = []
    for number, text in enumerate(directive.text.split("\n"), line + 1):
        if match := REFERENCE_ITEM.match(text.strip()):
            items.append((match[1], match[2], number))
        elif text.strip() and items and text.startswith((" ", "\t")):
            key, citation, start = items[-1]
            items[-1] = (key, f"{citation} {text.strip()}", start)
        elif text.strip():
            page.problem("a line of `::: resources` that is no reference.", "Write `- [key] Author year, …`.", number)
    if not items:
        page.problem("an empty `::: resources`.", "List at least one `- [key] Author year, …`.", line)
    html = []
    for key, citation, number in items:
        page.claim_id(f"ref-{key}", number)
        page.out.references[key] = citation_label(citation) or key
        html.append(
            f'<li id="ref-{key}" data-resource="{key}">'
            f'<div class="resource-text">{page.inline(citation, number)}</div>'
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
    authors = f"{first}\u00a0et\u00a0al." if others else " i ".join(names)
    return escape(f"{authors}, {match[2]}", quote=False)


def parameter(description: dict[str, Any]) -> Parameter:
    """The parameter that gave this description; presets, links and the command line are all checked by it."""
    return Parameter(**{**description, "options": tuple(description.get("options", ()))})


HANDLERS: dict[str, Callable[[PageRenderer, Directive, int], str]] = {
    "dual": dual,
    "formal": outside_dual,
    "plain": outside_dual,
    "level": level,
    "widget": widget,
    "excerpt": excerpt,
    "quiz": quiz.render,
    "resources": resources,
    **dict.fromkeys(CALLOUTS, callout),
}

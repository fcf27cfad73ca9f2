"""Fills the templates of theme/ with rendered content. One Site holds what every page shares."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from builder import source
from builder.content import Course, Page, Term, fold, read_terms
from builder.directives import PLANNED
from builder.errors import BuildError, Problems
from builder.figures import Figure
from builder.rendered import Rendered, fill, placeholder

EVIDENCE = "evidencia"
CSP = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; connect-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'"
)


# A formula and the punctuation that touches it stay on one line.
_GLUED = re.compile("[(«]*\ue000math:\\d+\ue001[)».,;:?!]+|[(«]+\ue000math:\\d+\ue001")


@dataclass
class Site:
    """What pages share. Published files are named relative to the site's root."""

    course: Course
    version: str
    strings: dict[str, Any]
    widgets: dict[str, dict[str, Any]] = field(default_factory=dict)
    widget_pages: dict[str, list[Page]] = field(default_factory=dict)  # widget -> lessons that hold it
    figures: dict[str, Figure] = field(default_factory=dict)
    figure_urls: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    code_blocks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    mathml: dict[str, list[str]] = field(default_factory=dict)  # page slug -> its formulas
    scripts: dict[str, str] = field(default_factory=dict)
    runtime: dict[str, Any] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)
    term_index: dict[str, Term] = field(default_factory=dict)


class Pages:
    """Renders each page's HTML. Style sheet and fonts are named by placeholders, since they depend on the pages."""

    def __init__(self, site: Site, theme: Path):
        self.site = site
        self.palette = json.loads((theme / "palette.json").read_text(encoding="utf-8"))
        self.jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader(theme),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self.definitions = first_sentences(site.course.glossary)
        self.jinja.filters["number"] = _number
        self.jinja.globals["icon"] = lambda name: Markup(icon(name))

    def lesson(self, page: Page, rendered: Rendered, outlines: dict[str, Rendered]) -> str:
        course = self.site.course
        order = [lesson.slug for lesson in course.lessons]
        position = order.index(page.slug)
        following = [lesson for lesson in course.lessons if page.slug in lesson.needs]
        return self._page(
            "lesson.html",
            page,
            rendered,
            needs=[course.lesson(need) for need in page.needs],
            need_questions={need: len(outlines[need].questions) for need in page.needs},
            following=following or course.lessons[position + 1 : position + 2],
            is_lesson=True,
        )

    def plain(self, page: Page, rendered: Rendered) -> str:
        records = [
            {
                "widget": self.site.widgets[name],
                "record": {**figure.record, "backend_name": backend_name(figure.record)},
                "pages": self.site.widget_pages.get(name, []),
            }
            for name, figure in self.site.figures.items()
            if page.slug == EVIDENCE
        ]
        return self._page("page.html", page, rendered, records=records, is_lesson=False)

    def home(self, page: Page, rendered: Rendered, outlines: dict[str, Rendered]) -> str:
        course = self.site.course
        first = next((lesson for lesson in course.lessons if lesson.status == "ready"), None)
        return self._page("home.html", page, rendered, map=course_map(course, outlines), first=first, is_lesson=False)

    def glossary(self, page: Page, rendered: Rendered) -> str:
        rendered.sections.sort(key=lambda section: fold(section.title))
        used = {term.slug: term.pages for term in self.site.terms}
        return self._page("glossary.html", page, rendered, used=used, is_lesson=False)

    def widget_page(self, name: str) -> str:
        description = self.site.widgets[name]
        labels = description["labels"]
        page = Page(Path(), f"widget/{name}", labels["title"], summary=labels["question"])
        html = self._widget(name, root="../../", presets={}, instance=name, caption="", heading=1)
        return self._render(
            "widget-page.html",
            page,
            "../../",
            widgets=[name],
            widget_html=Markup(html),
            is_lesson=False,
            lessons=self.site.widget_pages.get(name, []),
            width="wide",
        )

    def _page(self, template: str, page: Page, rendered: Rendered, **more: Any) -> str:
        root = "" if page.is_home else "../"
        lead = self._filled(rendered.lead, page, rendered, root)
        sections = [
            {
                "id": section.id,
                "number": section.number,
                "title": Markup(self._filled(section.title, page, rendered, root)),
                "html": Markup(self._filled(section.html, page, rendered, root)),
                "has_formulas": section.has_formulas,
                "planned": f"callout-{PLANNED}" in section.html,
            }
            for section in rendered.sections
        ]
        more = {
            "has_formulas": any(section.has_formulas for section in rendered.sections),
            "has_levels": any('data-level="' in section.html for section in rendered.sections),
            "questions": len(rendered.questions),
            "references": len(rendered.references),
            **more,
        }
        widgets = list(dict.fromkeys(use.id for use in rendered.widgets))
        return self._render(template, page, root, lead=Markup(lead), sections=sections, widgets=widgets, **more)

    def _render(self, template: str, page: Page, root: str, *, widgets: list[str], **more: Any) -> str:
        context = {
            "page": page,
            "root": root,
            "home": root or "./",
            "course": self.site.course,
            "version": self.site.version,
            "navigation": [
                item for item in [*self.site.course.pages, self.site.course.glossary] if item and not item.is_home
            ],
            "csp": CSP,
            "palette": self.palette,
            "style": placeholder("style", root),
            "preloads": Markup(placeholder("preloads", root)),
            "scripts": {name: root + url for name, url in self.site.scripts.items()},
            "config": Markup(self._config(page, root, widgets)),
            "has_widgets": bool(widgets),
            "icon_url": f"{root}assets/{placeholder('asset', 'icon.svg')}",
            **more,
        }
        try:
            return self.jinja.get_template(template).render(context)
        except jinja2.UndefinedError as error:
            raise BuildError(
                f"theme/{template}: {error}.", "A template names what the build does not give it."
            ) from None
        except jinja2.TemplateError as error:
            where = f"{getattr(error, 'name', None) or template}:{getattr(error, 'lineno', None) or '?'}"
            raise BuildError(f"theme/{where}: {error}.", "Mend the template.") from None

    def _filled(self, html: str, page: Page, rendered: Rendered, root: str) -> str:
        formulas = self.site.mathml.get(page.slug, [])
        html = _GLUED.sub(r'<span class="nobreak">\g<0></span>', html)
        html = fill(html, "math", lambda key: formulas[int(key)])
        html = fill(html, "term", lambda key: self._term_slug(key))
        html = fill(html, "definition", lambda key: escape(self.definitions.get(self._term_slug(key), "")))

        def widget(key: str) -> str:
            use = rendered.widgets[int(key)]
            caption = self._filled(use.caption, page, rendered, root)
            return self._widget(
                use.id, root=root, presets=use.presets, instance=use.instance, caption=caption, heading=3
            )

        return fill(html, "widget", widget)

    def _term_slug(self, name: str) -> str:
        return self.site.term_index[fold(name)].slug

    def _widget(self, name: str, *, root: str, presets: dict, instance: str, caption: str, heading: int) -> str:
        description = self.site.widgets[name]
        figure = self.site.figures.get(name)
        labels = description["labels"]
        context = {
            "widget": description,
            "labels": labels,
            "strings": self.site.strings,
            "figure": self._figure(name, labels, figure) if figure else None,
            "record": figure.record if figure else None,
            "code_blocks": self.site.code_blocks.get(name, []),
            "root": root,
            "presets": presets,
            "instance": instance,
            "caption": Markup(caption),
            "link": f"{root}widget/{name}/",
            "heading": heading,
            "standalone": heading == 1,
        }
        try:
            return self.jinja.get_template("widget.html").render(context)
        except jinja2.UndefinedError as error:
            raise BuildError(
                f"theme/widget.html, for the widget {name}: {error}.",
                "Check the widget's labels.toml and the template.",
            ) from None

    def _figure(self, name: str, labels: dict[str, Any], figure: Figure) -> dict[str, Any]:
        panels = [
            {**urls, "width": drawing.width, "height": drawing.height, "alt": alternative(labels, number)}
            for number, (urls, drawing) in enumerate(zip(self.site.figure_urls[name], figure.panels, strict=True))
        ]
        caption = (
            f"Execució de referència, enregistrada en construir el web: llavor {figure.record.get('seed', 1)}, "
            f"paràmetres per defecte, càlculs amb {backend_name(figure.record)}."
        )
        return {"panels": panels, "caption": caption}

    def _config(self, page: Page, root: str, widgets: list[str]) -> str:
        config = {
            "root": root,
            "course": self.site.course.id,
            "version": self.site.version,
            "page": page.slug,
            "kind": page.kind,
            "runtime": self.site.runtime if widgets else None,
            "widgets": {name: self.site.widgets[name] for name in widgets},
        }
        text = json.dumps(config, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def backend_name(record: dict[str, Any]) -> str:
    return {"numpy": "NumPy", "kernel": "el nucli compilat"}.get(str(record.get("backend")), str(record.get("backend")))


def alternative(labels: dict[str, Any], number: int) -> str:
    """Text alternative of one recorded panel: what it draws; the numbers follow it in the page as text."""
    panels = labels.get("panels", [])
    if number >= len(panels):
        return "Gràfic de l'execució enregistrada. Els valors són a la taula que segueix."
    panel = panels[number]
    names = ", ".join(f"«{labels['series'][name]['label']}»" for name in panel["series"])
    return (
        f"Gràfic de l'execució enregistrada. {panel['title']}. Corbes: {names}. Els valors són a la taula que segueix."
    )


def code_blocks(labels: dict[str, Any], root: Path, path: Path, problems: Problems) -> list[dict[str, Any]]:
    """The highlighted sources that `[[code]]` in a widget's labels (the file `path`) name."""
    blocks = []
    for block in labels.get("code", []):
        name = block["object"]
        try:
            html = source.highlighted(source.excerpt(name, root))
        except source.MissingExcerpt as error:
            lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
            line = next((number for number, text in enumerate(lines, 1) if f'"{name}"' in text), None)
            problems.add(f"missing excerpt {name!r}: {error}.", "Mend `object` in its [[code]].", path=path, line=line)
            continue
        blocks.append({"title": block["title"], "html": Markup(html), "reference": bool(block.get("reference"))})
    return blocks


def first_sentences(glossary: Page | None) -> dict[str, str]:
    """What each term of the glossary is, in one sentence of plain text; its English name is not it."""
    sentences: dict[str, str] = {}
    for term in read_terms(glossary):
        body = (glossary.body if glossary else "").split("\n")[
            term.line - (glossary.body_line if glossary else 1) + 1 :
        ]
        text = next((line for line in body if line.strip()), "")
        text = re.sub(r"\[\[(?:[^]|]*\|)?([^]]*)\]\]", r"\1", text)
        text = re.sub(r"\[([^]]*)\](?:\([^)]*\)|\{[^}]*\})", r"\1", text)
        text = re.sub(r"[*_`$]", "", text)
        parts = [part for part in re.split(r"(?<=[.?!])\s+", text) if part and not part.startswith("En anglès")]
        sentences[term.slug] = parts[0] if parts and not text.startswith("#") else ""
    return sentences


MAP_GAP = 6


def course_map(course: Course, outlines: dict[str, Rendered]) -> dict[str, Any]:
    """Lessons in columns by depth of prerequisites, and the lines between them.

    A line's path is in a square of 100 by 100 that the style sheet stretches over the columns, which are MAP_GAP per
    cent of the width apart; the lessons of a column share its height equally.
    """
    groups: list[list[dict[str, Any]]] = []
    places: dict[str, tuple[int, float]] = {}
    for lesson in course.lessons:
        depth = course.depths[lesson.slug]
        while len(groups) <= depth:
            groups.append([])
        outline = outlines[lesson.slug]
        groups[depth].append(
            {
                "page": lesson,
                "needs": [course.lesson(need) for need in lesson.needs],
                "questions": len(outline.questions),
                "references": len(outline.references),
            }
        )
    for column, group in enumerate(groups):
        for row, card in enumerate(group):
            places[card["page"].slug] = (column, 100 * (row + 0.5) / len(group))
    edges = []
    for lesson in course.lessons:
        for need in lesson.needs:
            (from_column, y1), (to_column, y2) = places[need], places[lesson.slug]
            width = (100 - MAP_GAP * (len(groups) - 1)) / len(groups)
            x1 = from_column * (width + MAP_GAP) + width
            x2 = to_column * (width + MAP_GAP)
            middle = (x1 + x2) / 2
            path = f"M{x1:.2f} {y1:.2f}C{middle:.2f} {y1:.2f} {middle:.2f} {y2:.2f} {x2:.2f} {y2:.2f}"
            edges.append({"from": need, "to": lesson.slug, "path": path})
    return {"columns": len(groups), "gap": MAP_GAP, "groups": groups, "edges": edges}


ICONS = {
    "theme": '<circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.4"/>'
    '<path d="M8 2.400a5.600 5.600 0 0 1 0 11.200z" fill="currentColor"/>',
    "done": '<path d="M3 8.500l3.300 3.300L13 4.800" fill="none" stroke="currentColor" stroke-width="1.800"/>',
}


def icon(name: str) -> str:
    size = 'viewBox="0 0 16 16" width="16" height="16"'
    return f'<svg class="icon" {size} aria-hidden="true" focusable="false">{ICONS[name]}</svg>'


def _number(value: Any, format: str = "number", digits: int | None = None) -> str:
    from widgets._runtime.catalan import format_number

    return format_number(value, format, digits)

"""build(): content, widgets and theme in, a folder of plain files out; all of it or nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import content as reading
from builder.assets import Bundle, bundle_scripts, bundle_style, render_formulas
from builder.characters import characters_of
from builder.check import check_output
from builder.content import Course, Page
from builder.errors import BuildError, Problems, relative
from builder.figures import NativeRecorder, Recorder, reference_figure
from builder.fonts import cut_fonts
from builder.pages import Pages, Site, code_blocks
from builder.rendered import Rendered, fill
from minigpt.backend import DEFAULT_BACKEND
from widgets._runtime.store import cache_folder

ROOT = Path(__file__).resolve().parent.parent
MODULES = {"main": "widgets/_runtime/site/main.ts", "worker": "widgets/_runtime/engine/worker.ts"}
MARKER = ".raona-site"
"""A file of every build: what says that a folder may be replaced."""
CLASSIC = {"boot": "widgets/_runtime/site/boot.ts"}

Say = Callable[[str], object]
PrepareRuntime = Callable[[Path, Path | None, Path, Say], dict[str, Any]]


@dataclass(frozen=True)
class Sources:
    """Where the build reads from. Tests point these at tiny sites.

    code: the folder of the packages `minigpt` and `widgets`, for excerpts. widgets: id -> describe(); None discovers
    them. recorder: runs and draws widgets. runtime: fills a folder with the browser's Python and describes it.
    """

    course: Path = ROOT / "course.toml"
    content: Path = ROOT / "content"
    theme: Path = ROOT / "theme"
    code: Path = ROOT
    widgets: Mapping[str, dict[str, Any]] | None = None
    recorder: Recorder | None = None
    runtime: PrepareRuntime | None = None


def build(
    out: Path = Path("dist"),
    *,
    pyodide_dir: Path | None = None,
    cache: Path | None = None,
    sources: Sources | None = None,
    say: Say = print,
) -> Path:
    """Build the whole site into `out`, replacing a former build only when the new one is complete.

    Raises BuildError with every problem found; `out` is then as it was before.
    """
    sources = sources or Sources()
    cache = cache or cache_folder()
    out = out.resolve()
    _check_target(out)
    problems = Problems()
    course = reading.read_course(sources.course, sources.content, problems)
    widgets = _widgets(sources)
    rendered, site = _read(course, widgets, sources, problems)
    counts = f"{len(course.lessons)} lessons, {len(course.pages)} pages, {len(site.terms)} glossary terms"
    say(f"Read {counts}, {len(widgets)} widgets")

    with _workshop(out) as folder:
        assets = folder / "assets"
        assets.mkdir()
        bundle = _scripts(sources, widgets, assets)
        site.scripts = {name: f"assets/{file}" for name, file in bundle.urls.items()}
        _figures(site, sources, cache, assets, say)
        _runtime(site, sources, pyodide_dir, cache, folder, say)
        html = _compose(site, course, rendered, sources)
        _finish(html, site, sources, cache, assets)
        for name, text in html.items():
            path = folder / name / "index.html" if name else folder / "index.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        check_output(folder)
        (folder / MARKER).write_text("Made by `raona build`, which replaces this whole folder.\n", encoding="utf-8")
        _swap(folder, out)
    say(f"Built {len(html)} pages in {relative(out)}")
    return out


def _check_target(out: Path) -> None:
    """Refuse to replace a folder that is not a former build."""
    if out.exists() and not out.is_dir():
        raise BuildError(f"{relative(out)} is a file.", "Give --out a folder.")
    try:
        foreign = out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file()
    except OSError as error:
        raise _unwritable(out, error) from None
    if foreign:
        raise BuildError(
            f"{relative(out)} holds files and no {MARKER}: it is not a built site, or one of an older version.",
            "Give --out an empty or new folder, or delete this one yourself.",
        )


def _unwritable(out: Path, error: OSError) -> BuildError:
    return BuildError(
        f"{relative(out)} cannot be written: {error.strerror or error}.", "Give --out a folder where you may write."
    )


def _widgets(sources: Sources) -> dict[str, dict[str, Any]]:
    if sources.widgets is not None:
        found = dict(sources.widgets)
    else:
        from widgets._runtime.registry import WidgetError, discover

        try:
            found = {name: widget.describe(DEFAULT_BACKEND) for name, widget in discover().items()}
        except WidgetError as error:
            raise BuildError(f"{error}.", "See widgets/cot/ for a widget that keeps the contract.") from None
    if not found:
        raise BuildError("no widgets found.", "Expected at least one widgets/<id>/experiment.py.")
    return found


def _read(
    course: Course, widgets: dict[str, dict[str, Any]], sources: Sources, problems: Problems
) -> tuple[dict[str, Rendered], Site]:
    """Render every page's Markdown, then check what points where and translate all formulas. Raises BuildError."""
    terms = reading.read_terms(course.glossary)
    index = reading.term_index(terms)
    rendered = {
        page.slug: reading.renderer(page, "" if page.is_home else "../", widgets, sources.code, problems).render()
        for page in course.all
    }
    ids = {"" if page.is_home else page.slug: set(rendered[page.slug].ids) for page in course.all}
    ids.setdefault("", set()).add("mapa")
    ids.update({f"widget/{name}": set() for name in widgets})
    for page in course.all:
        reading.check_links(page, rendered[page.slug], ids, index, problems)
    formulas = [(page.slug, formula) for page in course.all for formula in rendered[page.slug].formulas]
    mathml: dict[str, list[str]] = {}
    answers = render_formulas([formula for _, formula in formulas], problems, ROOT)
    for (slug, _), answer in zip(formulas, answers, strict=True):
        mathml.setdefault(slug, []).append(answer)
    listings = {
        name: code_blocks(
            description["labels"],
            sources.code,
            sources.code / "widgets" / name.replace("-", "_") / "labels.toml",
            problems,
        )
        for name, description in widgets.items()
    }
    problems.stop_if_any()
    used: dict[str, list[Page]] = {}
    for lesson in course.lessons:
        for use in rendered[lesson.slug].widgets:
            if lesson not in used.setdefault(use.id, []):
                used[use.id].append(lesson)
    site = Site(
        course=course,
        version=_version(),
        strings=_strings(),
        widgets=widgets,
        widget_pages=used,
        code_blocks=listings,
        mathml=mathml,
        terms=terms,
        term_index=index,
    )
    return rendered, site


def _version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def _strings() -> dict[str, Any]:
    return json.loads((ROOT / "widgets/_runtime/strings.json").read_text(encoding="utf-8"))


def _scripts(sources: Sources, widgets: Mapping[str, Any], assets: Path) -> Bundle:
    views = {name: f"widgets/{name.replace('-', '_')}/view.ts" for name in widgets}
    present = {name: file for name, file in views.items() if (ROOT / file).is_file()}
    return bundle_scripts(ROOT, assets, MODULES, CLASSIC, present)


def _figures(site: Site, sources: Sources, cache: Path, assets: Path, say: Say) -> None:
    recorder = sources.recorder or NativeRecorder(ROOT, DEFAULT_BACKEND, cache)
    for name, description in site.widgets.items():
        labels = description["labels"]
        figure = reference_figure(name, recorder, cache, say, labels.get("title", ""))
        site.figures[name] = figure
        site.figure_urls[name] = [
            {
                theme: f"assets/{_publish(assets, f'{name}-{number}-{theme}.svg', data)}"
                for theme, data in (("light", panel.light), ("dark", panel.dark))
            }
            for number, panel in enumerate(figure.panels, 1)
        ]


def _publish(assets: Path, name: str, data: bytes) -> str:
    """Write a file under a name that changes with its contents; returns the name."""
    stem, _, suffix = name.rpartition(".")
    published = f"{stem}-{hashlib.sha256(data).hexdigest()[:8]}.{suffix}"
    (assets / published).write_bytes(data)
    return published


def _runtime(site: Site, sources: Sources, pyodide_dir: Path | None, cache: Path, folder: Path, say: Say) -> None:
    if sources.runtime is not None:
        manifest = sources.runtime(folder / "pyodide", pyodide_dir, cache, say)
    else:
        from builder.bytecode import wheel_compiler
        from builder.runtime import CORE, prepare_runtime
        from builder.wheel import build_wheel, describe_wheel

        manifest = prepare_runtime(folder / "pyodide", pyodide_dir, cache, say)
        wheel = build_wheel(folder / "runtime", compiler=wheel_compiler(CORE, cache, say))
        manifest = {**manifest, "wheel": describe_wheel(wheel, folder)}
    site.runtime = {**manifest, "worker": site.scripts["worker"]}


def _compose(site: Site, course: Course, rendered: dict[str, Rendered], sources: Sources) -> dict[str, str]:
    """HTML of every page, by its folder ("" is the home page)."""
    pages = Pages(site, sources.theme)
    html: dict[str, str] = {}
    for page in course.lessons:
        html[page.slug] = pages.lesson(page, rendered[page.slug], rendered)
    for page in course.pages:
        if page.is_home:
            html[""] = pages.home(page, rendered[page.slug], rendered)
        else:
            html[page.slug] = pages.plain(page, rendered[page.slug])
    if course.glossary:
        html[course.glossary.slug] = pages.glossary(course.glossary, rendered[course.glossary.slug])
    for name in site.widgets:
        html[f"widget/{name}"] = pages.widget_page(name)
    return html


def _finish(html: dict[str, str], site: Site, sources: Sources, cache: Path, assets: Path) -> None:
    """Cut the fonts to what the pages hold, bundle the style sheet, and name both in the pages."""
    icon = _publish(assets, "icon.svg", (sources.theme / "icon.svg").read_bytes())
    extra = json.dumps([site.strings, [widget["labels"] for widget in site.widgets.values()]], ensure_ascii=False)
    found = characters_of([*html.values(), extra])
    cuts = cut_fonts(found.text, found.headings, found.math, assets, ROOT / "node_modules", cache)
    style = bundle_style(ROOT, sources.theme, assets, cuts)
    early = [cut.name for cut in cuts if cut.preload]
    for name, text in html.items():
        text = fill(text, "style", lambda root: f"{root}assets/{style}")
        text = fill(text, "asset", lambda _: icon)
        text = fill(
            text,
            "preloads",
            lambda root: "\n".join(
                f'<link rel="preload" href="{root}assets/{font}" as="font" type="font/woff2" crossorigin>'
                for font in early
            ),
        )
        html[name] = text


@contextlib.contextmanager
def _workshop(out: Path) -> Iterator[Path]:
    """A folder beside `out`, so that moving it there is one rename; gone at the end if it is still there."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise _unwritable(out, error) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _swap(folder: Path, out: Path) -> None:
    """Put the new build in the place of the former one."""
    folder.chmod(0o755)
    former = out.with_name(f".{out.name}-former-{os.getpid()}")
    try:
        if out.exists():
            out.rename(former)
        folder.rename(out)
    except OSError as error:
        if former.exists():
            former.rename(out)
        raise _unwritable(out, error) from None
    shutil.rmtree(former, ignore_errors=True)

"""The built site: complete without scripts, relative, on its own, all or nothing, the same bytes every time."""

from __future__ import annotations

import filecmp
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tiny_course import FIRST, ROOT, CannedRecorder, build_course, write_course

from builder import assets, site
from builder.assets import bundle_scripts
from builder.check import check_output
from builder.errors import BuildError
from builder.figures import reference_figure
from builder.files import write_whole


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def built(tmp_path_factory, cache):
    folder = write_course(tmp_path_factory.mktemp("course"))
    return build_course(folder, folder / "dist", cache)


@pytest.fixture(scope="module")
def lesson(built):
    return (built / "primera/index.html").read_text(encoding="utf-8")


class Elements(HTMLParser):
    """Flat list of (tag, attributes)."""

    def __init__(self, text):
        super().__init__()
        self.all = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))

    def __call__(self, tag, **wanted):
        return [a for t, a in self.all if t == tag and all(a.get(k.replace("_", "-")) == v for k, v in wanted.items())]


def pages(built):
    found = sorted(built.rglob("*.html"))
    assert len(found) >= 5
    return found


def test_every_page_is_there(built):
    names = {page.relative_to(built).as_posix() for page in pages(built)}
    assert names == {
        "index.html",
        "primera/index.html",
        "segona/index.html",
        "glossari/index.html",
        "widget/cot/index.html",
    }


def test_every_address_is_relative_and_leads_somewhere(built):
    check_output(built)
    for page in pages(built):
        text = page.read_text(encoding="utf-8")
        for address in re.findall(r'(?:src|href)="([^"]*)"', text):
            assert not address.startswith("/")
            if not address.startswith(("https:", "#")):
                path = (page.parent / address.partition("#")[0].partition("?")[0]).resolve()
                assert path.is_relative_to(built), address
                assert path.exists(), address


def test_nothing_is_fetched_from_elsewhere(built):
    for page in pages(built):
        elements = Elements(page.read_text(encoding="utf-8"))
        for tag, attributes in elements.all:
            fetched = attributes.get("src") or (attributes.get("href") if tag == "link" else None)
            if fetched and attributes.get("rel") != "license":
                assert "//" not in fetched, (page, tag, fetched)
    for style in built.glob("assets/*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8"))


def test_the_security_policy_is_that_of_the_specification(lesson):
    policy = Elements(lesson)("meta", http_equiv="Content-Security-Policy")[0]["content"]
    assert policy == (
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; connect-src 'self'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'"
    )


def test_no_page_has_a_script_of_its_own(built):
    for page in pages(built):
        for attributes in Elements(page.read_text(encoding="utf-8"))("script"):
            assert attributes.get("src") or attributes["type"] == "application/json"


def test_the_page_speaks_catalan_and_has_its_landmarks(built):
    for page in pages(built):
        elements = Elements(page.read_text(encoding="utf-8"))
        assert elements("html")[0]["lang"] == "ca"
        assert len(elements("main")) == len(elements("h1")) == len(elements("header", **{"class": "site-header"})) == 1
        assert elements("a", **{"class": "skip"})[0]["href"] == "#contingut"
        assert elements("body")[0]["data-runtime"] == "off"


def test_a_lesson_has_the_anatomy_of_a_lesson(lesson):
    elements = Elements(lesson)
    assert "Bloc 1 · intermedi · 1 h" in lesson
    assert "Abans d'això" in lesson
    contents = [link["href"] for link in elements("a") if link.get("href", "").startswith("#") and "class" not in link]
    assert contents[:3] == ["#primera", "#comprova", "#recursos"]
    assert '<span class="section-number">1</span>' in lesson
    assert elements("a", href="#primera", **{"class": "anchor"})
    assert elements("button", role="switch", data_action="plain-all")
    assert len(elements("button", role="switch", data_action="plain")) == 1
    assert {radio["value"] for radio in elements("input", name="reading-level")} == {"concept", "practice", "research"}
    assert "0 de 1 resoltes" in lesson
    assert "Marca els que hagis llegit" in lesson


def test_both_readings_are_in_the_page_the_formal_one_first(lesson):
    assert lesson.index('class="formal"') < lesson.index('class="plain"') < lesson.index("La meitat i una mica més")
    assert "<mn>3,14</mn>" in lesson


def test_a_quiz_is_complete_without_scripts(lesson):
    assert "Exacte." in lesson
    assert "Et falta un." in lesson
    assert lesson.count('data-right="true"') == 1
    assert len(Elements(lesson)("input", type="radio", name="quiz-1")) == 2


def test_text_has_its_catalan_typography(lesson):
    assert "12,5\u00a0%" in lesson
    assert "74\u00a0+\u00a046" in lesson


def test_the_widget_comes_with_its_recorded_figure_and_preset(lesson):
    elements = Elements(lesson)
    assert elements("section", data_widget="cot", data_state="idle")
    drawings = [image for image in elements("img") if "assets/cot-" in image["src"]]
    assert len(drawings) == 4
    assert all(image["alt"] and image["width"] == "96" and image["height"] == "48" for image in drawings)
    assert "Execució de referència" in lesson
    config = json.loads(re.search(r'id="raona-config">(.*?)</script>', lesson)[1])
    assert config["widgets"]["cot"]["id"] == "cot"
    assert config["runtime"]["worker"].startswith("assets/worker-")
    assert config["root"] == "../"


def test_pages_without_widgets_carry_no_runtime(built):
    text = (built / "glossari/index.html").read_text(encoding="utf-8")
    assert json.loads(re.search(r'id="raona-config">(.*?)</script>', text)[1])["runtime"] is None


def test_a_planned_lesson_says_so_and_keeps_its_headings(built):
    text = (built / "segona/index.html").read_text(encoding="utf-8")
    assert "En preparació" in text
    assert 'id="final"' in text
    assert 'href="../primera/"' in text


def test_the_home_page_maps_the_prerequisites(built):
    text = (built / "index.html").read_text(encoding="utf-8")
    assert len(re.findall(r"<path d=\"M[\d. C-]+\"/>", text)) == 1
    assert 'data-lesson="primera" data-questions="1" data-references="1"' in text


def test_the_glossary_says_where_its_terms_are_used(built, lesson):
    assert 'href="../glossari/#pluralitat"' in lesson
    assert '<a href="../primera/">Primera lliçó</a>' in (built / "glossari/index.html").read_text(encoding="utf-8")


def test_a_page_before_any_widget_runs_stays_small(built):
    """HTML, style, fonts and the scripts that start with the page; the budget of 200 kB also holds a real lesson."""
    import gzip

    text = (built / "primera/index.html").read_text(encoding="utf-8")
    total = len(gzip.compress(text.encode()))
    named = {name for name in re.findall(r"assets/([\w.-]+)", text) if not name.endswith((".svg", ".txt"))}
    named |= {font.name for font in built.glob("assets/*.woff2")}
    for name in named - {Path(config).name for config in re.findall(r"assets/worker-[\w-]+\.js", text)}:
        data = (built / "assets" / name).read_bytes()
        total += len(data) if name.endswith(".woff2") else len(gzip.compress(data))
    assert total < 140_000


def test_a_failed_build_leaves_the_former_site(tmp_path, cache):
    folder = write_course(tmp_path)
    out = build_course(folder, tmp_path / "dist", cache)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    write_course(tmp_path, first=FIRST.replace("[@wei2022]", "[@none]"))
    with pytest.raises(BuildError, match=r"primera\.md:\d+: there is no reference \[@none\]"):
        build_course(folder, out, cache)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".dist")] == []


def test_a_fault_late_in_the_build_leaves_the_former_site(tmp_path, cache, monkeypatch):
    folder = write_course(tmp_path)
    out = build_course(folder, tmp_path / "dist", cache)
    before = sorted(out.rglob("*"))

    def fail(folder):
        raise BuildError("late.", "Mend it.")

    monkeypatch.setattr(site, "check_output", fail)
    with pytest.raises(BuildError, match="late"):
        build_course(folder, out, cache)
    assert sorted(out.rglob("*")) == before


@pytest.mark.parametrize("where", ["thesis.txt", "assets/thesis.txt"])
def test_a_folder_that_is_no_site_is_not_replaced(tmp_path, cache, where):
    folder = write_course(tmp_path / "course")
    out = tmp_path / "precious"
    out.mkdir()
    thesis = out / where
    thesis.parent.mkdir(exist_ok=True)
    thesis.write_text("years of work")
    with pytest.raises(BuildError, match="it is not a built site"):
        build_course(folder, out, cache)
    assert thesis.read_text() == "years of work"


def test_a_folder_that_cannot_be_written_is_said(tmp_path, cache):
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"cannot be written: .*Give --out a folder where you may write") as caught:
        build_course(write_course(tmp_path / "course"), tmp_path / "file/dist", cache)
    assert "\n" not in str(caught.value)


def test_node_that_never_answers_ends_the_build_with_a_word(tmp_path, monkeypatch):
    (tmp_path / "silent.mjs").write_text("setInterval(() => {}, 1000);\n")
    monkeypatch.setattr(assets, "NODE_SECONDS", 1)
    with pytest.raises(BuildError, match=r"silent\.mjs gave no answer in 1 s"):
        assets.ask_node(tmp_path / "silent.mjs", {}, tmp_path)


def test_many_may_write_the_same_file_at_once(tmp_path):
    path = tmp_path / "cache/figure.json"
    whole = [bytes([65 + number]) * 200_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda data: write_whole(path, data), whole * 4))
    assert path.read_bytes() in whole
    assert [item.name for item in path.parent.iterdir()] == ["figure.json"]


def test_two_builds_give_the_same_bytes(tmp_path, built):
    """Another folder, an empty cache, another time zone, locale and hash seed."""
    folder = write_course(tmp_path / "elsewhere")
    environment = {**os.environ, "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "4321", "COLUMNS": "40"}
    subprocess.run(
        [sys.executable, str(ROOT / "tests/tiny_course.py"), str(folder), str(tmp_path / "d"), str(tmp_path / "cache")],
        env=environment,
        check=True,
    )
    names = sorted(path.relative_to(built) for path in built.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(tmp_path / "d") for path in (tmp_path / "d").rglob("*") if path.is_file())
    _, differing, errors = filecmp.cmpfiles(built, tmp_path / "d", map(str, names), shallow=False)
    assert (differing, errors) == ([], [])


def test_a_reference_run_is_made_once_for_the_same_sources(tmp_path, cache):
    source = tmp_path / "experiment.py"
    recorder = CannedRecorder(source)
    for text, runs in (("one", 1), ("one", 1), ("another", 2), ("one", 2)):
        source.write_text(f"# {tmp_path}: {text}\n")
        reference_figure("cot", recorder, cache, lambda text: None)
        assert recorder.runs == runs


def test_a_broken_script_names_its_place(tmp_path):
    (tmp_path / "bad.ts").write_text("let x = ;\n")
    with pytest.raises(BuildError, match=r"bad\.ts:1: Unexpected"):
        bundle_scripts(ROOT, tmp_path / "out", {"main": str(tmp_path / "bad.ts")}, {}, {})


@pytest.mark.parametrize(
    "html, words",
    [
        ('<a href="nowhere/">x</a>', "there is no such file"),
        ('<a href="#nowhere">x</a>', "has no such id"),
        ('<a href="/x/">x</a>', "breaks under a sub-path"),
        ('<img src="https://example.org/x.png" alt="">', "from another site"),
        ("<script>1</script>", "inline script"),
        ('<p onclick="x()">x</p>', "inline handler"),
        ('<p id="a"></p><p id="a"></p>', "occurs twice"),
        ("<p>\ue000math:3\ue001</p>", "unfilled placeholder"),
    ],
)
def test_the_last_look_finds(tmp_path, html, words):
    (tmp_path / "index.html").write_text(f"<!doctype html>\n{html}\n", encoding="utf-8")
    with pytest.raises(BuildError, match=words) as caught:
        check_output(tmp_path)
    assert "index.html:2" in str(caught.value)


def test_the_last_look_rejects_an_empty_site(tmp_path):
    with pytest.raises(BuildError, match="no pages"):
        check_output(tmp_path)

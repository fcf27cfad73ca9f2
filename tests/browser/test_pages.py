"""The pages around the widgets: readings, levels, quiz, resources, progress, theme, embedding, no scripts, paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

AXE = Path(__file__).resolve().parents[2] / "node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LESSON, HOME = "raonament/", ""
EVERY_PAGE = (HOME, LESSON, "grpo/", "glossari/", "evidencia/", "docents/", "widget/cot/")

pytestmark = pytest.mark.browser


@contextmanager
def opened(chromium: Browser, url: str, **options: Any) -> Iterator[Page]:
    """A page in a context of its own; fails on errors that the page logs and on requests that leave the site."""
    context = chromium.new_context(**{"service_workers": "block", **options})
    context.set_default_timeout(20_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    origin = "/".join(url.split("/")[:3])
    page.on(
        "request",
        lambda request: None if request.url.startswith((origin, "blob:", "data:")) else faults.append(request.url),
    )
    page.goto(url)
    yield page
    context.close()
    assert not faults


def test_without_formulas_swaps_the_readings_of_a_section_and_is_remembered(chromium, course):
    with opened(chromium, course.url + LESSON) as page:
        section = page.locator("#cadena-de-pensament")
        formal, plain = section.locator(".formal").first, section.locator(".plain").first
        expect(formal).to_be_visible()
        expect(plain).to_be_hidden()
        switch = section.locator("[data-action=plain]")
        switch.click()
        expect(switch).to_have_attribute("aria-checked", "true")
        expect(formal).to_be_hidden()
        expect(plain).to_be_visible()
        page.reload()
        expect(plain).to_be_visible()
        expect(page.locator("[data-action=plain-all]")).to_have_attribute("aria-checked", "false")


def test_without_formulas_everywhere_holds_on_every_page_and_overrules_the_sections(chromium, course):
    with opened(chromium, course.url + LESSON) as page:
        switch = page.locator("#cadena-de-pensament [data-action=plain]")
        everywhere = page.locator("[data-action=plain-all]")
        everywhere.click()
        expect(switch).to_have_attribute("aria-checked", "true")
        expect(page.locator(".formal").first).to_be_hidden()
        switch.click()
        expect(page.locator(".formal").first).to_be_visible()
        everywhere.click()
        everywhere.click()
        expect(page.locator(".formal").first).to_be_hidden()
        page.goto(course.url + "grpo/")
        assert page.locator("html").get_attribute("data-plain") == ""


def test_reading_levels_fold_and_unfold_and_are_remembered(chromium, course):
    with opened(chromium, course.url + LESSON) as page:
        practice, research = (page.locator(f"details[data-level={name}]").first for name in ("practice", "research"))
        for level, states in (("practice", (True, False)), ("research", (True, True)), ("concept", (False, False))):
            page.locator(f"input[name=reading-level][value={level}]").check()
            assert (practice.evaluate("d => d.open"), research.evaluate("d => d.open")) == states
        page.locator("input[name=reading-level][value=research]").check()
        page.reload()
        expect(page.locator("input[name=reading-level][value=research]")).to_be_checked()
        assert research.evaluate("d => d.open")


def answer(page: Page, question: int, *, right: bool) -> None:
    """Chooses a right or a wrong answer and asks for the verdict."""
    element = page.locator("[data-question]").nth(question)
    rights = element.locator(".solution li").evaluate_all("items => items.map(item => item.dataset.right === 'true')")
    element.locator(".answers input").nth(rights.index(right)).check()
    element.locator("[data-check]").click()


def test_a_quiz_explains_each_answer_and_counts_what_is_solved(chromium, course):
    with opened(chromium, course.url + LESSON) as page:
        counter = page.locator("[data-quiz-counter]")
        expect(counter).to_have_text("0 de 7 resoltes")
        first = page.locator("[data-question]").first
        expect(first.locator(".solution")).to_be_hidden()
        answer(page, 0, right=False)
        expect(first.locator("[data-feedback]")).to_contain_text("Encara no.")
        expect(counter).to_have_text("0 de 7 resoltes")
        answer(page, 0, right=True)
        expect(first.locator("[data-feedback]")).to_contain_text("Correcte.")
        assert len(first.locator("[data-feedback]").inner_text()) > len("Correcte.") + 20
        expect(first.locator(".solution")).to_be_visible()
        expect(counter).to_have_text("1 de 7 resoltes")
        page.reload()
        expect(counter).to_have_text("1 de 7 resoltes")
        expect(first.locator("[data-feedback]")).to_contain_text("Correcte.")


def test_checking_without_an_answer_says_so(chromium, course):
    with opened(chromium, course.url + LESSON) as page:
        page.locator("[data-check]").first.click()
        expect(page.locator("[data-feedback]").first).to_have_text("Tria una resposta abans de comprovar-la.")


def test_progress_is_shown_at_home_exported_and_imported(chromium, course, tmp_path):
    file = tmp_path / "progress.json"
    with opened(chromium, course.url + LESSON) as page:
        expect(page.locator("[data-quiz-counter]")).to_have_text("0 de 7 resoltes")
        answer(page, 0, right=True)
        answer(page, 1, right=True)
        boxes = page.locator("[data-resource-check]")
        boxes.first.check()
        expect(page.locator("[data-resource-counter]")).to_have_text(f"1 de {boxes.count()} llegits")
        total = boxes.count()
        page.goto(course.url)
        card = page.locator("[data-lesson=raonament]")
        expect(card.locator("[data-progress-text]")).to_have_text(
            f"Començada · 2 de 7 preguntes · 1 de {total} recursos"
        )
        with page.expect_download() as download:
            page.locator("[data-action=export]").click()
        download.value.save_as(file)
        assert json.loads(file.read_text(encoding="utf-8"))["course"] == "raona"
    with opened(chromium, course.url) as page:
        card = page.locator("[data-lesson=raonament]")
        expect(card.locator("[data-progress-text]")).to_have_text("Encara no l'has començada")
        page.locator("[data-progress-panel] input[type=file]").set_input_files(file)
        expect(card.locator("[data-progress-text]")).to_have_text(
            f"Començada · 2 de 7 preguntes · 1 de {total} recursos"
        )
        page.goto(course.url + LESSON)
        expect(page.locator("[data-quiz-counter]")).to_have_text("2 de 7 resoltes")


def test_a_file_that_is_no_progress_is_refused_in_words(chromium, course, tmp_path):
    file = tmp_path / "other.json"
    file.write_text('{"hello": 1}')
    with opened(chromium, course.url) as page:
        page.locator("[data-progress-panel] input[type=file]").set_input_files(file)
        expect(page.locator("[data-progress-panel] [role=alert]")).to_contain_text("No s'ha pogut importar el fitxer.")


@pytest.mark.parametrize("system, other", [("light", "dark"), ("dark", "light")])
def test_the_theme_follows_the_system_until_the_reader_chooses(chromium, course, system, other):
    with opened(chromium, course.url, color_scheme=system) as page:
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("[data-action=theme]").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper
        page.goto(course.url + LESSON)
        assert page.locator("html").get_attribute("data-theme") == other
        page.emulate_media(color_scheme=other)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper


def test_a_page_embedded_tells_its_height_and_drops_its_chrome(chromium, course):
    with opened(chromium, course.url + "docents/") as page:
        height = page.evaluate(
            """url => new Promise(resolve => {
                addEventListener("message", ({ data }) => data?.type === "raona:height" && resolve(data));
                const frame = Object.assign(document.createElement("iframe"), { src: url, width: 600, height: 300 });
                document.body.append(frame);
            })""",
            course.url + "widget/cot/?embed=1",
        )
        assert height["widget"] == "cot"
        assert height["height"] > 400
        frame = page.frames[1]
        expect(frame.locator(".site-header")).to_be_hidden()
        expect(frame.locator("section[data-widget=cot]")).to_be_visible()
        expect(frame.locator(".embed-only")).to_be_visible()


def test_a_lesson_is_complete_without_scripts(chromium, course):
    with opened(chromium, course.url + LESSON, java_script_enabled=False) as page:
        formal, plain = page.locator(".formal").first, page.locator(".plain").first
        expect(formal).to_be_visible()
        expect(plain).to_be_visible()
        assert formal.bounding_box()["y"] < plain.bounding_box()["y"]
        expect(plain.locator(".dual-label")).to_have_text("En paraules")
        expect(page.locator(".solution summary").first).to_be_visible()
        for dead in ("[data-action=theme]", "[data-action=plain-all]", "[data-check]", "[data-resource-check]"):
            expect(page.locator(dead).first).to_be_hidden()
        expect(page.locator(".recorded-figure img").first).to_be_visible()


def test_paper_shows_both_readings_and_what_was_folded(chromium, course):
    with opened(chromium, course.url + LESSON, color_scheme="dark") as page:
        page.locator("[data-action=plain-all]").click()
        page.emulate_media(media="print", color_scheme="dark")
        expect(page.locator(".formal").first).to_be_visible()
        expect(page.locator(".plain").first).to_be_visible()
        expect(page.locator(".site-nav")).to_be_hidden()
        expect(page.locator("[data-check]").first).to_be_hidden()
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 27, 24)"


@pytest.mark.parametrize("path", EVERY_PAGE)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_accessible(chromium, course, theme, path):
    with opened(chromium, course.url + path, color_scheme=theme, bypass_csp=True) as page:
        # Not the listings: thousands of coloured words, whose contrast test_build_theme.py computes.
        page.evaluate("for (const fold of document.querySelectorAll('details:not(.widget-code)')) fold.open = true")
        if path == LESSON:
            answer(page, 0, right=False)
            answer(page, 1, right=True)
        page.add_script_tag(path=AXE)
        found = page.evaluate("rules => axe.run(document, { runOnly: rules })", RULES)
        assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found["violations"]] == []


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_a_narrow_phone_never_scrolls_sideways(chromium, course, path):
    with opened(chromium, course.url + path, viewport={"width": 360, "height": 740}) as page:
        page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_keyboard_reaches_the_text_first(chromium, course):
    with opened(chromium, course.url + LESSON) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "contingut"


def test_a_lesson_before_any_widget_runs_transfers_less_than_200_kb(chromium, course):
    """As a server that compresses would send it; the runtime is not part of it, since no widget is near."""
    import gzip

    sizes: dict[str, int] = {}

    def measure(response: Any) -> None:
        body = response.body()
        sizes[response.url] = len(body) if response.url.endswith(".woff2") else len(gzip.compress(body))

    context = chromium.new_context(viewport={"width": 1280, "height": 800}, service_workers="block")
    page = context.new_page()
    page.on("requestfinished", lambda request: measure(request.response()))
    page.goto(course.url + LESSON)
    page.locator('[data-part="live"]').first.wait_for(state="attached")
    page.wait_for_load_state("load")
    page.wait_for_timeout(500)
    context.close()
    assert len(sizes) > 8
    assert not any("/pyodide/" in url for url in sizes)
    assert sum(sizes.values()) <= 200_000, sizes

"""The first widget without a whole run: links, mistakes, stopping, no network, no JavaScript, small screens."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser
from widget_page import (
    FULL_RUN,
    act,
    act_at,
    alert,
    axe,
    hydrated,
    note,
    open_widget,
    reached,
    readouts,
    section,
    series,
    visible_actions,
    wait_state,
)

pytestmark = pytest.mark.browser
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def lesson(course) -> str:
    return course.url + "raonament/"


def settings(page) -> dict[str, str]:
    return {name: section(page).locator(f'[name="{name}"]').input_value() for name in ("checkpoint", "k", "seed")}


def test_a_link_restores_every_setting_and_runs_nothing(chromium: Browser, lesson):
    with open_widget(chromium, lesson + "?w=cot&seed=7&k=5&checkpoint=1000", saves_data=True) as page:
        assert settings(page) == {"checkpoint": "1000", "k": "5", "seed": "7"}
        assert section(page).get_attribute("data-state") == "idle"
        assert "Executa" in (note(page, "link").text_content() or "")
        assert alert(page) == ""


MALFORMED = {
    "w=cot&k=99": ["entre 1 i 15", "«99»"],
    "w=cot&k=2.5": ["entre 1 i 15", "«2.5»"],
    "w=cot&seed=abc": ["Llavor", "«abc»"],
    "w=cot&seed=-1": ["Llavor", "«-1»"],
    "w=cot&checkpoint=600": ["500 passos", "«600»"],
    "w=cot&chains=3": ["no té", "«chains»"],
    "w=cot&k=3&k=4": ["Porta més d'un valor", "«k»"],
    "w=cot&k=%3Cb%3E": ["entre 1 i 15", "«<b>»"],
}


def test_a_malformed_link_is_told_in_catalan_and_changes_nothing(chromium: Browser, lesson):
    with open_widget(chromium, lesson, saves_data=True) as page:
        for query, words in MALFORMED.items():
            page.goto(f"{lesson}?{query}")
            hydrated(page)
            message = alert(page)
            assert all(word in message for word in words), (query, message)
            assert settings(page) == {"checkpoint": "500", "k": "9", "seed": "1"}, query
            assert section(page).get_attribute("data-state") == "idle"
        assert axe(page) == []


def test_for_a_reader_who_saves_data_nothing_is_fetched_before_run(chromium: Browser, lesson):
    with open_widget(chromium, lesson, saves_data=True) as page:
        page.wait_for_timeout(1000)
        assert page.locator('body[data-runtime="off"]').count() == 1
        act(page, "run")
        wait_state(page, "running", "done")


def test_a_link_keeps_what_is_valid_in_it(chromium: Browser, lesson):
    with open_widget(chromium, lesson + "?w=cot&seed=7&k=99", saves_data=True) as page:
        assert settings(page) == {"checkpoint": "500", "k": "9", "seed": "7"}
        assert "«99»" in alert(page)


def test_a_link_to_a_widget_of_another_page_says_so(chromium: Browser, lesson):
    with open_widget(chromium, lesson + "?w=inference&seed=7", saves_data=True) as page:
        assert "«inference»" in (page.locator('main > [role="alert"]').text_content() or "")
        assert settings(page)["seed"] == "1"


def test_sharing_copies_a_link_that_restores_the_settings(chromium: Browser, lesson):
    with open_widget(chromium, lesson, permissions=["clipboard-read", "clipboard-write"], saves_data=True) as page:
        section(page).locator('[name="seed"]').fill("4294967295")
        section(page).locator('[name="k"]').fill("15")
        act(page, "share")
        field = section(page).locator('[data-part="link"]')
        field.wait_for()
        link = field.input_value()
        assert parse_qs(urlsplit(link).query) == {
            "w": ["cot"],
            "checkpoint": ["500"],
            "k": ["15"],
            "seed": ["4294967295"],
        }
        assert page.evaluate("navigator.clipboard.readText()") == link
        assert axe(page) == []
        page.goto(link)
        section(page).locator('[data-part="live"]').wait_for()
        assert settings(page) == {"checkpoint": "500", "k": "15", "seed": "4294967295"}


def test_without_a_clipboard_the_link_is_there_to_be_copied(chromium: Browser, lesson):
    with open_widget(chromium, lesson, saves_data=True) as page:
        page.evaluate("""() => {
          const refuse = () => Promise.reject(new Error("no"));
          Object.defineProperty(navigator, "clipboard", { value: { writeText: refuse } });
          document.execCommand = () => false;
        }""")
        act(page, "share")
        field = section(page).locator('[data-part="link"]')
        field.wait_for()
        assert "w=cot" in field.input_value()
        assert field.evaluate("input => input === document.activeElement && input.selectionEnd === input.value.length")


def test_a_reload_keeps_the_settings_that_a_link_brought_and_the_reader_changed(chromium: Browser, lesson):
    with open_widget(chromium, lesson + "?w=cot&seed=7", saves_data=True) as page:
        section(page).locator('[name="k"]').fill("3")
        page.reload()
        section(page).locator('[data-part="live"]').wait_for()
        assert settings(page) == {"checkpoint": "500", "k": "3", "seed": "7"}


def test_an_invalid_parameter_is_refused_where_it_is(chromium: Browser, lesson):
    with open_widget(chromium, lesson, saves_data=True) as page:
        seed = section(page).locator('[name="seed"]')
        seed.fill("-3")
        assert "«-3»" in alert(page)
        act(page, "run")
        assert section(page).get_attribute("data-state") == "idle"
        assert seed.evaluate("input => input === document.activeElement")
        assert axe(page) == []
        seed.fill("3")
        assert alert(page) == ""


def test_stopping_keeps_what_was_reached_and_its_checkpoints(chromium: Browser, lesson):
    with open_widget(chromium, lesson) as page:
        act(page, "run")
        act_at(page, reached("direct-500"), "stop")
        wait_state(page, "idle")
        assert visible_actions(page) == {"run", "new-seed", "share", "code"}
        assert "punts de control" in (note(page, "stopped").text_content() or "")
        assert [x for x, _ in series(page)["reasoned"]][:2] == [0, 250]
        assert readouts(page)["cot-500"][0] != ""
        assert readouts(page)["cot-1500"][0] == ""
        assert axe(page) == []
        view = section(page).locator('[data-part="view"]')
        view.get_by_role("button", name="Resol la suma").click()
        view.locator('[data-trace="direct"]').wait_for(timeout=20_000)


def test_the_keyboard_alone_runs_pauses_resumes_and_stops(chromium: Browser, lesson):
    with open_widget(chromium, lesson) as page:
        focused = "document.activeElement.dataset.action"
        section(page).locator('[data-action="run"]').focus()
        page.keyboard.press("Enter")
        wait_state(page, "running")
        assert page.evaluate(focused) == "pause"
        page.keyboard.press("Space")
        wait_state(page, "paused")
        assert page.evaluate(focused) == "resume"
        page.keyboard.press("Space")
        wait_state(page, "running")
        assert page.evaluate(focused) == "pause"
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "stop"
        page.keyboard.press("Enter")
        wait_state(page, "idle")
        assert page.evaluate(focused) == "run"


def test_with_the_network_cut_after_ready_it_still_trains_and_draws(chromium: Browser, lesson):
    with open_widget(chromium, lesson) as page:
        page.locator('body[data-runtime="ready"]').wait_for(timeout=FULL_RUN)
        page.context.set_offline(True)
        act(page, "run")
        wait_state(page, "done")
        assert section(page).locator('[data-panel="learning"] svg').is_visible()
        assert len(series(page)["direct"]) == 7


def test_a_runtime_that_cannot_be_fetched_is_told_and_can_be_retried(chromium: Browser, lesson):
    context = chromium.new_context(service_workers="block")
    page = context.new_page()
    page.route("**/pyodide/**", lambda route: route.abort())
    page.goto(lesson)
    section(page).locator('[data-part="live"]').wait_for()
    act(page, "run")
    page.locator('section[data-state="error"]').wait_for(timeout=FULL_RUN)
    assert alert(page) != ""
    assert "run" in visible_actions(page)
    assert axe(page) == []
    page.unroute("**/pyodide/**")
    act(page, "run")
    wait_state(page, "running", "done")
    assert alert(page) == ""
    context.close()


def test_without_javascript_the_recorded_run_its_numbers_and_the_code_are_there(chromium: Browser, lesson):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(lesson)
    root = section(page)
    assert not root.locator('[data-part="live"]').is_visible()
    assert root.locator("img.figure-light").first.is_visible()
    assert root.locator(".recorded-table tbody tr").count() == 6
    assert "enregistrada" in (root.locator(".widget-recorded > summary").text_content() or "")
    root.locator(".widget-code > summary").click()
    assert root.locator(".widget-code pre").first.is_visible()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_loses_nothing(chromium: Browser, lesson, scheme):
    options = {"viewport": PHONE, "color_scheme": scheme, "has_touch": True, "is_mobile": True}
    with open_widget(chromium, lesson, **options) as page:
        act(page, "run")
        act_at(page, 'tr[data-series="direct"]', "pause")
        wait_state(page, "paused")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        panel = section(page).locator('[data-panel="learning"] [role="slider"]')
        panel.scroll_into_view_if_needed()
        assert (
            section(page)
            .locator('[data-action="resume"]')
            .evaluate(
                "button => { const { top, bottom } = button.getBoundingClientRect();"
                " return top >= 0 && bottom <= innerHeight; }"
            )
        ), "the buttons stay within reach"
        panel.tap()
        assert "passos" in (section(page).locator('[data-panel="learning"] [data-part="values"]').text_content() or "")
        assert axe(page) == []
        act(page, "stop")
        wait_state(page, "idle")

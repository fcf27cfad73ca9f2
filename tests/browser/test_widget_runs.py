"""A whole run of the first widget as its reader lives it: bet, run, pause, resume, done, repeat, come back later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from widget_page import (
    FULL_RUN,
    act,
    act_at,
    alert,
    axe,
    digest,
    hydrated,
    note,
    open_widget,
    reached,
    readouts,
    section,
    series,
    share_done,
    visible_actions,
    wait_state,
)

from widgets._runtime.native import run_to_end

pytestmark = pytest.mark.browser

COUNT_CHECKPOINTS = """() => new Promise((resolve, reject) => {
  const opening = indexedDB.open("raona-raona");
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = () => {
    const keys = opening.result.transaction("checkpoints").objectStore("checkpoints").getAllKeys();
    keys.onsuccess = () => { opening.result.close(); resolve(keys.result); };
  };
})"""


class Story:
    """What was seen at each moment of one reader's visit; `page` stays open at the end of it."""

    def __init__(self, page: Page):
        self.page = page
        self.moments: dict[str, dict[str, Any]] = {}

    def record(self, moment: str, *, schemes: tuple[str, ...] = ("light",), only: str | None = None) -> None:
        """Takes down what the page shows now; a moment that must not pass meanwhile has one scheme and one element."""
        page = self.page
        state = section(page).get_attribute("data-state")
        actions = visible_actions(page)
        problems: list[str] = []
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            problems += [f"{scheme}: {problem}" for problem in axe(page, only)]
        page.emulate_media(color_scheme="light")
        self.moments[moment] = {
            "state": state,
            "axe": problems,
            "actions": actions,
            "readouts": readouts(page),
            "series": series(page),
            "recorded": section(page).locator('[data-part="recorded"]').evaluate("details => details.open"),
            "share": share_done(page),
            "alert": alert(page),
            "overflow": page.evaluate("document.documentElement.scrollWidth - innerWidth"),
        }

    def __getitem__(self, moment: str) -> dict[str, Any]:
        return self.moments[moment]


@pytest.fixture(scope="module")
def story(chromium: Browser, course) -> Iterator[Story]:
    with open_widget(chromium, course.url + "raonament/", viewport={"width": 1280, "height": 900}) as page:
        told = Story(page)
        page.locator('body[data-runtime="ready"]').wait_for(timeout=FULL_RUN)
        told.record("idle", schemes=("light", "dark"))
        section(page).locator('input[value="direct"]').check()
        act(page, "run")
        act_at(page, reached("cot-500"), "pause")
        wait_state(page, "paused")
        told.record("paused", schemes=("light", "dark"))
        page.wait_for_timeout(1500)
        told.record("still paused")
        act(page, "resume")
        wait_state(page, "running")
        told.record("running", only='section[data-widget="cot"]')
        wait_state(page, "done")
        told.record("done", schemes=("light", "dark"))
        told["done"]["digest"] = digest(page)
        told["done"]["explanation"] = section(page).locator('[data-part="explanation"]').text_content()
        told["done"]["as recorded"] = note(page, "as-recorded").is_visible()
        told["done"]["verdict"] = section(page).locator('[data-part="verdict"]').text_content()
        act(page, "repeat")
        wait_state(page, "running", "loading")
        wait_state(page, "done")
        told.record("repeated")
        told["repeated"]["digest"] = digest(page)
        told["repeated"]["note"] = note(page, "same-digest").is_visible()
        page.reload()
        hydrated(page)
        wait_state(page, "done")
        told.record("reloaded")
        told["reloaded"]["digest"] = digest(page)
        told["reloaded"]["note"] = note(page, "restored").text_content()
        told["reloaded"]["checkpoints"] = page.evaluate(COUNT_CHECKPOINTS)
        told["reloaded"]["bet"] = section(page).locator('input[value="direct"]').is_checked()
        yield told


@pytest.fixture
def finished(story: Story) -> Page:
    """The page with a finished run on it, in the settings of that run."""
    page = story.page
    controls = section(page)
    controls.locator('[name="checkpoint"]').select_option("500")
    controls.locator('[name="k"]').fill("9")
    controls.locator('[name="seed"]').fill("1")
    controls.locator(f'[data-readout="vote"][data-value="{story["done"]["readouts"]["vote"][0]}"]').wait_for()
    return page


@pytest.mark.parametrize("moment", ["idle", "running", "paused", "done", "repeated", "reloaded"])
def test_axe_finds_nothing_and_nothing_overflows(story, moment):
    assert story[moment]["axe"] == []
    assert story[moment]["overflow"] <= 0
    assert story[moment]["alert"] == ""


def test_each_state_offers_what_can_be_done_in_it(story):
    always = {"share", "code"}
    assert [story[moment]["state"] for moment in ("idle", "running", "paused", "done")] == [
        "idle", "running", "paused", "done",
    ]  # fmt: skip
    assert story["idle"]["actions"] == {"run", "new-seed"} | always
    assert story["running"]["actions"] == {"pause", "stop"} | always
    assert story["paused"]["actions"] == {"resume", "stop"} | always
    assert story["done"]["actions"] == {"run", "repeat", "new-seed"} | always


def test_idle_folds_the_recorded_run_and_shows_no_value_as_the_readers_own(story):
    assert not story["idle"]["recorded"]
    assert {value for value, _ in story["idle"]["readouts"].values()} == {""}
    assert story["idle"]["series"] == {}
    assert not story["done"]["recorded"]


def test_a_paused_run_stays_where_it_is(story):
    assert story["paused"]["share"] == story["still paused"]["share"] > 0
    assert story["paused"]["series"] == story["still paused"]["series"]
    assert story["paused"]["readouts"]["cot-500"][0] != ""
    assert story["paused"]["readouts"]["cot-1500"][0] == ""


def test_done_publishes_every_readout_in_full_precision_and_in_catalan(story):
    done = story["done"]
    for name, (value, text) in done["readouts"].items():
        assert 0 <= float(value) <= 1, name
        assert json.loads(value) == float(value)
        assert text.endswith("\u00a0%"), (name, text)
        assert "." not in text, (name, text)


def test_done_draws_every_series_whole(story):
    found = story["done"]["series"]
    assert {name: [x for x, _ in points] for name, points in found.items()} == {
        **{name: [0, 250, 500, 750, 1000, 1250, 1500] for name in ("reasoned", "direct")},
        **{name: list(range(1, 16)) for name in ("plurality", "majority", "binomial")},
    }
    by_step = dict(map(tuple, found["reasoned"]))
    assert by_step[500] == float(story["done"]["readouts"]["cot-500"][0])
    by_k = dict(map(tuple, found["plurality"]))
    assert by_k[9] == float(story["done"]["readouts"]["vote"][0])


def test_done_explains_itself_and_compares_with_the_bet(story):
    done = story["done"]
    assert done["readouts"]["cot-500"][1] in done["explanation"]
    assert "resposta directa" in done["verdict"]


def test_the_page_and_the_command_line_give_the_same_bits(story):
    record = run_to_end("cot", {"checkpoint": 500, "k": 9, "seed": 1}, backend="kernel")
    assert {name: float(value) for name, (value, _) in story["done"]["readouts"].items()} == record["readouts"]
    assert story["done"]["series"] == {
        name: [list(point) for point in found] for name, found in record["series"].items()
    }
    assert story["done"]["digest"] == record["digest"]


def test_the_default_run_says_that_it_gave_the_reference_runs_numbers(story):
    assert story["done"]["as recorded"]


def test_repeating_gives_the_same_bits_and_says_so(story):
    assert len(story["done"]["digest"]) == 64
    assert story["repeated"]["digest"] == story["done"]["digest"]
    assert story["repeated"]["readouts"] == story["done"]["readouts"]
    assert story["repeated"]["series"] == story["done"]["series"]
    assert story["repeated"]["note"]


def test_a_reload_brings_back_the_run_its_bet_and_its_checkpoints(story):
    reloaded = story["reloaded"]
    assert reloaded["readouts"] == story["done"]["readouts"]
    assert reloaded["series"] == story["done"]["series"]
    assert reloaded["digest"] == story["done"]["digest"]
    assert "llavor 1" in reloaded["note"]
    assert reloaded["bet"]
    kinds = {tuple(key.split("/")[:3]) for key in reloaded["checkpoints"]}
    assert kinds == {(kind, steps, "1") for kind in ("reasoned", "direct") for steps in ("500", "1000", "1500")}


# ---------------------------------------------------------------- with the results on the page


def test_k_and_the_checkpoint_are_read_again_at_once(finished, story):
    controls = section(finished)
    votes = dict(map(tuple, story["done"]["series"]["plurality"]))
    controls.locator('[name="k"]').fill("3")
    controls.locator(f'[data-readout="vote"][data-value="{votes[3]:g}"]').wait_for()
    assert "k = 3" in (controls.locator('[data-part="explanation"]').text_content() or "")
    controls.locator('[name="checkpoint"]').select_option("1500")
    controls.locator('[data-readout="per-chain"]:is([data-value^="0.9"], [data-value="1"])').wait_for()
    assert finished.locator('section[data-state="done"]').count() == 1
    assert controls.locator("[data-stale]").count() == 0
    assert len(series(finished)["reasoned"]) == 7, "what is not read again stays"


def test_another_seed_marks_the_results_as_stale_until_undone(finished):
    controls = section(finished)
    controls.locator('[name="seed"]').fill("8")
    assert controls.locator("[data-stale]").count() == 1
    assert "Llavor" in (note(finished, "stale").text_content() or "")
    note(finished, "stale").get_by_role("button").click()
    assert controls.locator('[name="seed"]').input_value() == "1"
    assert controls.locator("[data-stale]").count() == 0
    assert not note(finished, "stale").is_visible()


def test_a_new_seed_runs_and_can_be_undone(finished, story):
    act(finished, "new-seed")
    act_at(finished, reached("cot-500"), "pause")
    wait_state(finished, "paused")
    assert section(finished).locator('[name="seed"]').input_value() != "1"
    assert section(finished).locator('input[value="direct"]').is_checked(), "the bet is the reader's, not the seed's"
    note(finished, "changed").get_by_role("button").click()
    wait_state(finished, "done")
    assert section(finished).locator('[name="seed"]').input_value() == "1"
    assert digest(finished) == story["done"]["digest"]
    assert readouts(finished)["cot-1500"] == story["done"]["readouts"]["cot-1500"]


def test_arrow_keys_read_the_chart(finished, story):
    plot = section(finished).locator('[data-panel="voting"] [role="slider"]')
    plot.focus()
    plot.press("Home")
    assert "k: 1;" in (plot.get_attribute("aria-valuetext") or "")
    plot.press("ArrowRight")
    text = plot.get_attribute("aria-valuetext") or ""
    assert "k: 2;" in text
    at_two = dict(map(tuple, story["done"]["series"]["plurality"]))[2]
    assert f"pluralitat, mesurada: {round(at_two * 100)}\u00a0%" in text
    assert section(finished).locator('[data-panel="voting"] [data-part="values"]').text_content() == text
    plot.press("End")
    assert "k: 15;" in (plot.get_attribute("aria-valuetext") or "")


def test_the_data_table_turns_its_pages_and_keeps_every_row(finished):
    root = section(finished)
    root.locator(".widget-table > summary").click()
    rows = root.locator("tr[data-series]")
    assert rows.count() == 59
    shown = rows.locator("visible=true")
    assert shown.count() == 15
    root.get_by_role("button", name="Següent").click()
    assert root.locator('[data-part="page"]').text_content() == "Pàgina 2 de 4"
    assert axe(finished) == []
    root.locator(".widget-table > summary").click()


def test_show_code_opens_the_experiment_that_ran(finished):
    act(finished, "code")
    code = section(finished).locator('[data-part="code"]')
    assert code.evaluate("details => details.open")
    assert "def experiment(" in (code.text_content() or "")
    assert "referència en NumPy" in (code.text_content() or "")
    assert code.locator("summary").evaluate("summary => summary === document.activeElement")
    assert axe(finished) == []
    code.locator("summary").click()


def test_the_readers_own_sum_is_traced_with_probabilities(finished):
    view = section(finished).locator('[data-part="view"]')
    view.locator('[name="first"]').fill("12")
    view.locator('[name="second"]').fill("34")
    view.locator('[name="sum-checkpoint"]').select_option("1500")
    view.get_by_role("button", name="Resol la suma").click()
    trace = view.locator('[data-trace="reasoned"]')
    trace.wait_for()
    assert "".join(trace.locator(".token-character").all_text_contents()) == "06,04:46."
    assert trace.get_attribute("data-correct") == "true"
    shares = [float(p) for p in trace.locator(".token").evaluate_all("all => all.map(e => e.dataset.p)")]
    assert len(shares) == 9
    assert all(0 < p <= 1 for p in shares)
    trace.locator(".token").first.click()
    assert trace.locator(".options li").count() == 4
    view.locator('[data-trace="direct"]').wait_for()
    assert trace.locator(".trace-of").text_content() == "12\u00a0+\u00a034 · 1.500 passos · llavor 1"
    assert axe(finished) == []
    view.locator('[name="second"]').fill("35")
    assert view.locator(".traces[data-stale]").count() == 1, "the traces answer another sum"
    view.locator('[name="second"]').fill("34")
    assert view.locator(".traces[data-stale]").count() == 0


@pytest.mark.parametrize(("first", "second"), [("5", "46"), ("100", "46"), ("set", "46"), ("", "46"), ("12,5", "46")])
def test_a_sum_outside_10_to_99_is_refused_with_what_was_typed(finished, first, second):
    view = section(finished).locator('[data-part="view"]')
    view.locator('[name="first"]').fill(first)
    view.locator('[name="second"]').fill(second)
    view.get_by_role("button", name="Resol la suma").click()
    message = view.get_by_role("alert").text_content() or ""
    assert "entre 10 i 99" in message
    assert (f"«{first}»" if first else "Hi falta un nombre") in message
    assert view.locator('[name="first"]').get_attribute("aria-invalid") == "true"
    assert view.locator('[name="first"]').evaluate("input => input === document.activeElement")
    assert axe(finished) == []

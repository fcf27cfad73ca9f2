"""How the tests of a widget read and drive it: by the page contract alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page

AXE = Path(__file__).resolve().parents[2] / "node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
FULL_RUN = 300_000
"""Milliseconds within which the runtime must load or a run end, even on a busy machine."""

ACTIONS = ("run", "pause", "resume", "stop", "repeat", "new-seed", "share", "code")


def section(page: Page, widget: str = "cot") -> Locator:
    return page.locator(f'section[data-widget="{widget}"]')


@contextmanager
def open_widget(chromium: Browser, url: str, *, saves_data: bool = False, **options: Any) -> Iterator[Page]:
    """A page of its own with the widgets hydrated; fails on any error the page logs.

    saves_data: as a reader who asked the browser to save data, for whom no runtime is fetched before Run.
    """
    context = chromium.new_context(**{"service_workers": "block", "reduced_motion": "reduce", **options})
    context.set_default_timeout(60_000)
    if saves_data:
        context.add_init_script("Object.defineProperty(navigator, 'connection', { value: { saveData: true } })")
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(url)
    hydrated(page)
    yield page
    context.close()
    assert not errors


def hydrated(page: Page) -> None:
    section(page).locator('[data-part="live"]').first.wait_for()
    section(page).first.scroll_into_view_if_needed()


def wait_state(page: Page, *states: str, timeout: float = FULL_RUN) -> None:
    """Waits for one of the states; `error` ends the wait with its message."""
    wanted = ", ".join(f'section[data-widget="cot"][data-state="{state}"]' for state in {*states, "error"})
    page.locator(wanted).first.wait_for(timeout=timeout)
    found = section(page).first.get_attribute("data-state")
    assert found in states, section(page).first.locator('[role="alert"]').first.text_content()


def act(page: Page, action: str) -> None:
    section(page).first.locator(f'[data-action="{action}"]').click()


def act_at(page: Page, moment: str, action: str) -> None:
    """Presses a button as soon as the widget has an element that matches `moment`: a whole run takes seconds."""
    page.evaluate(
        """([moment, action]) => new Promise((resolve) => {
          const root = document.querySelector('section[data-widget="cot"]');
          const look = () => {
            if (!root.querySelector(moment)) return;
            observer.disconnect();
            root.querySelector(`[data-action="${action}"]`).click();
            resolve();
          };
          const observer = new MutationObserver(look);
          observer.observe(root, { subtree: true, childList: true, attributes: true });
          look();
        })""",
        [moment, action],
    )


def reached(readout: str) -> str:
    return f'[data-readout="{readout}"]:not([data-value=""])'


def visible_actions(page: Page) -> set[str]:
    root = section(page).first
    return {action for action in ACTIONS if root.locator(f'[data-action="{action}"]').is_visible()}


def readouts(page: Page) -> dict[str, tuple[str, str]]:
    """name -> (machine value, Catalan text)"""
    found = (
        section(page)
        .first.locator("[data-readout]")
        .evaluate_all("all => all.map(e => [e.dataset.readout, [e.dataset.value, e.textContent]])")
    )
    return {name: tuple(pair) for name, pair in found}


def series(page: Page) -> dict[str, list[list[float]]]:
    """name -> points, from the data table"""
    rows = (
        section(page)
        .first.locator("tr[data-series]")
        .evaluate_all("all => all.map(e => [e.dataset.series, Number(e.dataset.x), Number(e.dataset.y)])")
    )
    found: dict[str, list[list[float]]] = {}
    for name, x, y in rows:
        found.setdefault(name, []).append([x, y])
    return found


def digest(page: Page) -> str:
    return section(page).first.locator("[data-digest]").get_attribute("data-digest") or ""


def note(page: Page, name: str) -> Locator:
    return section(page).first.locator(f'[data-note="{name}"]')


def alert(page: Page) -> str:
    return section(page).first.locator('[data-part="alert"]').text_content() or ""


def share_done(page: Page) -> float:
    return page.locator('[data-part="bar"]').first.evaluate("bar => bar.value")


def axe(page: Page, only: str | None = None) -> list[str]:
    """What axe finds against, one line each, on the whole page or in one element of it."""
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("([rules, only]) => axe.run(only ?? document, { runOnly: rules })", [RULES, only])
    return [
        f"{violation['id']}: {violation['help']} {node['html'][:200]} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]

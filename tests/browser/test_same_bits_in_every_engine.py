"""The claim of the course: a seed gives the same bits in every browser engine and on the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browsers
import pytest
from widget_page import open_widget

from builder import engines
from widgets._runtime.native import run_to_end
from widgets._runtime.store import FileStore

pytestmark = pytest.mark.browser

SEED = 7
SECTION = """document.querySelector('section[data-widget="cot"]')"""
STATE = f"{SECTION}.dataset.state"
SHOWN = f"""(() => {{
  const section = {SECTION};
  const readouts = [...section.querySelectorAll('[data-readout]')];
  return {{
    readouts: Object.fromEntries(readouts.map(({{ dataset }}) => [dataset.readout, Number(dataset.value)])),
    digest: section.querySelector('[data-digest]')?.dataset.digest,
    alert: section.querySelector('[role="alert"]').textContent,
  }};
}})()"""


@pytest.fixture(scope="session")
def on_the_command_line(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The run that must be met, trained from the start."""
    return run_to_end("cot", {"seed": SEED}, backend="kernel", store=FileStore(tmp_path_factory.mktemp("store")))


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], browsers.Browser]]:
    """open(url) -> a page of the engine named; fails in one line if it is not on this machine."""
    name = request.param
    if name not in engines.wanted():
        pytest.skip(f"{engines.VARIABLE} leaves {name} out")
    if name != engines.CHROMIUM and (complaint := engines.ENGINES[name].complaint()):
        pytest.fail(complaint, pytrace=False)
    with contextlib.ExitStack() as stack:

        def open_page(url: str) -> browsers.Browser:
            if name == engines.CHROMIUM:
                return browsers.Chromium(stack.enter_context(open_widget(request.getfixturevalue("chromium"), url)))
            browser = stack.enter_context(browsers.OTHERS[name](tmp_path / "driver.log"))
            browser.go(url)
            return browser

        yield open_page


# Selenium 4.51 warns of what its own WebKitGTK driver does.
@pytest.mark.filterwarnings("ignore:setting remote_server_addr:DeprecationWarning")
@pytest.mark.parametrize("engine", [engines.CHROMIUM, *browsers.OTHERS], indirect=True)
def test_cot_in_the_page_has_the_bits_of_the_command_line(engine, course, on_the_command_line):
    page = engine(f"{course.url}raonament/?w=cot&seed={SEED}")
    browsers.wait_for(page, f"""!{SECTION}.querySelector('[data-part="live"]').hidden""", True)
    page.click('section[data-widget="cot"] [data-action="run"]')
    assert browsers.wait_for(page, STATE, "done", "error") == "done", page.evaluate(SHOWN)
    expected = {"readouts": on_the_command_line["readouts"], "digest": on_the_command_line["digest"], "alert": ""}
    assert page.evaluate(SHOWN) == expected
    page.go(f"{course.url}raonament/")
    assert browsers.wait_for(page, STATE, "done", "error") == "done", "the run is there again on the next visit"
    assert page.evaluate(SHOWN) == expected

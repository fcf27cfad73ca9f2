"""What a visitor of the built site waits for: start-up by stages, bytes, a widget's whole run, the tab's memory."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserType, Page, Request

from bench.chromium import options, site_config

WAIT_MS = 300_000
WIDGET, LESSON = "widget/cot/", "raonament/"
RUNTIME_FOLDERS = ("/pyodide/", "/runtime/")
STAGES = ("fetch", "compile", "boot", "packages", "import", "first point")

NO_PREFETCH = "Object.defineProperty(Navigator.prototype, 'connection', { get: () => ({ saveData: true }) });"
"""A reader who saves data: the runtime then waits for the first click, which is what is measured here."""

WATCH = """
globalThis.benchMarks = [];
globalThis.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      const what = data.type === "event" ? data.event.type : data.type;
      const at = performance.timeOrigin + performance.now();
      benchMarks.push({ what, stage: data.stage, at, start: data.start, end: data.end, x: data.event?.x });
    });
  }
};
"""
"""In the page: when each message of the course's worker arrived."""

WATCH_WORKER = """{
  const { instantiateStreaming } = WebAssembly;
  const now = () => performance.timeOrigin + performance.now();
  WebAssembly.instantiateStreaming = async (...given) => {
    const start = now();
    const made = await instantiateStreaming(...given);
    self.postMessage({ type: "bench-compile", start, end: now() });
    return made;
  };
}
"""
"""Before the worker's own script, in the copy of the site that is measured: how long WebAssembly took to compile."""


def watch_worker(site: Path) -> None:
    worker = site / site_config(site)["runtime"]["worker"]
    worker.write_text(WATCH_WORKER + worker.read_text(encoding="utf-8"), encoding="utf-8")


class Visits:
    """Visits to the site at `address`. own: a browser profile of its own for each reader."""

    def __init__(self, chromium: BrowserType, address: str):
        self.chromium, self.address = chromium, address

    @contextmanager
    def reader(self, profile: Path, *, prefetch: bool) -> Iterator[tuple[Page, list[Request]]]:
        """The browser started with this profile, with an empty page, and the requests that it will have finished."""
        context = self.chromium.launch_persistent_context(profile, **options())
        context.set_default_timeout(WAIT_MS)
        context.add_init_script(WATCH)
        if not prefetch:
            context.add_init_script(NO_PREFETCH)
        requests: list[Request] = []
        context.on("requestfinished", lambda request: requests.append(request))
        try:
            yield context.pages[0], requests
        finally:
            context.close()

    def page_bytes(self, path: str) -> dict[str, Any]:
        """Transferred for a page alone, before any widget runs."""
        with new_profile() as profile, self.reader(profile, prefetch=False) as (page, requests):
            page.goto(self.address + path, wait_until="load")
            page.locator('[data-part="live"]').first.wait_for()
            page.wait_for_timeout(1000)
            return transferred(requests)

    def one(self, profile: Path, *, prefetch: bool) -> dict[str, Any]:
        """A visit to the widget's page: click Run, at once or with the runtime ready; to the end of the run."""
        with self.reader(profile, prefetch=prefetch) as (page, requests):
            page.goto(self.address + WIDGET, wait_until="load")
            page.locator('[data-part="live"]').first.wait_for()
            if prefetch:
                page.locator('body[data-runtime="ready"]').wait_for()
                page.wait_for_timeout(500)
            done = run_widget(page, 0)
            page.wait_for_timeout(3000)  # the browser keeps compiled code for the next visit when it is idle
            return {**stages(page.evaluate("benchMarks"), done["clicked"]), **done, "bytes": transferred(requests)}

    def cold_and_second(self) -> dict[str, dict[str, Any]]:
        """A reader without anything, the same reader coming back, and with the runtime fetched before the click."""
        with new_profile() as profile:
            found = {name: self.one(profile, prefetch=False) for name in ("cold", "second")}
            return {**found, "prefetched": self.one(profile, prefetch=True)}

    def lesson(self) -> dict[str, Any]:
        """Every widget of the lesson one after another: seconds, and the tab's memory afterwards."""
        browser = self.chromium.launch(**options())
        page = browser.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(self.address + LESSON, wait_until="load")
        page.locator('[data-part="live"]').first.wait_for()
        widgets = page.locator("section[data-widget]")
        page.locator("section[data-widget]").first.scroll_into_view_if_needed()
        page.locator('body[data-runtime="ready"]').wait_for()
        ms = [run_widget(page, index)["run_ms"] for index in range(widgets.count())]
        memory = tab_memory(browser)
        browser.close()
        return {"widgets": len(ms), "ms": sum(ms), "memory_mb": memory}


@contextmanager
def new_profile() -> Iterator[Path]:
    """The browser profile of a new reader. At the end the browser may still be putting things away in it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run_widget(page: Page, index: int) -> dict[str, Any]:
    """Click Run and wait for the end. clicked: in milliseconds of the page's clock."""
    section = page.locator("section[data-widget]").nth(index)
    section.scroll_into_view_if_needed()
    script = """section => new Promise((resolve, reject) => {
      const clicked = performance.timeOrigin + performance.now();
      new MutationObserver(() => {
        const { state } = section.dataset;
        if (state === "done") resolve({ clicked, run_ms: performance.timeOrigin + performance.now() - clicked });
        if (state === "error") reject(new Error(section.querySelector('[role="alert"]')?.textContent ?? "error"));
      }).observe(section, { attributes: true, attributeFilter: ["data-state"] });
      section.querySelector('[data-action="run"]').click();
    })"""
    return section.evaluate(script)


def stages(marks: list[dict[str, Any]], clicked: float) -> dict[str, Any]:
    """Milliseconds of each stage, and from the click to the first point; stages that came before the click are absent.

    fetch ends with the last byte; compile runs beside it and is not part of the sum; boot is Python's start, packages
    NumPy's load, import the course's own code. The first point of a curve is at step 0, so the next one, after 250
    steps of both models, is told too.
    """

    def first(what: str, stage: str | None = None) -> float | None:
        return next((mark["at"] for mark in marks if mark["what"] == what and mark["stage"] == stage), None)

    found: dict[str, float] = {}
    ends = [
        ("fetch", next((m["at"] for m in marks if m["what"] == "stage" and m["stage"] != "fetch"), None)),
        ("boot", first("stage", "packages")),
        ("packages", first("stage", "course")),
        ("import", first("ready")),
        ("first point", first("point")),
    ]
    last = clicked
    for name, end in ends:
        if end is not None and end > clicked:
            found[name], last = end - last, end
    compiled = [mark["end"] - mark["start"] for mark in marks if mark["what"] == "bench-compile"]
    if compiled:
        found["compile"] = compiled[0]
    nowhere = float("nan")
    trained = next((mark["at"] for mark in marks if mark["what"] == "point" and mark.get("x")), nowhere)
    return {
        "stages": found,
        "click_to_point_ms": (first("point") or nowhere) - clicked,
        "click_to_trained_point_ms": trained - clicked,
    }


def transferred(requests: list[Request]) -> dict[str, int]:
    """Bytes of bodies that came over the network, by the browser's own events: the runtime's, and all others.

    What a cache gave counts nothing; that includes files about which the server was asked and said "not modified".
    """
    total = {"runtime": 0, "page": 0}
    for request in requests:
        asked_the_network = request.timing["requestStart"] >= 0
        if request.url.startswith("http") and asked_the_network:
            is_runtime = any(folder in request.url for folder in RUNTIME_FOLDERS)
            total["runtime" if is_runtime else "page"] += max(0, request.sizes()["responseBodySize"])
    return total


def tab_memory(browser: Any) -> float | None:
    """Private memory (MB) of the largest renderer: resident anonymous pages and swap, as Chromium counts it."""
    if not Path("/proc/self/status").exists():
        return None
    session = browser.new_browser_cdp_session()
    session.send("SystemInfo.getInfo")
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = [private_mb(process["id"]) for process in processes if process["type"] == "renderer"]
    return max(sizes, default=None)


def private_mb(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return sum(int(kb) for kb in re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+) kB", status, re.MULTILINE)) / 1000


def timed_builds(out: Path) -> dict[str, Any]:
    """The site built twice: the second with a warm cache, timed, and compared with the first."""
    from builder.site import build

    build(out, say=lambda _: None)
    again = out.with_name("again")
    start = time.monotonic()
    build(again, say=lambda _: None)
    seconds = time.monotonic() - start
    names = sorted(os.fspath(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    others = sorted(os.fspath(path.relative_to(again)) for path in again.rglob("*") if path.is_file())
    same = names == others and all((out / name).read_bytes() == (again / name).read_bytes() for name in names)
    return {"warm_seconds": seconds, "identical": same}

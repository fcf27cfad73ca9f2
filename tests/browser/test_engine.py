"""The engine in a real browser: loading, runs in slices, faults, and what it does without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_site import build_engine_site
from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser
MINUTES_2 = 120_000


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    return build_engine_site(tmp_path_factory.mktemp("engine"))


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(service_workers="block")
    context.set_default_timeout(MINUTES_2)
    yield context
    context.close()


@pytest.fixture(scope="module")
def shared_page(chromium: Browser, serve, site: Path) -> Iterator[Page]:
    """One page with the runtime ready, for the tests that leave it as they found it."""
    context = chromium.new_context(service_workers="block")
    context.set_default_timeout(MINUTES_2)
    page = open_page(context, serve(site).url)
    page.evaluate("engine.create().load()")
    yield page
    context.close()


def open_page(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(url)
    page.wait_for_function("() => globalThis.engineReady")
    return page


def run(page: Page, name: str, parameters: dict, widget: str = "toy", entry: str = "experiment") -> None:
    page.evaluate("([n, w, p, e]) => engine.run(n, w, p, e)", [name, widget, parameters, entry])


def wait_for(page: Page, name: str, state: str) -> dict:
    """The run `name` once it has been in `state` (the last word of its history, or a final one)."""
    page.wait_for_function(
        "([n, s]) => { const last = runs[n].states.at(-1); const at = Array.isArray(last) ? last[0] : last;"
        " return at === s || ['done', 'error', 'stopped'].includes(at); }",
        arg=[name, state],
    )
    found = page.evaluate("n => ({ states: runs[n].states, events: runs[n].events, result: runs[n].result })", name)
    last = found["states"][-1]
    assert (last[0] if isinstance(last, list) else last) == state, found["states"]
    return found


def wait_for_points(page: Page, name: str, count: int) -> None:
    page.wait_for_function(
        "([n, c]) => runs[n].events.filter((e) => e.type === 'point').length >= c", arg=[name, count]
    )


def points(found: dict) -> list[int]:
    return [event["x"] for event in found["events"] if event["type"] == "point"]


def runtime_hits(served) -> dict[str, int]:
    return {path: count for path, count in served.hits.items() if path.startswith(("/pyodide/", "/runtime/"))}


def status(page: Page) -> str | None:
    return page.evaluate("document.body.dataset.runtime")


# ---------------------------------------------------------------- runs


def test_run_is_stored_with_its_readouts_and_checkpoint(shared_page: Page):
    run(shared_page, "stored", {"steps": 12, "seed": 5})
    found = wait_for(shared_page, "stored", "done")
    assert found["states"] == ["loading", "running", "done"] or found["states"] == ["running", "done"]
    assert points(found) == list(range(12))
    assert found["result"]["run"]["readouts"] == {"half": 6}
    assert found["result"]["record"]["digest"] == found["result"]["digest"]
    kept = shared_page.evaluate(
        """async () => {
            const storage = await engine.openStorage("prova");
            const [runs, checkpoints] = [await storage.lastRuns("toy", 1), await storage.listCheckpoints()];
            storage.close();
            return { persistent: storage.persistent, run: runs[0], keys: checkpoints.map((one) => one.key) };
        }"""
    )
    assert kept["persistent"]
    assert kept["run"]["state"] == "done"
    assert kept["run"]["digest"] == found["result"]["digest"]
    assert kept["run"]["recipe"] == found["result"]["record"]["recipe"]
    assert [event["stored"] for event in found["events"] if event["type"] == "checkpoint"] == [True]
    assert any(key.startswith("direct/20/5/kernel/") for key in kept["keys"])


def test_checkpoint_and_readout_are_in_storage_when_the_page_hears_of_them(shared_page: Page):
    shared_page.evaluate(
        """async () => {
            globalThis.seen = [];
            const storage = await engine.openStorage("prova");
            runtime.start("toy", { steps: 4, seed: 6 }, {
                state: () => undefined,
                done: () => storage.close(),
                event: async (event) => {
                    if (event.type === "checkpoint") seen.push((await storage.getCheckpoint(event.key)) !== null);
                    if (event.type !== "readout") return;
                    const [run] = await storage.lastRuns("toy", 1);
                    seen.push(run.params.seed === 6 && run.readouts[event.name] === event.value);
                },
            });
        }"""
    )
    shared_page.wait_for_function("() => seen.length >= 2")
    assert shared_page.evaluate("seen") == [True, True]


def test_interleaved_runs_pause_resume_and_stop_apart(shared_page: Page):
    page = shared_page
    run(page, "first", {"steps": 600, "pace": 4})
    run(page, "second", {"steps": 100000, "pace": 4})
    wait_for_points(page, "first", 3)
    wait_for_points(page, "second", 3)
    page.evaluate("runs.first.handle.pause()")
    wait_for(page, "first", "paused")
    at = page.evaluate("runs.first.events.length")
    other = page.evaluate("runs.second.events.length")
    wait_for_points(page, "second", other + 20)
    assert page.evaluate("runs.first.events.length") == at
    page.evaluate("runs.first.handle.resume(); runs.second.handle.stop()")
    wait_for(page, "second", "stopped")
    found = wait_for(page, "first", "done")
    assert points(found) == list(range(600)), "a paused run goes on at the very next step"
    assert found["states"][-3:] == ["paused", "running", "done"]
    stored = page.evaluate(
        "(async () => { const s = await engine.openStorage('prova'); const r = await s.lastRuns('toy', 9); s.close();"
        " return r.find((one) => one.params.steps === 100000).state; })()"
    )
    assert stored == "stopped"


def test_stop_while_paused_and_pause_before_the_start(shared_page: Page):
    page = shared_page
    run(page, "early", {"steps": 100000})
    page.evaluate("runs.early.handle.pause()")
    wait_for(page, "early", "paused")
    page.evaluate("runs.early.handle.stop()")
    assert wait_for(page, "early", "stopped")["result"] is None


def test_a_stop_while_the_last_save_is_under_way_comes_too_late(shared_page: Page):
    page = shared_page
    run(page, "first", {"seed": 8}, entry="need")
    wait_for(page, "first", "done")
    run(page, "late", {"steps": 60, "seed": 8, "pace": 4})
    page.wait_for_function("() => runs.late.events.some((event) => event.type === 'readout')")
    page.evaluate(
        """async () => {
            const open = indexedDB.open("raona-prova");
            await new Promise((resolve) => { open.onsuccess = resolve; });
            globalThis.held = true; // a transaction of the page's keeps the worker's waiting
            const store = open.result.transaction("runs", "readwrite").objectStore("runs");
            const hold = () => { if (held) store.count().onsuccess = hold; else open.result.close(); };
            hold();
        }"""
    )
    page.wait_for_function("() => runs.late.events.some((event) => event.type === 'sample')")
    run(page, "second", {"seed": 8}, entry="need")  # it takes its turns after `late`, so `late` has ended when it ends
    wait_for(page, "second", "done")
    page.evaluate("() => { runs.late.handle.stop(); held = false; }")
    assert wait_for(page, "late", "done")["result"]["run"]["state"] == "done"
    states = page.evaluate(
        "(async () => { const s = await engine.openStorage('prova'); const r = await s.lastRuns('toy', 9); s.close();"
        " return r.filter((one) => one.params.steps === 60).map((one) => one.state); })()"
    )
    assert states == ["done"]


def test_a_run_that_lacks_a_checkpoint_waits_for_its_training(shared_page: Page):
    run(shared_page, "lacking", {"seed": 77}, entry="need")
    found = wait_for(shared_page, "lacking", "done")
    waiting = [state for state in found["states"] if isinstance(state, list)]
    assert waiting
    assert waiting[0][0] == "waiting"
    assert waiting[0][1].startswith("direct/20/77/kernel/")
    assert any(event["type"] == "progress" for event in found["events"])
    assert found["events"][-1]["name"] == "size"


def test_an_error_in_the_experiment_is_told_and_leaves_the_runtime_working(shared_page: Page):
    run(shared_page, "broken", {"steps": 4, "fault": "error"})
    found = wait_for(shared_page, "broken", "error")
    assert "L'experiment ha trobat un error" in found["states"][-1][1]
    assert "it broke" in found["states"][-1][1]
    run(shared_page, "after", {"steps": 4})
    wait_for(shared_page, "after", "done")


@pytest.mark.parametrize(
    ("widget", "parameters", "entry", "detail"),
    [
        ("nobody", {}, "experiment", "nobody"),
        ("toy", {"steps": 0}, "experiment", "steps must be a whole number"),
        ("toy", {"colour": 1}, "experiment", "colour"),
        ("toy", {}, "elsewhere", "elsewhere"),
    ],
)
def test_what_cannot_be_started_is_an_error_of_that_run(shared_page: Page, widget, parameters, entry, detail):
    run(shared_page, "bad", parameters, widget, entry)
    message = wait_for(shared_page, "bad", "error")["states"][-1][1]
    assert detail in message
    assert "Traceback" not in message


def test_samples_are_read_again_without_running(shared_page: Page):
    run(shared_page, "samples", {"steps": 4})
    wait_for(shared_page, "samples", "done")
    reading = shared_page.evaluate("runtime.reread('toy', runs.samples.result.run.samples, { steps: 8 })")
    assert reading == {"readouts": {"half": 4}, "series": {"direct": [[0, 8]]}, "explanation": "", "outcome": None}
    refused = shared_page.evaluate("runtime.reread('toy', {}, { steps: 0 }).catch((error) => error.message)")
    assert "steps must be a whole number" in refused


def test_python_in_the_worker_is_under_the_pages_policy(shared_page: Page, serve, tmp_path: Path):
    (tmp_path / "secret").write_text("x")
    elsewhere = serve(tmp_path)
    run(shared_page, "reach", {"steps": 2, "fault": "reach", "port": int(elsewhere.url.split(":")[2].strip("/"))})
    wait_for(shared_page, "reach", "error")
    assert elsewhere.hits == {}


# ---------------------------------------------------------------- loading


def test_widget_trains_with_the_network_cut_once_loading_has_told_its_bytes(context, serve, site):
    served = serve(site, "/curs/ia/")
    page = open_page(context, served.url)
    page.evaluate("engine.create().load()")
    stages = [entry["stage"] for entry in page.evaluate("engine.log") if entry.get("stage")]
    assert list(dict.fromkeys(stage["stage"] for stage in stages)) == ["fetch", "boot", "packages", "course"]
    loaded = [stage["loadedBytes"] for stage in stages]
    assert loaded == sorted(loaded)
    assert len(set(loaded)) > 8, "the counter moves within a file"
    assert loaded[-1] == stages[-1]["totalBytes"] > 10_000_000
    assert set(runtime_hits(served).values()) == {1}
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    context.set_offline(True)
    run(page, "offline", {"steps": 6})
    wait_for(page, "offline", "done")
    run(page, "needing", {"seed": 3}, entry="need")
    wait_for(page, "needing", "done")
    assert [url for url in requests if not url.startswith("blob:")] == []


def test_second_visit_fetches_nothing_of_the_runtime(chromium, chromium_options, serve, site, tmp_path):
    served = serve(site, headers={"Cache-Control": "max-age=3600"})
    # A context of its own caches in memory, and no file as large as Pyodide's: this takes a profile on disk.
    with chromium.browser_type.launch_persistent_context(tmp_path, **chromium_options) as context:
        context.set_default_timeout(MINUTES_2)
        for _ in range(2):
            open_page(context, served.url).evaluate("engine.create().load()")
            assert set(runtime_hits(served).values()) == {1}


def test_loads_with_wrong_content_types_and_no_cache_on_an_origin_that_is_not_secure(context, serve, site, lan_address):
    plain = dict.fromkeys((".wasm", ".whl", ".zip", ".json", ".mjs"), "text/plain")
    no_cache = {"Cache-Control": "no-store"}
    page = open_page(context, serve(site, host=lan_address, types=plain, headers=no_cache).url)
    assert page.evaluate("isSecureContext") is False
    page.evaluate("void engine.create()")
    run(page, "plain", {"steps": 4})
    wait_for(page, "plain", "done")
    assert page.evaluate("engine.openStorage('prova').then((s) => s.persistent)")


def failed_load(page: Page, options: str = "{}") -> str:
    message = page.evaluate(f"engine.create({options}).load().then(() => '', (error) => error.message)")
    assert status(page) == "failed"
    assert page.evaluate("engine.log.at(-1).error") == message
    return message


@pytest.mark.parametrize("name", ["pyodide.asm.wasm", "python_stdlib.zip", "pyodide.js", "pyodide-lock.json"])
def test_missing_file_is_named(context, serve, site, name):
    page = open_page(context, serve(site).url)
    page.route(f"**/{name}", lambda route: route.fulfill(status=404))
    assert name in failed_load(page)


def test_damaged_file_is_named(context, serve, site):
    page = open_page(context, serve(site).url)
    page.route("**/python_stdlib.zip", lambda route: route.fulfill(status=200, body=b"x" * 2545106))
    message = failed_load(page)
    assert "python_stdlib.zip" in message
    assert "malmès" in message


def test_run_that_cannot_load_ends_in_an_error_and_can_be_run_again(context, serve, site):
    page = open_page(context, serve(site).url)
    page.route("**/*.whl", lambda route: route.abort())
    page.evaluate("void engine.create()")
    run(page, "unlucky", {"steps": 2})
    assert "Comprova la connexió" in wait_for(page, "unlucky", "error")["states"][-1][1]
    page.unroute("**/*.whl")
    run(page, "lucky", {"steps": 2})
    wait_for(page, "lucky", "done")


def test_stalled_download_gives_up_with_a_message_and_loading_again_works(context, serve, site):
    stalled = [True]
    served = serve(site, delay=lambda path: 600 if stalled[0] and path.endswith(".zip") else 0)
    page = open_page(context, served.url)
    assert "no avança" in failed_load(page, "{ timeoutSeconds: 3 }")
    stalled[0] = False
    page.evaluate("runtime.config.timeoutSeconds = 60; undefined")
    page.evaluate("runtime.load()")
    assert status(page) == "ready"


def test_missing_worker_is_told(context, serve, site):
    page = open_page(context, serve(site).url)
    page.route("**/assets/worker.js", lambda route: route.fulfill(status=404))
    assert "No s'ha pogut carregar el motor" in failed_load(page)


# ---------------------------------------------------------------- faults


def test_hard_stop_restarts_the_runtime_and_keeps_the_checkpoints(context, serve, site):
    page = open_page(context, serve(site).url)
    page.evaluate("engine.create({ stopSeconds: 1 }).load()")
    run(page, "other", {"steps": 100000})
    run(page, "hung", {"steps": 2, "fault": "hang", "seed": 9})
    page.wait_for_function("() => runs.hung.events.some((event) => event.type === 'readout')")
    page.evaluate("runs.hung.handle.stop()")
    wait_for(page, "hung", "stopped")
    assert "reiniciar el motor" in wait_for(page, "other", "error")["states"][-1][1]
    page.wait_for_function("() => document.body.dataset.runtime === 'ready'")
    run(page, "needing", {"seed": 9}, entry="need")
    found = wait_for(page, "needing", "done")
    assert not any(event["type"] == "progress" for event in found["events"]), "it was stored, not trained again"


def test_crashed_worker_is_an_error_and_everything_can_run_again(context, serve, site):
    page = open_page(context, serve(site).url)
    page.evaluate("engine.create().load()")
    run(page, "victim", {"steps": 100000})
    wait_for_points(page, "victim", 2)
    page.evaluate("runtime.worker.dispatchEvent(new ErrorEvent('error', { cancelable: true }))")
    assert "s'ha aturat de cop" in wait_for(page, "victim", "error")["states"][-1][1]
    assert status(page) == "failed"
    run(page, "again", {"steps": 4})
    wait_for(page, "again", "done")


def test_worker_that_died_in_a_hidden_tab_is_noticed_when_it_comes_back(context, serve, site):
    page = open_page(context, serve(site).url)
    page.evaluate("engine.create({ silenceSeconds: 2 }).load()")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    run(page, "alive", {"steps": 4})
    wait_for(page, "alive", "done")
    run(page, "victim", {"steps": 100000})
    wait_for_points(page, "victim", 2)
    page.evaluate("runtime.worker.terminate(); dispatchEvent(new PageTransitionEvent('pageshow'))")
    wait_for(page, "victim", "error")


def test_run_goes_on_when_the_page_comes_back_from_the_back_forward_cache(chromium, chromium_options, serve, site):
    allowed = {**chromium_options, "ignore_default_args": ["--disable-back-forward-cache"]}
    browser = chromium.browser_type.launch(**allowed)
    page = browser.new_page()
    page.set_default_timeout(MINUTES_2)
    url = serve(site).url
    page.goto(url)
    page.wait_for_function("() => globalThis.engineReady")
    page.evaluate("engine.create().load()")
    page.evaluate("addEventListener('pageshow', (event) => { globalThis.persisted = event.persisted; })")
    run(page, "away", {"steps": 100000})
    wait_for_points(page, "away", 2)
    page.goto(url + "?elsewhere")
    page.evaluate("history.back()")
    page.wait_for_function("() => globalThis.persisted !== undefined")
    assert page.evaluate("persisted") is True
    before = page.evaluate("runs.away.events.length")
    wait_for_points(page, "away", before + 20)
    found = page.evaluate("({ events: runs.away.events.filter((event) => event.series === 'direct') })")
    assert points(found) == list(range(len(found["events"])))
    browser.close()


def test_idle_worker_is_ended_and_comes_back_by_itself(context, serve, site):
    page = open_page(context, serve(site).url)
    page.evaluate("engine.create({ idleMinutes: 0.005 }).load()")
    page.wait_for_function("() => document.body.dataset.runtime === 'off'")
    run(page, "later", {"steps": 4})
    wait_for(page, "later", "done")
    page.wait_for_function("() => document.body.dataset.runtime === 'off'")


def test_rest_for_an_idle_worker_starts_only_once_it_is_ready(context, serve, site):
    page = open_page(context, serve(site).url)
    page.evaluate("void engine.create({ idleMinutes: 0.02 })")
    run(page, "unsent", {"steps": 4})
    page.evaluate("runs.unsent.handle.stop()")
    wait_for(page, "unsent", "stopped")
    page.evaluate("runtime.load()")  # which takes longer than the rest
    page.wait_for_function("() => document.body.dataset.runtime === 'off'")
    page.evaluate("runtime.load()")
    run(page, "victim", {"steps": 100000})
    wait_for_points(page, "victim", 2)
    page.evaluate("runtime.worker.dispatchEvent(new ErrorEvent('error', { cancelable: true }))")
    wait_for(page, "victim", "error")
    page.wait_for_timeout(2500)
    assert status(page) == "failed", "what went wrong stays told"


def test_without_storage_checkpoints_live_as_long_as_the_page(context, serve, site):
    context.add_init_script("delete globalThis.indexedDB; delete WorkerGlobalScope?.prototype.indexedDB;")
    page = open_page(context, serve(site).url)
    # Workers have their own IndexedDB; the course's policy gives no way in, so the worker's is taken by its source.
    page.route(
        "**/assets/worker.js",
        lambda route: route.fulfill(
            content_type="text/javascript",
            body="delete globalThis.indexedDB; Object.defineProperty(globalThis, 'indexedDB', { value: undefined });"
            + (site / "assets" / "worker.js").read_text(encoding="utf-8"),
        ),
    )
    page.evaluate("engine.create({ stopSeconds: 1 }).load()")
    run(page, "hung", {"steps": 2, "fault": "hang", "seed": 4})
    page.wait_for_function("() => runs.hung.events.some((event) => event.type === 'readout')")
    page.evaluate("runs.hung.handle.stop()")
    wait_for(page, "hung", "stopped")
    run(page, "needing", {"seed": 4}, entry="need")
    found = wait_for(page, "needing", "done")
    assert not any(event["type"] == "progress" for event in found["events"])
    hung = page.evaluate("runs.hung.events.filter((event) => event.type === 'checkpoint')")
    assert [event["stored"] for event in hung] == [False]
    assert {"notice": page.evaluate("engine.STRINGS.memoryOnly")} in page.evaluate("engine.log")

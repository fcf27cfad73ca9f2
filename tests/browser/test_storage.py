"""The browser's storage: two tabs, upgrades, no room, no IndexedDB, and progress files from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_site import ROOT, build_page
from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser

RUN = {
    "id": "a",
    "widget": "cot",
    "entry": "experiment",
    "params": {"k": 9},
    "seed": 1,
    "backend": "numpy",
    "created": 1,
    "state": "running",
    "readouts": {},
    "series": {},
    "samples": {},
    "digest": None,
    "explanation": None,
    "outcome": None,
}
SCHEMA = json.loads((ROOT / "widgets" / "_runtime" / "storage.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def url(tmp_path_factory, serve) -> str:
    return serve(build_page(tmp_path_factory.mktemp("storage"), {})).url


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(service_workers="block")
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, url: str) -> Page:
    return open_tab(context, url)


def open_tab(context: BrowserContext, url: str, schema: dict | None = None) -> Page:
    page = context.new_page()
    page.goto(url)
    page.wait_for_function("() => globalThis.engineReady")
    page.evaluate(
        "async (schema) => { globalThis.storage = await engine.openStorage('prova', schema ?? undefined); }", schema
    )
    return page


def ask(page: Page, call: str, *arguments) -> object:
    """`storage.<call>(…arguments)`; a rejection gives {"error": message}."""
    script = "([call, given]) => storage[call](...given).catch((error) => ({ error: error.message }))"
    return page.evaluate(script, [call, list(arguments)])


def notices(page: Page) -> list:
    """[whether anything outlives the page, …what a new listener hears at once]"""
    return page.evaluate(
        "() => { const told = [storage.persistent]; storage.onNotice((m) => told.push(m)); return told; }"
    )


def test_schema_file_describes_what_the_contract_names():
    assert SCHEMA["database"] == "raona-{course}"
    assert set(SCHEMA["stores"]) == {"checkpoints", "runs", "progress"}
    assert SCHEMA["version"] == max(store["since"] for store in SCHEMA["stores"].values())


def test_checkpoints_come_back_as_array_buffers_after_a_reload(context, page, url):
    page.evaluate(
        """() => storage.putCheckpoint({ key: "reasoned/500/1/numpy/x", format: "reasoned", steps: 500, seed: 1,
            backend: "numpy", created: 5, data: new Uint8Array([1, 2, 3]).buffer })"""
    )
    page.close()
    other = open_tab(context, url)
    assert other.evaluate("storage.persistent") is True
    found = other.evaluate(
        """async () => {
            const one = await storage.getCheckpoint("reasoned/500/1/numpy/x");
            return [one.data instanceof ArrayBuffer, [...new Uint8Array(one.data)], await storage.getCheckpoint("no")];
        }"""
    )
    assert found == [True, [1, 2, 3], None]
    (listed,) = ask(other, "listCheckpoints")
    assert listed["bytes"] == 3
    assert "data" not in listed
    ask(other, "deleteCheckpoints")
    assert ask(other, "listCheckpoints") == []


def test_prediction_survives_what_the_worker_saves_later(page):
    ask(page, "saveRun", {**RUN, "prediction": "tie"})
    ask(page, "saveRun", {**RUN, "state": "done", "readouts": {"vote": 0.5}})
    (run,) = ask(page, "lastRuns", "cot", 5)
    assert (run["prediction"], run["state"], run["readouts"], run["revision"]) == ("tie", "done", {"vote": 0.5}, 2)


def test_only_the_last_five_runs_of_each_widget_are_kept(page):
    ask(page, "saveRun", {**RUN, "id": "other", "widget": "rlvr"})
    for number in range(8):
        ask(page, "saveRun", {**RUN, "id": f"run{number}", "created": number})
    assert [run["id"] for run in ask(page, "lastRuns", "cot", 99)] == ["run7", "run6", "run5", "run4", "run3"]
    assert [run["id"] for run in ask(page, "lastRuns", "cot", 2)] == ["run7", "run6"]
    assert len(ask(page, "lastRuns", "rlvr", 99)) == 1


def test_runs_cut_short_do_not_push_out_finished_ones(page):
    for number in range(5):
        ask(page, "saveRun", {**RUN, "id": f"done{number}", "created": number, "state": "done"})
    for number in range(7):
        new = {**RUN, "id": f"cut{number}", "created": 10 + number}
        ask(page, "saveRun", new)
        assert ask(page, "lastRuns", "cot", 1)[0]["id"] == new["id"], "the run that is on is always kept"
        ask(page, "saveRun", {**new, "state": "stopped" if number % 2 else "error"})
    assert [run["id"] for run in ask(page, "lastRuns", "cot", 99)] == ["cut6", "done4", "done3", "done2", "done1"]
    for number in range(5):
        ask(page, "saveRun", {**RUN, "id": f"late{number}", "created": 20 + number, "state": "done"})
    assert {run["state"] for run in ask(page, "lastRuns", "cot", 99)} == {"done"}


def test_two_tabs_do_not_lose_each_others_progress(context, page, url):
    other = open_tab(context, url)
    ask(page, "putProgress", "quiz", {"q1": 1})
    ask(other, "getProgress", "quiz")
    ask(page, "putProgress", "quiz", {"q1": 1, "q2": 0})
    assert ask(other, "putProgress", "quiz", {"q1": 2}) == {"q1": 2, "q2": 0}
    assert ask(page, "putProgress", "quiz", {"q3": 1}) == {"q1": 2, "q2": 0, "q3": 1}
    assert ask(page, "putProgress", "quiz", {"q3": 5}) == {"q3": 5}, "up to date, a tab can also take away"
    assert ask(other, "putProgress", "level", "practice") == "practice"
    assert ask(page, "allProgress") == {"quiz": {"q3": 5}, "level": "practice"}


def test_a_tab_hears_of_what_another_writes(context, page, url):
    other = open_tab(context, url)
    page.evaluate("() => { globalThis.heard = []; storage.onChange((store, id) => heard.push([store, id])); }")
    ask(other, "putProgress", "quiz", {})
    page.wait_for_function("() => heard.length > 0")
    assert page.evaluate("heard") == [["progress", "quiz"]]


def test_upgrade_goes_step_by_step_and_keeps_what_is_stored(context, page, url):
    ask(page, "putProgress", "quiz", {"q1": 1})
    later = {
        **SCHEMA,
        "version": 3,
        "stores": {
            **SCHEMA["stores"],
            "added": {"since": 2, "keyPath": "id", "indexes": {"when": {"since": 3, "keyPath": "when"}}},
        },
    }
    other = open_tab(context, url, later)
    assert other.evaluate("storage.persistent") is True, "the older tab let go of the database"
    assert ask(other, "getProgress", "quiz") == {"q1": 1}
    found = other.evaluate(
        """async () => {
            const open = indexedDB.open("raona-prova");
            await new Promise((resolve) => { open.onsuccess = resolve; });
            const added = open.result.transaction("added").objectStore("added");
            const found = [open.result.version, [...open.result.objectStoreNames], [...added.indexNames]];
            open.result.close();
            return found;
        }"""
    )
    assert found == [3, ["added", "checkpoints", "progress", "runs"], ["when"]]
    assert ask(page, "putProgress", "quiz", {"q2": 1}) == {"q2": 1}, "the older tab goes on in memory"
    assert notices(page) == [False, page.evaluate("engine.STRINGS.outdated")]


def test_lost_connection_is_opened_again(page):
    ask(page, "putProgress", "quiz", {"q1": 1})
    page.evaluate(
        """() => {
            const { transaction } = IDBDatabase.prototype;
            IDBDatabase.prototype.transaction = function () {
                IDBDatabase.prototype.transaction = transaction;
                throw new DOMException("Connection to Indexed Database server lost", "UnknownError");
            };
        }"""
    )
    assert ask(page, "putProgress", "quiz", {"q1": 2}) == {"q1": 2}
    assert page.evaluate("storage.persistent") is True


def test_full_storage_is_told_and_reading_goes_on(page):
    ask(page, "putProgress", "quiz", {"q1": 1})
    page.evaluate("() => { globalThis.told = []; storage.onNotice((message) => told.push(message)); }")
    page.evaluate(
        """() => { IDBObjectStore.prototype.put = () => { throw new DOMException("", "QuotaExceededError"); }; }"""
    )
    for _ in range(2):
        assert ask(page, "saveRun", RUN) == {"error": page.evaluate("engine.STRINGS.full")}
    assert page.evaluate("told") == [page.evaluate("engine.STRINGS.full")], "once, to those who listened"
    assert ask(page, "getProgress", "quiz") == {"q1": 1}
    assert page.evaluate("storage.persistent") is True


BREAK = """() => {
    globalThis.told = [];
    globalThis.stop = storage.onNotice((message) => told.push(message));
    IDBDatabase.prototype.transaction = () => { throw new DOMException("lost", "UnknownError"); };
}"""


def test_storage_lost_in_the_middle_of_a_visit_is_told_and_the_visit_goes_on_in_memory(page):
    ask(page, "putProgress", "quiz", {"q1": 1})
    page.evaluate(BREAK)
    assert page.evaluate("told") == []
    assert ask(page, "putProgress", "quiz", {"q2": 1}) == {"q2": 1}
    assert page.evaluate("told") == [page.evaluate("engine.STRINGS.memoryOnly")]
    assert notices(page) == [False, page.evaluate("engine.STRINGS.memoryOnly")]
    assert ask(page, "getProgress", "quiz") == {"q2": 1}


def test_storage_lost_while_exporting_gives_no_empty_file(page):
    ask(page, "putProgress", "quiz", {"q1": 1})
    page.evaluate(BREAK)
    assert ask(page, "exportProgress") == {"error": page.evaluate("engine.STRINGS.memoryOnly")}


@pytest.mark.parametrize(
    "broken",
    [
        "delete Window.prototype.indexedDB; delete globalThis.indexedDB",
        "IDBFactory.prototype.open = () => { throw new DOMException('denied', 'SecurityError'); }",
        "delete globalThis.BroadcastChannel; IDBFactory.prototype.open = () => { throw new Error('no'); }",
    ],
)
def test_without_indexeddb_it_works_in_memory_and_says_so(context, url, broken):
    context.add_init_script(broken)
    page = open_tab(context, url)
    assert notices(page) == [False, page.evaluate("engine.STRINGS.memoryOnly")]
    ask(page, "saveRun", {**RUN, "prediction": "tie"})
    ask(page, "saveRun", {**RUN, "state": "done"})
    (run,) = ask(page, "lastRuns", "cot", 5)
    assert (run["prediction"], run["state"]) == ("tie", "done")
    ask(page, "putProgress", "quiz", {"q1": 1})
    assert ask(page, "getProgress", "quiz") == {"q1": 1}
    assert ask(page, "importProgress", ask(page, "exportProgress")) == 1
    assert ask(page, "persist") is False


def test_database_held_by_an_older_tab_does_not_hang_the_page(context, page, url):
    page.evaluate(
        """async () => {
            storage.close();
            const open = indexedDB.open("raona-prova", 1);
            await new Promise((resolve) => { open.onsuccess = resolve; });
            globalThis.held = open.result; // and no versionchange handler
        }"""
    )
    other = open_tab(context, url, {**SCHEMA, "version": 2})
    assert notices(other) == [False, page.evaluate("engine.STRINGS.blocked")]


def test_exported_progress_is_imported_into_another_browser(context, page, url, chromium):
    ask(page, "putProgress", "quiz", {"q1": 1, "q2": 3})
    ask(page, "putProgress", "level", "practice")
    exported = ask(page, "exportProgress")
    assert json.loads(exported)["course"] == "prova"
    with chromium.new_context() as fresh:
        other = open_tab(fresh, url)
        ask(other, "putProgress", "quiz", {"q2": 0, "q9": 1})
        assert ask(other, "importProgress", exported) == 2
        assert ask(other, "allProgress") == {"quiz": {"q1": 1, "q2": 3, "q9": 1}, "level": "practice"}


GOOD = {"raona": "progress", "format": 1, "course": "prova", "exported": "2026-01-01", "entries": {"quiz": {"q1": 1}}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "notJson"),
        ("{", "notJson"),
        ("[]", "notProgress"),
        ("null", "notProgress"),
        (json.dumps({**GOOD, "raona": "runs"}), "notProgress"),
        (json.dumps({**GOOD, "format": "1"}), "notProgress"),
        (json.dumps({**GOOD, "format": 0}), "notProgress"),
        (json.dumps({**GOOD, "format": 2}), "newerFormat"),
        (json.dumps({**GOOD, "course": 3}), "notProgress"),
        (json.dumps({**GOOD, "course": "altre"}), "altre"),
        (json.dumps({**GOOD, "entries": []}), "notProgress"),
        (json.dumps({**GOOD, "entries": {"quiz": {"q1": 2}, "": 1}}), "L'entrada «» "),
        (json.dumps({**GOOD, "entries": {"quiz": None}}), "L'entrada «quiz» "),
        (json.dumps({**GOOD, "entries": {"x" * 201: 1}}), "L'entrada «xxx"),
        ('{"raona":"progress","format":1,"course":"prova","entries":{"__proto__":{"a":1}}}', "L'entrada «__proto__»"),
        (json.dumps({**GOOD, "entries": {"quiz": "x" * 1_000_000}}), "tooLarge"),
    ],
)
def test_a_file_that_is_not_progress_is_refused_whole(page, text, message):
    ask(page, "putProgress", "quiz", {"q1": 1})
    error = ask(page, "importProgress", text)["error"]
    expected = page.evaluate("(name) => engine.STRINGS[name] ?? null", message)
    assert error == expected if expected else message in error
    assert ask(page, "allProgress") == {"quiz": {"q1": 1}}


def test_storage_works_on_an_origin_that_is_not_secure(context, serve, tmp_path: Path, lan_address: str):
    page = open_tab(context, serve(build_page(tmp_path, {}), host=lan_address).url)
    assert page.evaluate("isSecureContext") is False
    ask(page, "putProgress", "quiz", {"q1": 1})
    assert ask(page, "persist") is False
    page.reload()
    page.wait_for_function("() => globalThis.engineReady")
    page.evaluate("async () => { globalThis.storage = await engine.openStorage('prova'); }")
    assert ask(page, "getProgress", "quiz") == {"q1": 1}

"""`raona bench`: everything that is measured, in one run and side by side, printed and recorded."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import report
from bench.lanes import PEERS, ROOT, Lane, LaneError, NativeLane, PeerInfo
from bench.machine import commit, machine, versions
from bench.material import Material, course_material, disagreement, expected, growth_material, packed

PARTS = ("work", "cot", "growth", "simd", "visits", "build")
WORK = ("sft", "sample", "grpo")
WIDTHS, BATCHES = (16, 32, 64, 128), (16, 64, 256)
RESULTS = Path(__file__).resolve().parent / "results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout; what happens is told on stderr")
    parser.add_argument(
        "--quick", action="store_true", help="few and short repeats: to see that all works, not to quote"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="a part of the whole; may be repeated")
    names = [peer.name for peer in PEERS]
    parser.add_argument("--peer", action="append", choices=names, help="a row of the tables; may be repeated")
    parser.add_argument("--site", type=Path, metavar="DIR", help="a site already built, instead of building it here")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to record; default: bench/results/, not if --quick"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="raona bench", description=(__doc__ or "").strip())
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, record. Returns 1 if nothing could be measured, or if a peer does not agree with the judge."""
    start = time.monotonic()
    bench = Bench(arguments)
    with contextlib.ExitStack() as stack:
        bench.measure(stack)
    result = bench.result(time.monotonic() - start)
    out = arguments.out or (None if arguments.quick else default_path(result))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(result, ensure_ascii=False) if arguments.json else report.text(result))
    if out:
        say(f"recorded in {out}")
    rows = result["peers"].values()
    measured = any(row["ok"] for row in rows) or result["simd"] or result["visits"] or result["build"]
    wrong = [row["title"] for row in rows if row.get("check") and not row["check"]["agrees"]]
    return 0 if measured and not wrong else 1


def default_path(result: dict[str, Any]) -> Path:
    day, mark = result["date"][:10], result["commit"]["id"][:8] + ("-changed" if result["commit"]["changed"] else "")
    return RESULTS / f"{day}-{mark}.json"


def say(line: str) -> None:
    print(f"raona bench: {line}", file=sys.stderr, flush=True)


class Bench:
    """One run. `peers` holds a row for each peer: what was measured, or why it was not."""

    def __init__(self, arguments: argparse.Namespace):
        self.quick, self.given_site = arguments.quick, arguments.site
        self.parts = set(arguments.only or PARTS)
        chosen = set(arguments.peer or [peer.name for peer in PEERS])
        self.chosen = [peer for peer in PEERS if peer.name in chosen]
        self.rounds, self.seconds = (3, 0.1) if self.quick else (15, 0.3)
        self.cot_rounds, self.visit_rounds, self.growth_rounds = (1, 1, 2) if self.quick else (3, 5, 5)
        self.lanes: dict[str, Lane] = {}
        self.peers: dict[str, dict[str, Any]] = {
            peer.name: {"title": peer.title, "own": peer.own, "ok": False, "why": "", "versions": {}}
            for peer in self.chosen
        }
        self.growth: list[dict[str, Any]] = []
        self.simd: dict[str, Any] = {}
        self.visits: dict[str, Any] = {}
        self.build: dict[str, Any] = {}
        self.browser_version = ""

    # ------------------------------------------------------------------------------------------ preparing

    def measure(self, stack: contextlib.ExitStack) -> None:
        self.material = course_material()
        with_lanes = self.parts & {"work", "cot", "growth"}
        browsing = self.parts & {"simd", "visits", "build"} or any(peer.where != "native" for peer in self.chosen)
        if browsing:
            try:
                self.open_chromium(stack)
            except LaneError as error:
                say(str(error))
                self.parts -= {"simd", "visits"}
                for peer in self.chosen:
                    if peer.where != "native":
                        self.peers[peer.name]["why"] = str(error)
        if with_lanes:
            for peer in self.chosen:
                self.open_lane(peer, stack)
            if self.parts & {"work", "cot"}:
                self.check()
        if "work" in self.parts:
            self.time_work()
        elif "simd" in self.parts:
            for _ in range(self.rounds):
                self.time_simd()
        if "growth" in self.parts:
            self.time_growth()
        if "cot" in self.parts:
            self.time_cot()
        if "visits" in self.parts:
            self.time_visits()

    def open_chromium(self, stack: contextlib.ExitStack) -> None:
        """Build the site, serve it with the bench's page, and open that page."""
        try:
            from playwright.sync_api import Error, sync_playwright
        except ImportError:
            raise LaneError("not installed: make install-tests") from None
        from bench.chromium import ChromiumLane, Files, options
        from bench.server import serving
        from bench.simd import compile_wasm
        from bench.visits import timed_builds, watch_worker
        from builder.errors import BuildError
        from builder.site import build

        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        say("building the site" if not self.given_site else f"copying {self.given_site}")
        try:
            if self.given_site:
                shutil.copytree(self.given_site, root / "site")
            elif "build" in self.parts:
                self.build = timed_builds(root / "site")
            else:
                build(root / "site", say=lambda line: None)
        except BuildError as error:
            raise LaneError(f"the site was not built: {error}") from None
        self.files = Files(root, root / "site")
        watch_worker(root / "site")
        if any(peer.name == "tfjs-wasm" for peer in self.chosen):
            self.attempt("tfjs-wasm", self.files.add_tfjs)
        if any(peer.name == "ort-web" for peer in self.chosen):
            materials = {"course": self.material}
            materials |= {f"width-{width}": growth_material(width, 16) for width in WIDTHS if width != 16}
            self.attempt("ort-web", lambda: self.files.add_ort(materials))
        if "simd" in self.parts:
            try:
                compile_wasm(self.files.bench / "simd.wasm")
            except LaneError as error:
                self.parts.discard("simd")
                say(f"SIMD rates: {error}")
        self.address = stack.enter_context(serving(root))
        self.chromium = stack.enter_context(sync_playwright()).chromium
        try:
            browser = self.chromium.launch(**options())
        except Error as error:
            raise LaneError(f"Chromium does not start: {error.message.splitlines()[0]}") from None
        stack.callback(browser.close)
        self.browser_version = browser.version
        self.page = browser.new_page()
        self.page.set_default_timeout(0)
        self.page.goto(f"{self.address}bench/")
        if "simd" in self.parts:
            self.simd_lane = ChromiumLane(self.page, self.address, PeerInfo("simd", "", "simd"), self.files)

    def attempt(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except LaneError as error:
            self.peers[name]["why"] = str(error)

    def open_lane(self, peer: PeerInfo, stack: contextlib.ExitStack) -> None:
        row = self.peers[peer.name]
        if row["why"]:
            return
        say(f"opening {peer.title}")

        def open_it() -> None:
            if peer.where == "native":
                lane: Lane = NativeLane(peer)
            else:
                from bench.chromium import ChromiumLane

                lane = ChromiumLane(self.page, self.address, peer, self.files)
            stack.callback(lane.close)
            row["versions"] = lane.ask(do="describe")["versions"]
            self.lanes[peer.name] = lane
            row["ok"] = True

        self.attempt(peer.name, open_it)

    def check(self) -> None:
        """Nobody is timed before giving the judge's loss, gradient steps and answers."""
        judged = expected(self.material)
        given = packed(self.material)
        for name in list(self.lanes):
            say(f"checking {self.peers[name]['title']}")
            with self.dropping(name):
                self.lanes[name].ask(do="load", material=given)
                found = disagreement(self.lanes[name].ask(do="check"), judged, self.material)
                self.peers[name]["check"] = found
                if not found["agrees"]:
                    raise LaneError(f"does not agree with the reference: {found}")

    @contextlib.contextmanager
    def dropping(self, name: str) -> Iterator[None]:
        """A lane that fails is out, with the reason in its row; what it had measured is not kept."""
        try:
            yield
        except LaneError as error:
            say(f"{self.peers[name]['title']}: {error}")
            self.peers[name].update(ok=False, why=str(error))
            for work in (*WORK, "cot"):
                self.peers[name].pop(work, None)
            del self.lanes[name]

    # ------------------------------------------------------------------------------------------ measuring

    def time_work(self) -> None:
        """Interleaved: each round times every peer at every work, so that a slow minute of the machine hits all."""
        for turn in range(self.rounds):
            say(f"round {turn + 1} of {self.rounds}")
            for work in WORK:
                for name in list(self.lanes):
                    with self.dropping(name):
                        found = self.lanes[name].ask(do="time", work=work, seconds=self.seconds)
                        self.peers[name].setdefault(work, []).append(found["ms"])
            if "simd" in self.parts:
                self.time_simd()

    def time_simd(self) -> None:
        from bench.simd import rates

        found = rates(self.simd_lane, self.seconds)
        for count, rate in found["peak"].items():
            self.simd.setdefault("peak", {}).setdefault(str(count), []).append(rate)
        self.simd.setdefault("products", []).append(found["products"])

    def time_growth(self) -> None:
        """One training step at other widths and batches, the peers interleaved as before."""
        sizes = [(width, 16) for width in WIDTHS] + [(16, batch) for batch in BATCHES[1:]]
        names = [peer.name for peer in self.chosen if peer.grows and peer.name in self.lanes]
        for width, batch in sizes:
            say(f"growth: width {width}, batch {batch}")
            material = growth_material(width, batch)
            judged, row = expected(material), {"width": width, "batch": batch, "ms": {}}
            agreeing = [name for name in names if name in self.lanes and self.agrees(name, material, judged)]
            for _ in range(self.growth_rounds):
                for name in agreeing:
                    with contextlib.suppress(LaneError):
                        found = self.lanes[name].ask(do="time", work="sft", seconds=self.seconds)
                        row["ms"].setdefault(name, []).append(found["ms"])
            self.growth.append(row)
        given = packed(self.material)
        for lane in self.lanes.values():
            lane.ask(do="load", material=given)

    def agrees(self, name: str, material: Material, judged: dict[str, Any]) -> bool:
        """Whether the peer may be timed at this size. If not, its place in this table stays empty."""
        try:
            self.lanes[name].ask(do="load", material=packed(material))
            found = disagreement(self.lanes[name].ask(do="check"), judged, material)
        except LaneError as error:
            say(f"{self.peers[name]['title']}: {error}")
            return False
        if not found["agrees"]:
            say(f"{self.peers[name]['title']} does not agree at this size: {found}")
        return found["agrees"]

    def time_cot(self) -> None:
        """The whole widget: the course's backends run the experiment itself, peers what it computes."""
        names = [name for name in self.lanes if not self.quick or name.startswith("kernel")]
        for turn in range(self.cot_rounds):
            for name in [name for name in names if name in self.lanes]:
                say(f"cot, {turn + 1} of {self.cot_rounds}: {self.peers[name]['title']}")
                command = {"do": "cot"} if self.peers[name]["own"] else {"do": "time", "work": "cot", "seconds": 0}
                try:
                    found = self.lanes[name].ask(**command)
                except LaneError as error:
                    self.peers[name]["cot_why"] = str(error)
                    continue
                self.peers[name].setdefault("cot", []).append(found["ms"])
                if "digest" in found:
                    self.peers[name]["digest"] = found["digest"]

    def time_visits(self) -> None:
        from bench.chromium import site_config
        from bench.visits import LESSON, WIDGET, Visits

        self.page.close()  # its workers hold memory and the browser's attention
        visits = Visits(self.chromium, f"{self.address}site/")
        self.visits = {"backend": site_config(self.files.site)["widgets"]["cot"]["backend"], "visits": []}
        say("bytes of the pages")
        self.visits["lesson_bytes"] = visits.page_bytes(LESSON)
        self.visits["widget_page_bytes"] = visits.page_bytes(WIDGET)
        for turn in range(self.visit_rounds):
            say(f"visits, {turn + 1} of {self.visit_rounds}")
            self.visits["visits"].append(visits.cold_and_second())
        say("the widgets of the lesson, one after another")
        self.visits["lesson"] = visits.lesson()

    # ------------------------------------------------------------------------------------------ the record

    def result(self, seconds: float) -> dict[str, Any]:
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": commit(ROOT),
            "machine": machine(),
            "versions": {**versions(), "Chromium": self.browser_version},
            "settings": {
                "quick": self.quick,
                "parts": sorted(self.parts),
                "rounds": self.rounds,
                "block_seconds": self.seconds,
                "run_seconds": round(seconds),
            },
            "peers": self.peers,
            "growth": self.growth,
            "simd": self.simd,
            "visits": self.visits,
            "build": self.build,
        }

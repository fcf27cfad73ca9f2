"""Drives experiments: the same code in the browser worker, the command line, the notebook and the tests.

A session holds any number of runs and advances them in turn, one slice of each, so that pause, stop and other runs are
honoured in between. It knows no storage and no page: it asks its door for what it lacks (`need`), hands it what must be
kept (`checkpoint` and `readout` events), and does not go on with that run until the door says it is committed.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigpt import recipes
from minigpt.backend import open_backend
from minigpt.checkpoint import CheckpointError, load_model
from minigpt.lab import Event, Experiment, Lab, ModelKey, Need, recipe_digest
from widgets._runtime.registry import MAIN, Widget, WidgetError, find

Output = dict[str, Any]
PRODUCER_PREFIX = "model:"


@dataclass
class Recorder:
    """What a run has given so far: its record, and the digest of it."""

    readouts: dict[str, float] = field(default_factory=dict)
    series: dict[str, list[list[float]]] = field(default_factory=dict)
    checkpoints: list[bytes] = field(default_factory=list)

    def add(self, event: Event) -> None:
        if event["type"] == "point":
            self.series.setdefault(event["series"], []).append([event["x"], event["y"]])
        elif event["type"] == "readout":
            self.readouts[event["name"]] = event["value"]
        elif event["type"] == "checkpoint":
            self.checkpoints.append(event["data"])

    def digest(self) -> str:
        """sha256 of the canonical JSON of readouts and series, then of each checkpoint's bytes in event order."""
        facts = {"readouts": self.readouts, "series": self.series}
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode())
        for data in self.checkpoints:
            digest.update(data)
        return digest.hexdigest()


@dataclass
class Run:
    id: str
    widget: Widget | None
    parameters: dict[str, Any]
    entry: str
    lab: Lab
    generator: Experiment
    recorder: Recorder = field(default_factory=Recorder)
    paused: bool = False
    committing: bool = False
    waiting: ModelKey | None = None
    told_to_wait: bool = False
    answer: Any = None
    coming: set[str] = field(default_factory=set)

    @property
    def held(self) -> bool:
        return self.paused or self.committing or self.waiting is not None


def check_event(widget: Widget, event: Event) -> None:
    """Hold an event to what the widget declares. Raises WidgetError: an undeclared or broken number is never shown."""
    if event["type"] in ("point", "readout"):
        kind, name = ("series", event["series"]) if event["type"] == "point" else ("readout", event["name"])
        declared = widget.series if kind == "series" else widget.readouts
        if name not in declared:
            raise WidgetError(f"{kind} {name!r} is not declared: expected one of {', '.join(declared)}")
        numbers = [event["x"], event["y"]] if kind == "series" else [event["value"]]
        if not all(math.isfinite(number) for number in numbers):
            raise WidgetError(f"{kind} {name!r} is not finite: {numbers}")


class Session:
    """Runs in progress on one backend. Not thread-safe: a door calls it from one place."""

    def __init__(self, backend: str, clock: Callable[[], float] = time.perf_counter):
        self.backend = open_backend(backend)
        self.clock = clock
        self.runs: dict[str, Run] = {}
        self.models: dict[str, np.ndarray] = {}
        self._outputs: list[Output] = []
        self._asked: set[str] = set()
        self._turn = 0

    def start(self, run_id: str, widget_id: str, given: dict[str, Any], entry: str = MAIN) -> dict[str, Any]:
        """Begin a run and return its validated parameters. Raises ParameterError, WidgetError or KeyError."""
        if run_id in self.runs or run_id.startswith(PRODUCER_PREFIX):
            raise KeyError(f"there is a run {run_id!r} already")
        widget = find(widget_id)
        parameters = widget.check(given, entry)
        lab = Lab(parameters.get("seed", 1), self.backend)
        run = Run(run_id, widget, parameters, entry, lab, widget.entry(entry)[1](parameters, lab))
        if entry == MAIN:
            run.coming = {lab.key_text(key) for key in widget.produces(parameters)}
        self.runs[run_id] = run
        return parameters

    def pause(self, run_id: str) -> None:
        """Hold a run at its next slice. Whoever waits for its checkpoints is served otherwise."""
        if run_id in self.runs:
            self.runs[run_id].paused = True
            self._reconsider_waiting()

    def resume(self, run_id: str) -> None:
        if run_id in self.runs:
            self.runs[run_id].paused = False

    def stop(self, run_id: str) -> None:
        """End a run for good. What it had given stays."""
        run = self.runs.pop(run_id, None)
        if run:
            run.generator.close()
            self._drop_idle_producers()
            self._reconsider_waiting()

    def committed(self, run_id: str) -> None:
        """The door has stored the run's last checkpoint or readout: it may go on."""
        if run_id in self.runs:
            self.runs[run_id].committing = False

    def provide(self, key: str, data: bytes | None) -> None:
        """The door's answer to a need: the stored checkpoint, or None. What cannot be used is trained again."""
        self._asked.discard(key)
        waiting = self._waiting_for(key)
        if not waiting or not waiting[0].waiting:
            return
        try:
            if data is None:
                raise CheckpointError("there is none")
            self.models[key] = self._load(data, waiting[0].waiting)
        except CheckpointError:
            self._produce(waiting[0].waiting)
        else:
            self._hand_over(key)

    def advance(self, budget: float) -> list[Output]:
        """Work for about `budget` seconds and return what happened; `idle` when nothing can be done for now."""
        deadline = self.clock() + budget
        while not any("need" in output for output in self._outputs):
            runnable = self._runnable()
            if not runnable:
                break
            self._turn += 1
            self._step(runnable[self._turn % len(runnable)])
            if self.clock() >= deadline:
                break
        outputs, self._outputs = _latest_progress(self._outputs), []
        if not outputs and not self._runnable():
            outputs.append({"idle": True})
        return outputs

    def _runnable(self) -> list[Run]:
        """Runs that can take a step; a producer only while somebody who is not paused waits for it."""
        return [
            run
            for run in self.runs.values()
            if not run.held and (run.widget or any(not other.paused for other in self._waiting_on(run)))
        ]

    def _step(self, run: Run) -> None:
        """One slice of a run. Whatever goes wrong in it, in its events or in its texts, ends that run alone."""
        answer, run.answer = run.answer, None
        try:
            try:
                item = run.generator.send(answer)
            except StopIteration:
                self._finish(run)
                return
            if isinstance(item, Need):
                run.waiting = item.key
                self._resolve(run)
            elif item is not None:
                self._take(run, item)
        except Exception as error:
            self._fail(run, str(error) or type(error).__name__, traceback.format_exc())

    def _take(self, run: Run, event: Event) -> None:
        if run.widget and run.entry == MAIN:
            check_event(run.widget, event)
        if event["type"] == "checkpoint":
            key = ModelKey(event["format"], event["steps"], event["seed"])
            self.models[event["key"]] = self._load(event["data"], key)
        run.recorder.add(event)
        if event["type"] == "note" and run.widget:
            event = {"type": "note", "name": event["name"], "text": run.widget.note(event["name"], event["values"])}
        run.committing = event["type"] in ("checkpoint", "readout")
        self._outputs.append({"run": run.id, "event": event})
        if event["type"] == "checkpoint":
            run.coming.discard(event["key"])
            self._hand_over(event["key"])
        elif event["type"] == "progress" and not run.widget:
            for other in self._waiting_on(run):
                self._outputs.append({"run": other.id, "event": event})

    def _finish(self, run: Run) -> None:
        recorder = run.recorder
        output: Output = {"state": "done", "digest": recorder.digest(), "explanation": "", "outcome": None}
        if run.widget and run.entry == MAIN:
            missing = sorted(set(run.widget.readouts) - set(recorder.readouts))
            if missing:
                raise WidgetError(
                    f"the experiment of {run.widget.id!r} ended without its readouts {', '.join(missing)}"
                )
            output["explanation"] = run.widget.explanation(run.parameters, recorder.readouts, recorder.series)
            output["outcome"] = run.widget.outcome(recorder.readouts)
        output["record"] = {
            "widget": run.widget.id if run.widget else None,
            "params": run.parameters,
            "seed": run.lab.seed,
            "backend": self.backend.name,
            "recipe": recipe_digest(self.backend.name),
            "readouts": recorder.readouts,
            "series": recorder.series,
            "digest": output["digest"],
        }
        del self.runs[run.id]
        self._report(run, output)
        self._reconsider_waiting()

    def _fail(self, run: Run, message: str, trace: str) -> None:
        self.runs.pop(run.id, None)
        run.generator.close()
        self._report(run, {"state": "error", "message": message, "trace": trace})
        self._reconsider_waiting()

    def _report(self, run: Run, output: Output) -> None:
        """Tell the door about a run's end. A producer's is its waiters' affair: its error is theirs."""
        if not run.id.startswith(PRODUCER_PREFIX):
            self._outputs.append({"run": run.id, **output})
        elif output["state"] == "error":
            for other in self._waiting_on(run):
                del self.runs[other.id]
                other.generator.close()
                self._outputs.append({"run": other.id, **output})

    def _waiting_for(self, key: str) -> list[Run]:
        return [run for run in self.runs.values() if run.waiting and run.lab.key_text(run.waiting) == key]

    def _waiting_on(self, producer: Run) -> list[Run]:
        return [other for key in producer.coming for other in self._waiting_for(key)]

    def _resolve(self, run: Run) -> None:
        """Answer a need from memory, from the run that is making it, from the door's store, or by training it."""
        assert run.waiting
        key = run.lab.key_text(run.waiting)
        if key in self.models:
            self._hand_over(key)
            return
        if not run.told_to_wait:
            run.told_to_wait = True
            self._outputs.append({"run": run.id, "state": "waiting", "key": key})
        on_its_way = any(key in other.coming and not other.paused for other in self.runs.values())
        if not on_its_way and key not in self._asked:
            self._asked.add(key)
            self._outputs.append({"need": key})

    def _hand_over(self, key: str) -> None:
        for run in self._waiting_for(key):
            run.waiting, run.answer = None, self.models[key].copy()
            if run.told_to_wait:
                run.told_to_wait = False
                self._outputs.append({"run": run.id, "state": "running"})

    def _produce(self, key: ModelKey) -> None:
        lab = Lab(key.seed, self.backend)
        text = lab.key_text(key)
        run_id = PRODUCER_PREFIX + text
        if run_id not in self.runs:
            run = Run(run_id, None, {}, MAIN, lab, recipes.producer(lab, key))
            run.coming = {lab.key_text(made) for made in recipes.trained_keys((key.format,), key.seed, key.steps)}
            self.runs[run_id] = run

    def _reconsider_waiting(self) -> None:
        """After a run ended or was paused, whoever waited for its checkpoints is served in another way."""
        for run in list(self.runs.values()):
            if run.waiting and PRODUCER_PREFIX + run.lab.key_text(run.waiting) not in self.runs:
                self._resolve(run)

    def _drop_idle_producers(self) -> None:
        """A training that nobody waits for any more is work for nothing."""
        for run in [run for run in self.runs.values() if run.id.startswith(PRODUCER_PREFIX)]:
            if not self._waiting_on(run):
                del self.runs[run.id]
                run.generator.close()

    def _load(self, data: bytes, key: ModelKey) -> np.ndarray:
        parameters, metadata = load_model(data)
        expected = {
            "format": key.format,
            "steps": str(key.steps),
            "seed": str(key.seed),
            "backend": self.backend.name,
            "recipe": recipe_digest(self.backend.name),
        }
        for name, value in expected.items():
            if metadata.get(name) != value:
                raise CheckpointError(f"the checkpoint's {name} is {metadata.get(name)!r}, expected {value!r}")
        return parameters


def _latest_progress(outputs: list[Output]) -> list[Output]:
    """Only the last progress of each run is worth a message."""
    last = {
        output["run"]: index
        for index, output in enumerate(outputs)
        if output.get("event", {}).get("type") == "progress"
    }
    return [
        output
        for index, output in enumerate(outputs)
        if output.get("event", {}).get("type") != "progress" or last[output["run"]] == index
    ]

"""Claims about the session: runs take turns, wait for models, stop and go on without losing or changing anything."""

from types import SimpleNamespace

import numpy as np
import pytest

from minigpt import recipes
from minigpt.lab import SEED, Lab, ModelKey, Need, Parameter, ParameterError, point, progress, readout, sample
from widgets._runtime import session as session_module
from widgets._runtime.registry import Widget
from widgets._runtime.session import Session

KEY = ModelKey("direct", 3, seed=1)
LABELS = {"notes": {"text": "{value:percent}"}, "readouts": {}, "stages": {}}


def widget(experiment, *, produces=None, readouts=("value",), parameters=(SEED,)):
    module = SimpleNamespace(
        PARAMETERS=parameters,
        SERIES=("curve",),
        READOUTS=readouts,
        experiment=experiment,
        reread=lambda samples, parameters: ({}, {}),
        explain=lambda parameters, readouts, series: [("text", {"value": readouts["value"]})],
    )
    if produces:
        module.produces = produces
    return Widget("test", None, module, LABELS)


def counter(parameters, lab, steps=5):
    """Draws one number per step from its stream."""
    draws = lab.stream("draws").random(steps)
    for step in range(steps):
        yield progress("train", step, steps)
        yield point("curve", step, draws[step])
        yield None
    yield readout("value", draws[-1])


def needy(parameters, lab):
    model = yield Need(KEY)
    yield readout("value", float(np.abs(model).max()))


class Door:
    """A door with a dictionary as its store."""

    def __init__(self, monkeypatch, widgets, *, clock=None):
        monkeypatch.setattr(session_module, "find", widgets.__getitem__)
        self.session = Session("numpy", **({"clock": clock} if clock else {}))
        self.store, self.log, self.asked = {}, [], []

    def drain(self, budget=1.0, until=None):
        while True:
            for output in self.session.advance(budget):
                if output.get("idle"):
                    return
                if "need" in output:
                    self.asked.append(output["need"])
                    self.session.provide(output["need"], self.store.get(output["need"]))
                if "event" in output:
                    if output["event"]["type"] == "checkpoint":
                        self.store[output["event"]["key"]] = output["event"]["data"]
                    self.session.committed(output["run"])
                if "run" in output:
                    self.log.append(output)
                    if until and until(output):
                        return

    def final(self, run):
        return [o for o in self.log if o["run"] == run and o.get("state") in ("done", "error")]

    def states(self, run):
        return [o["state"] for o in self.log if o["run"] == run and "state" in o]


def test_a_run_gives_the_same_digest_alone_interleaved_paused_and_sliced(monkeypatch):
    widgets = {"test": widget(counter)}
    alone = Door(monkeypatch, widgets)
    alone.session.start("a", "test", {"seed": 7})
    alone.drain()
    tick = iter(range(10**9))
    sliced = Door(monkeypatch, widgets, clock=lambda: next(tick))
    sliced.session.start("a", "test", {"seed": 7})
    sliced.session.start("b", "test", {"seed": 8})
    sliced.drain(budget=0, until=lambda output: output.get("event", {}).get("type") == "point")
    sliced.session.pause("a")
    sliced.drain(budget=0)
    assert sliced.final("b")
    assert not sliced.final("a")
    sliced.session.resume("a")
    sliced.drain(budget=0)
    digests = {door.final("a")[0]["digest"] for door in (alone, sliced)}
    assert len(digests) == 1
    assert sliced.final("b")[0]["digest"] not in digests


def test_a_run_does_not_go_on_before_its_readout_is_committed(monkeypatch):
    monkeypatch.setattr(session_module, "find", {"test": widget(counter)}.__getitem__)
    session = Session("numpy")
    session.start("a", "test", {})
    outputs = session.advance(1.0)
    assert outputs[-1]["event"]["type"] == "readout"
    assert session.advance(1.0) == [{"idle": True}]
    session.committed("a")
    assert session.advance(1.0)[-1]["state"] == "done"


def test_a_missing_model_is_asked_of_the_store_then_trained_once_for_all_who_wait(monkeypatch):
    door = Door(monkeypatch, {"test": widget(needy)})
    door.session.start("a", "test", {})
    door.session.start("b", "test", {})
    door.drain()
    assert len(door.asked) == 1
    assert len(door.store) == 1
    assert door.states("a") == ["waiting", "running", "done"]
    assert door.final("a")[0]["record"]["readouts"] == door.final("b")[0]["record"]["readouts"]
    later = Door(monkeypatch, {"test": widget(needy)})
    later.store = door.store
    later.session.start("a", "test", {})
    later.drain()
    assert later.final("a")[0]["digest"] == door.final("a")[0]["digest"]
    assert not [o for o in later.log if o.get("event", {}).get("type") == "checkpoint"], "it was trained again"


def test_training_for_another_run_shows_as_its_progress(monkeypatch):
    door = Door(monkeypatch, {"test": widget(needy)})
    door.session.start("a", "test", {})
    door.drain()
    assert [o for o in door.log if o["run"] == "a" and o.get("event", {}).get("type") == "progress"]


@pytest.mark.parametrize("damage", [b"", b"rubbish", "other-seed", "other-recipe"])
def test_a_stored_checkpoint_that_cannot_be_used_is_trained_again(monkeypatch, damage):
    door = Door(monkeypatch, {"test": widget(needy)})
    lab = Lab(1, door.session.backend)
    if damage == "other-seed":
        damage = lab.checkpoint(ModelKey("direct", 3, seed=2), np.zeros(7392, np.float32))["data"]
    elif damage == "other-recipe":
        good = lab.checkpoint(KEY, np.zeros(7392, np.float32))["data"]
        digest = session_module.recipe_digest("numpy").encode()
        damage = good.replace(digest, b"0" * len(digest))
    door.store[lab.key_text(KEY)] = damage
    door.session.start("a", "test", {})
    door.drain()
    assert door.final("a")[0]["state"] == "done"
    assert door.final("a")[0]["record"]["readouts"]["value"] > 0.1
    assert door.store[lab.key_text(KEY)] != damage


def training(parameters, lab):
    yield from recipes.train(lab, ("direct", "reasoned"), parameters["seed"], steps=3)
    yield readout("value", 1.0)


def trains(parameters):
    return list(recipes.trained_keys(("direct", "reasoned"), parameters["seed"], 3))


def test_a_run_that_needs_a_model_in_training_waits_for_that_training(monkeypatch):
    door = Door(monkeypatch, {"train": widget(training, produces=trains), "test": widget(needy)})
    door.session.start("t", "train", {})
    door.session.start("a", "test", {})
    door.drain()
    assert not door.asked
    assert door.states("a") == ["waiting", "running", "done"]
    made = [o["event"]["key"] for o in door.log if o.get("event", {}).get("type") == "checkpoint"]
    assert len(made) == len(set(made)) == 2


@pytest.mark.parametrize("end", ["stop", "pause"])
def test_a_run_is_served_otherwise_when_the_training_it_waits_for_stops_or_pauses(monkeypatch, end):
    door = Door(monkeypatch, {"train": widget(training, produces=trains), "test": widget(needy)})
    door.session.start("t", "train", {})
    door.session.start("a", "test", {})
    door.drain(budget=0, until=lambda output: output.get("state") == "waiting")
    getattr(door.session, end)("t")
    door.drain()
    assert door.final("a")[0]["state"] == "done"


def test_the_same_model_has_the_same_bits_trained_alone_or_beside_another(monkeypatch):
    lab = Lab(1)
    together = {e["key"]: e["data"] for e in training({"seed": 1}, lab) if e and e["type"] == "checkpoint"}
    alone = {e["key"]: e["data"] for e in recipes.producer(lab, KEY) if e and e["type"] == "checkpoint"}
    assert together[lab.key_text(KEY)] == alone[lab.key_text(KEY)]
    other = {e["key"]: e["data"] for e in recipes.producer(lab, ModelKey("direct", 3, 2)) if e and "key" in e}
    assert set(other).isdisjoint(alone)


def test_a_stopped_run_says_nothing_more_and_its_producer_ends_with_it(monkeypatch):
    door = Door(monkeypatch, {"test": widget(needy)})
    door.session.start("a", "test", {})
    door.drain(budget=0, until=lambda output: output.get("event", {}).get("type") == "progress")
    door.session.stop("a")
    door.log.clear()
    door.drain()
    assert door.log == []
    assert not door.session.runs


def test_pausing_the_only_run_that_waits_pauses_the_training_it_waits_for(monkeypatch):
    door = Door(monkeypatch, {"test": widget(needy)})
    door.session.start("a", "test", {})
    door.drain(budget=0, until=lambda output: output.get("event", {}).get("type") == "progress")
    door.session.pause("a")
    door.drain()
    assert not door.final("a")
    door.session.resume("a")
    door.drain()
    assert door.final("a")[0]["state"] == "done"


def test_an_error_ends_its_run_with_a_message_and_leaves_the_others_alone(monkeypatch):
    def broken(parameters, lab):
        yield progress("train", 0, 1)
        raise FloatingPointError("the gradient of step 3 is not finite (norm nan)")

    door = Door(monkeypatch, {"broken": widget(broken), "test": widget(counter)})
    door.session.start("x", "broken", {})
    door.session.start("a", "test", {})
    door.drain()
    assert door.final("x")[0]["message"] == "the gradient of step 3 is not finite (norm nan)"
    assert "broken" in door.final("x")[0]["trace"]
    assert door.final("a")[0]["state"] == "done"


def test_an_error_in_the_training_of_a_needed_model_reaches_who_waits(monkeypatch):
    def broken(lab, key):
        yield progress("train", 0, 1)
        raise FloatingPointError("not finite")

    monkeypatch.setattr(recipes, "producer", broken)
    door = Door(monkeypatch, {"test": widget(needy)})
    door.session.start("a", "test", {})
    door.drain()
    assert door.final("a")[0]["state"] == "error"
    assert not door.session.runs


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (readout("other", 1.0), "readout 'other' is not declared: expected one of value"),
        (readout("value", float("nan")), "readout 'value' is not finite"),
        (point("other", 1, 1), "series 'other' is not declared: expected one of curve"),
        (point("curve", 1, float("inf")), "series 'curve' is not finite"),
        ({"type": "note", "name": "absent", "values": {}}, "absent"),
        ({"kind": "point"}, "type"),
        ({"type": "checkpoint", "key": "k", "format": "direct", "steps": 3, "seed": 1, "data": b"x"}, "8-byte header"),
    ],
)
def test_a_malformed_event_ends_its_run_and_leaves_the_others_alone(monkeypatch, event, message):
    def malformed(parameters, lab):
        yield event
        yield readout("value", 1.0)

    door = Door(monkeypatch, {"malformed": widget(malformed), "test": widget(counter)})
    door.session.start("x", "malformed", {})
    door.session.start("a", "test", {})
    door.drain()
    assert message in door.final("x")[0]["message"]
    assert not [output for output in door.log if output["run"] == "x" and "event" in output]
    assert door.final("a")[0]["state"] == "done"


def test_an_explanation_that_cannot_be_written_ends_its_run_with_an_error(monkeypatch):
    broken = widget(counter)
    broken.module.explain = lambda parameters, readouts, series: [("absent", {})]
    door = Door(monkeypatch, {"broken": broken, "test": widget(counter)})
    door.session.start("x", "broken", {})
    door.session.start("a", "test", {})
    door.drain()
    assert door.final("x")[0]["state"] == "error"
    assert door.final("a")[0]["state"] == "done"


def test_a_readout_that_is_promised_and_never_given_is_an_error(monkeypatch):
    door = Door(monkeypatch, {"test": widget(counter, readouts=("value", "other"))})
    door.session.start("a", "test", {})
    door.drain()
    assert "other" in door.final("a")[0]["message"]


def test_samples_and_explanation_come_with_the_end(monkeypatch):
    def sampling(parameters, lab):
        yield sample("chains", [1, 2])
        yield readout("value", 0.5)

    door = Door(monkeypatch, {"test": widget(sampling)})
    door.session.start("a", "test", {})
    door.drain()
    assert door.final("a")[0]["explanation"] == "50\u00a0%"
    assert [o for o in door.log if o.get("event", {}).get("type") == "sample"]


def test_only_the_last_progress_of_a_slice_is_reported(monkeypatch):
    def busy(parameters, lab):
        for step in range(100):
            yield progress("train", step, 100)
        yield readout("value", 1.0)

    monkeypatch.setattr(session_module, "find", {"test": widget(busy)}.__getitem__)
    session = Session("numpy")
    session.start("a", "test", {})
    reported = [o for o in session.advance(1.0) if o["event"]["type"] == "progress"]
    assert [o["event"]["done"] for o in reported] == [99]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 16}, "k must be a whole number from 1 to 15, got 16"),
        ({"k": "nou"}, "k must be a whole number"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"k": True}, "k must be a whole number"),
        ({"k": float("nan")}, "k must be a whole number"),
        ({"checkpoint": 600}, "checkpoint must be one of 500, 1000"),
        ({"checkpoint": True}, "checkpoint must be one of"),
        ({"speed": 1}, "no parameter 'speed': expected one of k, checkpoint, seed"),
        ({"seed": -1}, "seed must be a whole number from 0 to 4294967295"),
        ({"seed": 2**32}, "seed must be a whole number"),
    ],
)
def test_a_bad_parameter_is_refused_before_anything_starts(monkeypatch, given, message):
    parameters = (
        Parameter("k", "integer", default=9, minimum=1, maximum=15),
        Parameter("checkpoint", "choice", default=500, options=(500, 1000)),
        SEED,
    )
    monkeypatch.setattr(session_module, "find", {"test": widget(counter, parameters=parameters)}.__getitem__)
    session = Session("numpy")
    with pytest.raises(ParameterError, match=message):
        session.start("a", "test", given)
    assert not session.runs
    assert session.start("a", "test", {"k": "9", "checkpoint": "1000"}) == {"k": 9, "checkpoint": 1000, "seed": 1}


def test_two_runs_cannot_have_one_name(monkeypatch):
    monkeypatch.setattr(session_module, "find", {"test": widget(counter)}.__getitem__)
    session = Session("numpy")
    session.start("a", "test", {})
    with pytest.raises(KeyError, match="a run 'a' already"):
        session.start("a", "test", {})

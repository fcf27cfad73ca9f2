"""Claims about the widget `cot`: what its run gives, what its votes count, what its aside shows."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from minigpt import model, task
from minigpt.lab import Lab
from minigpt.voting import binomial_majority, majority, plurality
from widgets._runtime.native import run_to_end
from widgets._runtime.registry import find
from widgets.cot import experiment as cot


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    from widgets._runtime.store import FileStore

    store = FileStore(tmp_path_factory.mktemp("checkpoints"))
    events = []
    result = run_to_end("cot", {"seed": 4}, store=store, on_event=events.append)
    return SimpleNamespace(**result, events=events, store=store)


def test_the_run_gives_every_readout_and_series_of_the_contract(record):
    assert set(record.readouts) == {"cot-500", "direct-500", "cot-1500", "direct-1500", "per-chain", "vote"}
    assert {name: len(points) for name, points in record.series.items()} == {
        "reasoned": 7,
        "direct": 7,
        "plurality": 15,
        "majority": 15,
        "binomial": 15,
    }
    assert [x for x, _ in record.series["direct"]] == [0, 250, 500, 750, 1000, 1250, 1500]
    assert all(0 <= y <= 1 for points in record.series.values() for _, y in points)


def test_the_reasoned_model_learns_the_task_and_is_ahead_at_500_steps(record):
    assert record.readouts["cot-1500"] >= 0.95
    assert record.readouts["cot-500"] > record.readouts["direct-500"]
    assert record.readouts["vote"] >= record.readouts["per-chain"]
    assert record.outcome == "reasoned"


def test_what_the_lesson_teaches_holds_for_ten_seeds(tmp_path):
    from widgets._runtime.store import FileStore

    readouts = [run_to_end("cot", {"seed": seed}, store=FileStore(tmp_path))["readouts"] for seed in range(10)]
    assert all(each["cot-1500"] >= 0.95 for each in readouts)
    assert all(each["cot-500"] > each["direct-500"] for each in readouts)
    assert sum(each["vote"] >= each["per-chain"] for each in readouts) >= 9


def test_readouts_and_points_are_the_same_measurement(record):
    for series, step, name in (("reasoned", 500, "cot-500"), ("direct", 1500, "direct-1500")):
        assert dict(map(tuple, record.series[series]))[step] == record.readouts[name]
    assert dict(map(tuple, record.series["plurality"]))[9] == record.readouts["vote"]


def test_six_checkpoints_are_kept_and_can_be_used(record):
    made = [event for event in record.events if event["type"] == "checkpoint"]
    assert [(event["format"], event["steps"]) for event in made] == list(
        itertools.chain.from_iterable([("reasoned", steps), ("direct", steps)] for steps in (500, 1000, 1500))
    )
    assert all(record.store.get(event["key"]) == event["data"] for event in made)
    again = run_to_end("cot", {"seed": 4, "first": 74, "second": 46}, entry="sum", store=record.store)
    trace = again["samples"]["trace-reasoned"]
    assert trace["prompt"] == "^74+46="
    assert "".join(token["token"] for token in trace["tokens"]).endswith(".")
    assert trace["total"] == 120
    for token in trace["tokens"]:
        others = [other["p"] for other in token["alternatives"]]
        assert 0 < token["p"] <= 1
        assert others == sorted(others, reverse=True)
        assert token["p"] >= others[0] - 1e-6, "greedy decoding takes the most probable character"
        assert token["p"] + sum(others) <= 1 + 1e-5
        assert token["token"] not in {other["token"] for other in token["alternatives"]}


def test_progress_only_grows_and_ends_at_its_total(record):
    shares = [event["done"] / event["total"] for event in record.events if event["type"] == "progress"]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.5
    assert shares[-1] == pytest.approx(1)


def test_rereading_with_the_same_controls_changes_nothing(record):
    reading = find("cot").reread(record.samples, record.params)
    assert reading["readouts"] == record.readouts
    assert reading["series"] == {name: record.series[name] for name in ("plurality", "majority", "binomial")}
    assert reading["explanation"] == record.explanation


@pytest.mark.parametrize(("k", "checkpoint"), [(1, 500), (15, 1000), (3, 1500)])
def test_rereading_gives_what_a_whole_run_with_those_controls_would(record, k, checkpoint):
    reading = find("cot").reread(record.samples, {"seed": 4, "k": k, "checkpoint": checkpoint})
    rows = record.samples["chains"][str(checkpoint)]
    truth = record.samples["chains"]["truth"]
    right = [plurality(row[:k]) == total for row, total in zip(rows, truth, strict=True)]
    assert reading["readouts"]["vote"] == np.mean(right)
    assert reading["readouts"]["per-chain"] == np.mean(
        [answer == total for row, total in zip(rows, truth, strict=True) for answer in row]
    )
    assert reading["readouts"]["cot-500"] == record.readouts["cot-500"]


def test_a_chain_has_its_own_stream_whatever_else_is_sampled():
    lab, parameters = Lab(1), model.initial_parameters(1)
    questions = task.split()[1][:6]
    uniforms = lab.uniforms("cot-chains", (100, 15, 10))
    together = cot.sample_answers(lab, parameters, questions, uniforms[:6])
    alone = cot.sample_answers(lab, parameters, questions[4:5], uniforms[4:5, :3])
    assert together[4][:3] == alone[0]


def test_plurality_takes_the_first_seen_of_tied_answers_and_ignores_malformed_ones():
    assert plurality([1, 2, 2, 1]) == 1
    assert plurality([2, 1, 1]) == 1
    assert plurality([None, None, 3]) == 3
    assert plurality([None, None]) is None


def test_an_absolute_majority_needs_strictly_more_than_half_of_all_chains():
    assert majority([7, 7, 8], 7)
    assert not majority([7, 7, 8, None], 7)
    assert not majority([None, 8], 7)


@pytest.mark.parametrize("k", [1, 2, 5, 15])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.6, 1.0])
def test_the_binomial_majority_is_the_sum_over_all_outcomes(k, p):
    expected = (
        sum(
            np.prod([p if right else 1 - p for right in chains])
            for chains in itertools.product([0, 1], repeat=k)
            if 2 * sum(chains) > k
        )
        if k <= 5
        else None
    )
    if expected is None:
        draws = np.random.default_rng(0).binomial(k, p, 200_000)
        assert binomial_majority(k, p) == pytest.approx((2 * draws > k).mean(), abs=0.005)
    else:
        assert binomial_majority(k, p) == pytest.approx(expected)


def test_the_binomial_majority_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match="p in"):
        binomial_majority(3, 1.1)


BASE = {"cot-500": 0.6, "direct-500": 0.1, "cot-1500": 1.0, "direct-1500": 0.5, "per-chain": 0.4, "vote": 0.5}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"learned-gap", "direct-lost", "vote-helps", "binomial-off"}),
        ({"direct-500": 0.58}, {"learned-tie"}),
        ({"direct-500": 0.9}, {"learned-reversed"}),
        ({"direct-1500": 0.99}, {"direct-caught-up"}),
        ({"vote": 0.4}, {"vote-idle"}),
        ({"vote": 0.38}, {"vote-single"}),
        ({"vote": 0.3}, {"vote-hurts", "binomial-close"}),
    ],
)
def test_the_explanation_says_what_happened_and_not_what_was_hoped(changes, expected):
    parameters = {"checkpoint": 500, "k": 1 if expected == {"vote-single"} else 9, "seed": 1}
    readouts = {**BASE, **changes}
    series = {"binomial": [[k, 0.3] for k in range(1, 16)]}
    chosen = cot.explain(parameters, readouts, series)
    names = {name for name, _ in chosen}
    assert expected <= names
    assert ("vote-single" in names) != bool({"binomial-close", "binomial-off"} & names), "one chain does not vote"
    assert len(find("cot").explanation(parameters, readouts, series)) > 200


def test_every_text_that_explain_may_choose_is_in_the_labels():
    source = cot.__loader__.get_source(cot.__name__)
    for name in find("cot").labels["notes"]:
        assert f'"{name}"' in source, f"the text {name} is never used"

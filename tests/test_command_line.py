"""Claims about the `raona` command, entered as a shell would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from widgets._runtime import command_line
from widgets._runtime.registry import WidgetError, discover, load

ROOT = Path(__file__).parents[1]


def raona(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "widgets._runtime.command_line", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_list_gives_ids_parameters_and_readouts(capsys):
    assert command_line.main(["list", "--json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["cot"]["readouts"] == ["cot-500", "direct-500", "cot-1500", "direct-1500", "per-chain", "vote"]
    assert {p["name"]: p["default"] for p in rows["cot"]["parameters"]} == {"checkpoint": 500, "k": 9, "seed": 1}


def test_list_without_json_is_readable(capsys):
    assert command_line.main(["list"]) == 0
    assert "--set k=9   integer, 1–15" in capsys.readouterr().out


def test_run_gives_one_json_object_with_the_keys_of_the_contract(capsys, monkeypatch):
    record = dict.fromkeys((*command_line.PUBLIC_KEYS, "samples", "explanation", "outcome"), 0)
    seen = {}

    def fake(widget, given, *, backend, on_event):
        seen.update(given=given, backend=backend)
        on_event({"type": "progress", "stage": "train", "done": 1, "total": 2})
        return record

    monkeypatch.setattr(command_line, "run_to_end", fake)
    assert command_line.main(["run", "cot", "--seed", "7", "--set", "k=3", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["widget", "params", "seed", "backend", "readouts", "series", "digest"]
    assert seen["given"] == {"k": "3", "seed": "7"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing"], "there is no widget 'nothing': expected one of cot"),
        (["run", "cot", "--set", "k=99"], "k must be a whole number from 1 to 15, got 99"),
        (["run", "cot", "--set", "k"], "expected name=value, got 'k'"),
        (["run", "cot", "--set", "k=1", "--set", "k=2"], "k is set twice"),
        (["run", "cot", "--seed", "1", "--set", "seed=2"], "use one of them"),
        (["run", "cot", "--seed", "-3"], "seed must be a whole number from 0 to 4294967295, got -3"),
        (["run", "cot", "--backend", "abacus"], "invalid choice: 'abacus'"),
        ([], "required"),
    ],
)
def test_a_bad_command_line_says_what_was_expected_and_exits_with_2(arguments, message):
    done = raona(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_cache_that_cannot_be_written_is_named_with_what_to_do(tmp_path, monkeypatch, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("RAONA_CACHE", str(blocked))
    assert command_line.main(["run", "cot", "--json"]) == 2
    message = capsys.readouterr().err
    assert str(blocked) in message
    assert "$RAONA_CACHE moves the cache" in message


def test_help_describes_every_command():
    text = raona("--help").stdout
    for command in ("list", "run", "build", "serve"):
        assert command in text


def test_no_widget_at_all_is_an_error(tmp_path):
    with pytest.raises(WidgetError, match="no widget in"):
        discover(tmp_path)


LABELS = """
title = "t"
question = "q"
[predict]
[stages]
[notes]
[[panels]]
id = "p"
title = "t"
series = ["a"]
x = { label = "x" }
y = { label = "y" }
[parameters.seed]
label = "s"
[series.a]
label = "a"
[readouts.r]
label = "r"
"""
EXPERIMENT = """
from minigpt.lab import SEED
PARAMETERS, SERIES, READOUTS = (SEED,), ("a",), ("r",)
def experiment(parameters, lab): yield
def reread(samples, parameters): return {}, {}
def explain(parameters, readouts, series): return []
"""


@pytest.mark.parametrize(
    ("labels", "experiment", "message"),
    [
        (LABELS, EXPERIMENT.replace("READOUTS", "OTHER"), "must define READOUTS"),
        (None, EXPERIMENT, "labels.toml is missing"),
        ("title = ", EXPERIMENT, "is not TOML"),
        (LABELS.replace('label = "r"', ""), EXPERIMENT, "lacks readouts.r.label"),
        (LABELS + 'format = "roman"', EXPERIMENT, "readouts.r.format is 'roman', expected one of percent"),
        (LABELS + '[readouts.s]\nlabel = "s"', EXPERIMENT, "readouts.s is not declared"),
        (LABELS.replace('["a"]', "[]"), EXPERIMENT, "no panel draws the series 'a'"),
        (LABELS.replace('["a"]', '["a", "b"]'), EXPERIMENT, "unknown series 'b'"),
        (LABELS.replace('id = "p"', ""), EXPERIMENT, "a panel lacks id"),
    ],
)
def test_a_widget_that_breaks_the_contract_is_refused_with_what_it_lacks(tmp_path, labels, experiment, message):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "experiment.py").write_text(experiment)
    if labels is not None:
        (folder / "labels.toml").write_text(labels)
    with pytest.raises(WidgetError, match=message):
        load(folder)


def test_a_widget_is_added_by_adding_a_folder(tmp_path):
    folder = tmp_path / "two_words"
    folder.mkdir()
    (folder / "experiment.py").write_text(EXPERIMENT)
    (folder / "labels.toml").write_text(LABELS)
    assert list(discover(tmp_path)) == ["two-words"]

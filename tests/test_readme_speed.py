"""The README's table of speeds says what the record that it names says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bench import report
from bench.lanes import PEERS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORK = ("sft", "sample", "grpo", "cot")


@pytest.fixture(scope="module")
def record() -> dict:
    (named,) = re.findall(r"`(bench/results/[^`]+\.json)`", README)
    return json.loads((ROOT / named).read_text(encoding="utf-8"))


def test_every_ratio_of_the_table_is_the_records(record) -> None:
    medians = {work: report.medians(record, work) for work in WORK}
    rows = dict(re.findall(r"^\| ([^|]+?) +\|((?: +×[\d.]+ \|){4})$", README, re.MULTILINE))
    titles = {record["peers"][peer.name]["title"]: peer.name for peer in PEERS}
    assert set(rows) == set(titles) - {record["peers"][report.BASE]["title"]}
    for title, cells in rows.items():
        written = [float(cell) for cell in re.findall(r"×([\d.]+)", cells)]
        measured = [medians[work][titles[title]] / medians[work][report.BASE] for work in WORK]
        assert written == [round(ratio, 2) for ratio in measured], title


def test_the_kernels_own_times_are_the_records(record) -> None:
    (cells,) = re.findall(r"^\| kernel, Chromium +\|(.+)\|$", README, re.MULTILINE)
    written = [float(number) for number in re.findall(r"[\d.]+", cells)]
    measured = [report.medians(record, work)[report.BASE] for work in WORK]
    assert written == pytest.approx([*measured[:3], measured[3] / 1000], rel=0.005)
    share = report.product_share(record["simd"])
    assert f"reach {share:.0%} of".replace("%", " %") in README.replace("\n", " ")

"""Claims about the benchmark: only a peer that computes the same model is timed, and what is missing gets no number."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from bench import lane, report
from bench.command import main
from bench.lanes import PEERS, LaneError, NativeLane, PeerInfo
from bench.material import Material, batches, disagreement, expected, growth_material, pack, packed, unpack
from bench.peers.ours import Own
from bench.workload import check, timed
from minigpt.model import ModelShape

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def material() -> Material:
    return growth_material(16, 4)


def test_the_reference_and_the_kernel_agree_with_the_judge(material):
    judged = expected(material)
    for name in ("numpy", "kernel"):
        assert disagreement(check(Own(name), material), judged, material)["agrees"], name


class Bent(Own):
    """Computes another model: what it loads is slightly off."""

    def load(self, shape, parameters):
        super().load(shape, parameters * np.float32(1.01))


class Unclipped(Own):
    """Trains otherwise: ten times as fast."""

    def step(self, tokens, weights):
        for _ in range(10):
            super().step(tokens, weights)


@pytest.mark.parametrize("peer", [Bent, Unclipped])
def test_another_model_or_another_training_is_refused(peer, material):
    found = disagreement(check(peer("numpy"), material), expected(material), material)
    assert not found["agrees"]


def test_arrays_survive_their_way_to_a_lane():
    for array in (np.arange(6, dtype=np.int32).reshape(2, 3), np.float32([0.1, np.inf])):
        back = unpack(json.loads(json.dumps(pack(array))))
        assert back.dtype == array.dtype
        assert np.array_equal(back, array)


def test_growth_keeps_the_batch_and_changes_the_width():
    grown = growth_material(32, 64)
    assert grown.shape == ModelShape(width=32, hidden=128)
    assert grown.arrays["tokens"].shape[1:] == (64, 17)
    assert np.allclose(batches(16)[1].sum(axis=(1, 2)), -1.0)


def test_a_timed_stretch_is_the_mean_of_its_turns(material):
    found = timed(Own("kernel"), material, "sft", 0.02)
    assert found["turns"] >= 1
    assert 0 < found["ms"] < 1000


def test_a_lane_answers_errors_and_goes_on(material):
    one = lane.Lane("numpy")
    assert "unknown command" in json.loads(lane.answer(one, '{"do": "dance"}'))["error"]
    assert json.loads(lane.answer(one, json.dumps({"do": "load", "material": packed(material)}))) == {}
    assert "logprobs" in json.loads(lane.answer(one, '{"do": "check"}'))


def test_a_peer_that_is_not_installed_says_so_with_the_command(monkeypatch, capsys):
    monkeypatch.setitem(lane.MODULES, "absent", ("no_such_framework", "Peer", ()))
    lane.main("absent")
    assert "no_such_framework" in json.loads(capsys.readouterr().out)["missing"]


def test_a_lane_that_cannot_start_or_dies_is_an_error_and_not_a_hang():
    with pytest.raises(LaneError, match="nobody"):
        NativeLane(PeerInfo("nobody", "Nobody", "native"))
    one = NativeLane(PeerInfo("numpy", "NumPy", "native"))
    one.process.kill()
    with pytest.raises(LaneError, match="ended with status -9"):
        one.ask(do="describe")
    one.close()


def test_the_command_gives_valid_json_of_which_the_table_is_made(capsys):
    assert main(["--quick", "--json", "--only", "work", "--peer", "kernel-native"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert re.search(r"\| kernel, native \| +[\d.]+ \|", report.text(result))
    row = result["peers"]["kernel-native"]
    assert row["check"]["agrees"]
    assert len(row["sft"]) == len(row["sample"]) == len(row["grpo"]) == result["settings"]["rounds"]
    assert result["machine"]["cores"] >= 1
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", result["commit"]["id"])


def test_every_peer_has_a_lane_and_those_of_others_a_command_to_install_them():
    for peer in PEERS:
        assert peer.own or peer.install, peer.name
        if peer.where in ("native", "pyodide"):
            name = re.sub("-(native|chromium)$", "", peer.name)
            module, kind, _ = lane.MODULES[name]
            assert f"class {kind}" in (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        else:
            assert (ROOT / "bench" / "browser" / f"{peer.where}_lane.js").is_file()


def test_both_languages_do_the_same_work():
    """The constants of the JavaScript peers are those of the Python ones."""
    from bench import material, workload
    from minigpt.task import END_TOKEN, PROMPT_LENGTH, RESPONSE_LENGTH

    script = (ROOT / "bench" / "browser" / "workload.js").read_text(encoding="utf-8")
    for name, value in {
        "RATE": material.RATE,
        "KL_SHARE": material.KL_SHARE,
        "CHECK_STEPS": material.CHECK_STEPS,
        "CLIP_NORM": material.CLIP_NORM,
        "END": END_TOKEN,
        "PROMPT_LENGTH": PROMPT_LENGTH,
    }.items():
        found = re.search(rf"const {name} = ([\d.]+);", script)
        assert found, name
        assert float(found[1]) == value, name
    adam = {name: float(value) for name, value in re.findall(r"(beta1|beta2|epsilon): ([\d.e-]+)", script)}
    assert adam == {"beta1": material.BETA1, "beta2": material.BETA2, "epsilon": material.EPSILON}
    cot = re.findall(r"(steps|evaluateEvery|samplings|directLength): (\d+)", script)
    assert {name: int(value) for name, value in cot} == {
        "steps": workload.COT_STEPS,
        "evaluateEvery": workload.COT_EVALUATE_EVERY,
        "samplings": workload.COT_SAMPLINGS,
        "directLength": RESPONSE_LENGTH["direct"],
    }


def result(**changes):
    rows = {
        "kernel-chromium": {"title": "kernel, Chromium", "ok": True, "why": "", "sft": [0.4, 0.5, 9.0]},
        "torch-eager": {"title": "PyTorch", "ok": True, "why": "", "sft": [2.0, 2.0, 2.0]},
        "jax-jit": {"title": "JAX", "ok": False, "why": "not installed: pip install it"},
    }
    empty = {"growth": [], "simd": {}, "visits": {}, "build": {}}
    base = {
        "date": "2026-01-01T00:00:00",
        "commit": {"id": "0" * 40, "changed": False},
        "machine": {"processor": "P", "cores": 2, "memory_gb": 4},
        "versions": {"Chromium": "1"},
        "settings": {"quick": False},
        "peers": rows,
    }
    return {**base, **empty, **changes}


def met(found):
    return {budget["what"]: budget["met"] for budget in report.budgets(found)}


def test_ratios_are_of_medians_to_the_kernel_in_chromium():
    text = report.text(result())
    assert re.search(r"\| PyTorch +\| +2 +×4\.00 \|", text)
    assert re.search(r"\| kernel, Chromium \| +0\.5 +×1\.00 \|", text)


def test_what_is_not_installed_has_a_reason_and_no_number():
    text = report.text(result())
    assert "- JAX: not installed: pip install it" in text
    assert re.search(r"\| JAX +\| +– \|", text)


def test_budgets_are_met_missed_or_not_measured():
    found = met(result())
    assert found["SFT step against PyTorch eager natively"] is True
    assert found["SFT step against JAX jit natively"] is None
    simd = {"peak": {"4": [10.0], "8": [20.0]}, "products": [11.0]}
    assert met(result(simd=simd))["products, of the WASM SIMD multiply-add rate"] is False
    simd["products"] = [12.0]
    assert met(result(simd=simd))["products, of the WASM SIMD multiply-add rate"] is True
    assert met(result(build={"warm_seconds": 61, "identical": True}))["build of the site, warm cache"] is False


def visits(backend):
    def one(ms):
        sent = {"runtime": 8e6, "page": 1}
        return {"stages": {"fetch": 1.0}, "click_to_point_ms": ms, "run_ms": 1500.0, "bytes": sent}

    return {
        "backend": backend,
        "visits": [{"cold": one(2900.0), "second": one(2300.0), "prefetched": one(200.0)}],
        "lesson_bytes": {"page": 150_000, "runtime": 0},
        "lesson": {"widgets": 1, "ms": 1500.0, "memory_mb": 200.0},
    }


def test_a_page_that_runs_on_numpy_is_not_measured_as_the_kernel():
    with_kernel, with_numpy = met(result(visits=visits("kernel"))), met(result(visits=visits("numpy")))
    assert with_kernel["whole `cot` in its page"] is True
    assert with_kernel["click to first point, second visit"] is False
    assert with_numpy["whole `cot` in its page"] is None
    assert with_numpy["click to first point, cold"] is None

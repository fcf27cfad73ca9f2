"""Claims about the benchmark in a real browser: its workers answer like its processes."""

import json

import pytest

from bench.command import main


@pytest.mark.browser
@pytest.mark.slow
def test_workers_in_chromium_agree_with_the_judge_or_say_what_they_lack(capsys):
    peers = ["kernel-chromium", "numpy-chromium", "tfjs-wasm", "ort-web"]
    given = [part for peer in peers for part in ("--peer", peer)]
    assert main(["--quick", "--json", "--only", "work", "--only", "simd", *given]) == 0
    result = json.loads(capsys.readouterr().out)
    for name in peers:
        row = result["peers"][name]
        if row["ok"]:
            assert row["check"]["agrees"], name
            assert len(row["sft"]) == result["settings"]["rounds"]
        else:
            assert name in ("tfjs-wasm", "ort-web"), row["why"]
            assert "install" in row["why"] or "npm ci" in row["why"]
            assert "sft" not in row
    assert max(result["simd"]["products"]) > 0

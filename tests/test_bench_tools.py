"""Claims about the benchmark's tools: the server compresses, the stages add up, the products are counted right."""

import gzip
import json
import math
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from bench.server import serving
from bench.simd import CHAIN_COUNTS, compile_wasm
from bench.visits import stages

ROOT = Path(__file__).resolve().parents[1]


def get(url, **headers):
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "index.html").write_text("<p>" + "a" * 2000)
    (tmp_path / "noise.whl").write_bytes(bytes((i * 7919 + i**3) % 251 for i in range(300)))
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "code.wasm").write_bytes(b"\0asm" + b"\1" * 999)
    return tmp_path


def test_the_server_compresses_what_gains_by_it_and_types_it_rightly(folder):
    with serving(folder) as address:
        page = get(address, **{"Accept-Encoding": "gzip"})
        assert page.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(page.read()) == (folder / "index.html").read_bytes()
        code = get(f"{address}assets/code.wasm", **{"Accept-Encoding": "gzip"})
        assert code.headers["Content-Type"] == "application/wasm"
        assert "immutable" in code.headers["Cache-Control"]
        plain = get(address)
        assert plain.headers["Content-Encoding"] is None
        assert plain.read() == (folder / "index.html").read_bytes()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"{address}absent")


def test_the_server_sends_nothing_twice_to_who_has_it(folder):
    with serving(folder) as address:
        tag = get(address).headers["ETag"]
        with pytest.raises(urllib.error.HTTPError, match="304"):
            get(address, **{"If-None-Match": tag})


def marks(*pairs, start=0):
    return [{"what": what, "stage": stage, "at": at} for what, stage, at in pairs]


def test_stages_add_up_from_the_click_to_the_first_point():
    seen = marks(
        ("stage", "fetch", 110.0),
        ("stage", "boot", 300.0),
        ("stage", "packages", 900.0),
        ("stage", "course", 1100.0),
        ("ready", None, 1250.0),
        ("progress", None, 1260.0),
        ("point", None, 1400.0),
        ("point", None, 1500.0),
    )
    found = stages(seen, 100.0)
    assert found["click_to_point_ms"] == 1300.0
    assert found["stages"] == {"fetch": 200, "boot": 600, "packages": 200, "import": 150, "first point": 150}
    assert sum(found["stages"].values()) == found["click_to_point_ms"]


def test_stages_before_the_click_do_not_count():
    seen = marks(("stage", "boot", 50.0), ("stage", "packages", 60.0), ("stage", "course", 70.0), ("ready", None, 80.0))
    found = stages([*seen, *marks(("point", None, 300.0))], 200.0)
    assert found["stages"] == {"first point": 100.0}


def test_a_visit_without_a_point_has_no_time():
    assert math.isnan(stages(marks(("ready", None, 5.0)), 1.0)["click_to_point_ms"])


def test_the_kernels_products_compile_alone_and_are_counted_right(tmp_path):
    compile_wasm(tmp_path / "simd.wasm")
    script = """
      import { readFileSync } from "node:fs";
      const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[1]));
      const names = Object.keys(instance.exports);
      console.log(JSON.stringify({ names, one: instance.exports.products(1), three: instance.exports.products(3) }));
    """
    command = ["node", "--input-type=module", "--eval", script, str(tmp_path / "simd.wasm")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert {f"peak_{count}" for count in CHAIN_COUNTS} <= set(found["names"])
    # rows · inputs · outputs of each product: forward, gradient at the input, gradient of the weights.
    D, F, V = 16, 64, 16
    layers = 0
    for followed in (32, 20):
        key_value = 32 * D * 2 * D
        others = followed * (D * D + D * D + D * F + F * D)  # query, projection, expand, contract
        layers += 3 * (key_value + others)
    assert found["one"] == 2 * (layers + 3 * 20 * D * V)
    assert found["three"] == 3 * found["one"]

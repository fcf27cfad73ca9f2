"""Claims about Catalan numbers in the page: the shared cases, and agreement with Python on numbers of any size."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from widgets._runtime.catalan import format_number

ROOT = Path(__file__).resolve().parent.parent
CASES = json.loads((ROOT / "tests/number_cases.json").read_text(encoding="utf-8"))["cases"]
ASK = """
import { readFileSync } from "node:fs";
import { formatNumber, parseNumber } from "./numbers.mjs";
const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({
  formatted: asked.formatted.map(([value, format, digits]) => formatNumber(value, format, digits ?? undefined)),
  parsed: asked.parsed.map((text) => { const value = parseNumber(text); return Number.isNaN(value) ? null : value; }),
}));
"""


@pytest.fixture(scope="module")
def page_numbers(tmp_path_factory):
    """ask(formatted=[(value, format, digits)], parsed=[text]) -> the page's answers."""
    from builder.assets import node

    folder = tmp_path_factory.mktemp("numbers")
    (folder / "ask.mjs").write_text(ASK, encoding="utf-8")
    source = ROOT / "widgets/_runtime/ui/numbers.ts"
    esbuild = shutil.which("esbuild", path=str(ROOT / "node_modules/.bin"))
    assert esbuild, "esbuild is missing: run `npm ci`"
    subprocess.run(
        [esbuild, source, "--format=esm", f"--outfile={folder / 'numbers.mjs'}", "--log-level=error"], check=True
    )

    def ask(formatted=(), parsed=()):
        request = json.dumps({"formatted": list(formatted), "parsed": list(parsed)})
        done = subprocess.run([node(), folder / "ask.mjs"], input=request, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return ask


def test_the_page_writes_the_shared_cases(page_numbers):
    assert CASES
    found = page_numbers([(case["value"], case["format"], case.get("digits")) for case in CASES])["formatted"]
    assert found == [case["expected"] for case in CASES]


def test_the_page_and_python_agree_on_numbers_of_any_size(page_numbers):
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    asked = []
    for _ in range(4000):
        size = 10 ** draw.uniform(-8, 11)
        value = draw.choice(
            [size, -size, round(size, 2), draw.random(), draw.randrange(201) / 200, draw.randrange(16) / 8]
        )
        format = draw.choice(["percent", "percent-value", "integer", "number", "signed", "scientific"])
        asked.append((value, format, draw.choice([None, None, 0, 1, 2, 3])))
    found = page_numbers(asked)["formatted"]
    expected = [format_number(*case) for case in asked]
    wrong = [(*case, page, python) for case, page, python in zip(asked, found, expected, strict=True) if page != python]
    assert not wrong, f"seed {seed}: {wrong[:5]}"


def test_what_a_reader_types_is_read(page_numbers):
    texts = [
        "9",
        " 9 ",
        "2,5",
        "2.5",
        "1.500",
        "1.234,5",
        "30 %",
        "−3",
        "4.294.967.295",
        "",
        "abc",
        "1e3",
        "0x10",
        "1,2,3",
    ]
    values = [9, 9, 2.5, 2.5, 1500, 1234.5, 30, -3, 4294967295, None, None, None, None, None]
    assert page_numbers(parsed=texts)["parsed"] == values

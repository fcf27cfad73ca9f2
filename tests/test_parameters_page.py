"""Claims about the page's parameters, links and history that need no browser: their modules run in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ASK = """
import { readFileSync } from "node:fs";
import { checkValue } from "UI/parameters.ts";
import { parseNumber } from "UI/numbers.ts";
import { readLink, writeLink } from "UI/link.ts";
import { History } from "UI/history.ts";
const widget = {
  parameters: [
    { name: "beta", kind: "number", default: 0.04, minimum: 0, maximum: 0.2, step: 0.005, rereads: false },
    { name: "steps", kind: "integer", default: 1500, minimum: 0, maximum: 9000, step: 1, rereads: false },
  ],
  labels: { parameters: { beta: { label: "β" }, steps: { label: "Passos" } } },
};
const [beta, steps] = widget.parameters;
const told = (checked) => (checked.ok ? checked.value : checked.message);
const history = (former, run) => {
  const past = new History(widget);
  past.add({ id: "a", backend: "kernel", digest: "d", params: {}, ...former });
  return past.twin({ id: "b", backend: "kernel", digest: "d", params: {}, ...run }) !== undefined;
};
const answers = {
  machine: (text) => told(checkValue(beta, { label: "β" }, text)),
  whole: (text) => told(checkValue(steps, { label: "Passos" }, text)),
  typed: (text) => told(checkValue(steps, { label: "Passos" }, text, parseNumber)),
  link: (search) => readLink(search, widget),
  round: (values) => readLink(new URL(writeLink("http://localhost/", "x", values, "x")).search, widget).values,
  twin: ([former, run]) => history(former, run),
};
const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map(([name, given]) => answers[name](given))));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """page([(question, argument), …]) -> answers; the questions are the keys of `answers` above."""
    from builder.assets import node

    folder = tmp_path_factory.mktemp("parameters")
    source = folder / "ask.ts"
    source.write_text(ASK.replace("UI/", f"{(ROOT / 'widgets/_runtime/ui').as_posix()}/"), encoding="utf-8")
    esbuild = shutil.which("esbuild", path=str(ROOT / "node_modules/.bin"))
    assert esbuild, "esbuild is missing: run `npm ci`"
    command = [esbuild, source, "--bundle", "--platform=node", "--format=esm", "--charset=utf8", "--log-level=error"]
    subprocess.run([*command, f"--outfile={folder / 'ask.mjs'}"], check=True)

    def ask(questions):
        request = json.dumps(list(questions))
        command = [node(), folder / "ask.mjs"]
        done = subprocess.run(command, input=request, capture_output=True, encoding="utf-8", check=True)
        return json.loads(done.stdout)

    return ask


def test_a_machine_s_point_is_decimal_wherever_it_stands(page):
    texts = ["0.02", "0.125", "0.2", "5e-3", ".1", "0", " 0.15 "]
    assert page(("machine", text) for text in texts) == [0.02, 0.125, 0.2, 0.005, 0.1, 0, 0.15]
    assert page([("whole", "1500"), ("whole", "0.125"), ("link", "?w=x&beta=0.125")])[::2] == [
        1500,
        {"values": {"beta": 0.125}, "problems": []},
    ]


def test_a_link_written_by_hand_may_have_a_comma_and_a_typed_number_thousands_points(page):
    assert page([("machine", "0,125"), ("typed", "1.500"), ("typed", "1500")]) == [0.125, 1500, 1500]


def test_what_is_no_finite_number_within_its_bounds_is_refused_with_what_was_written(page):
    texts = ["", "abc", "Infinity", "NaN", "1e999", "0x0", "0.3", "-0.01", "0.1.2", "0.0021"]
    for text, answer in zip(texts, page(("machine", text) for text in texts), strict=True):
        assert isinstance(answer, str), text
        assert f"«{text}»" in answer, answer


def test_a_link_brings_back_the_very_values_it_was_written_from(page):
    values = [{"beta": step * 0.005, "steps": 1000 + step} for step in range(41)]
    assert page(("round", value) for value in values) == values


def test_only_a_run_of_the_same_recipe_owes_the_same_bits(page):
    same, other, unknown = {"recipe": "r1"}, {"recipe": "r2"}, {}
    pairs = [(same, same), (unknown, unknown), (same, other), (unknown, same)]
    assert page(("twin", pair) for pair in pairs) == [True, True, False, False]
    assert page([("twin", ({"params": {"beta": 0.1}}, {"params": {"beta": 0.2}}))]) == [False]

"""Claims about Catalan numbers in Python; the page's side is held to the same cases by its own test."""

import json
from pathlib import Path

import numpy as np
import pytest

from widgets._runtime.catalan import fill, format_number

CASES = json.loads((Path(__file__).parent / "number_cases.json").read_text(encoding="utf-8"))["cases"]


def test_there_are_cases():
    assert len(CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['value']}-{case['format']}-{case.get('digits')}")
def test_numbers_read_as_catalan_writes_them(case):
    assert format_number(case["value"], case["format"], case.get("digits")) == case["expected"]


def test_numpy_numbers_read_like_pythons():
    assert format_number(np.int64(1500), "integer") == "1.500"
    assert format_number(np.float32(0.5), "percent") == "50\u00a0%"


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="unknown number format 'roman'"):
        format_number(1, "roman")


def test_templates_are_filled_with_catalan_numbers():
    assert fill("{cot-500:percent} de {k:integer}", {"cot-500": 0.605, "k": 1500}) == "60,5\u00a0% de 1.500"
    with pytest.raises(KeyError, match=r"asks for \{absent\}"):
        fill("{absent:percent}", {"k": 1})

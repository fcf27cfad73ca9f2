"""The numbers that the lessons work out in front of the reader are what the course's own code computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minigpt.task import parse_answer
from minigpt.voting import binomial_majority, plurality

LESSON = (Path(__file__).resolve().parents[1] / "content" / "raonament.md").read_text(encoding="utf-8")


def number(catalan: str) -> float:
    return float(catalan.replace(".", "").replace(",", "."))


def only(pattern: str) -> re.Match[str]:
    """The one place of the lesson that matches; it was reworded if there is none."""
    found = list(re.finditer(pattern, LESSON))
    assert len(found) == 1, f"expected {pattern!r} once in content/raonament.md, found it {len(found)} times"
    return found[0]


def test_binomial_majority_of_the_example() -> None:
    k, p, share = only(r"\$f_(\d+)\((\d,\d)\) = (\d,\d{3})\$").groups()
    assert round(binomial_majority(int(k), number(p)), 3) == number(share)
    in_words = only(r"la majoria de nou cadenes encerta unes (\d+) vegades de cada 100")
    assert round(100 * binomial_majority(9, 0.6)) == int(in_words[1])


def test_two_piles_of_sums_make_the_vote_worse_than_one_chain() -> None:
    easy, hard, total = only(
        r"\\tfrac\{1\}\{2\} \\cdot (\d) \+ \\tfrac\{1\}\{2\} \\cdot (\d,\d{3}) = (\d,\d{3})"
    ).groups()
    assert binomial_majority(9, 1.0) == number(easy)
    assert round(binomial_majority(9, 0.2), 3) == number(hard)
    mixed = (binomial_majority(9, 1.0) + binomial_majority(9, 0.2)) / 2
    assert round(mixed, 3) == number(total)
    assert mixed < (1.0 + 0.2) / 2
    in_words = only(r"En total encertes (\d+) vegades de cada 100")
    assert round(100 * mixed) == int(in_words[1])


def test_the_seven_votes_of_the_example_have_a_plurality_and_no_majority() -> None:
    votes = [int(vote) for vote in only(r"```text\n((?:\d+ +){6}\d+)\n```")[1].split()]
    assert plurality(votes) == 74 + 46
    assert votes.count(120) == 3 < len(votes) / 2
    quiz = [int(vote) for vote in re.findall(r"\d+", only(r"Set cadenes responen ([^?]*)\. Què")[1])]
    assert len(quiz) == 7
    assert plurality(quiz) == 58
    assert quiz.count(58) == 3


def test_sampling_every_character_costs_what_the_lesson_says() -> None:
    per_character, of_ten = only(
        r"surt bé (\d+) vegades de cada 100, una resposta de deu caràcters "
        r"surt sencera poc més de (\d) vegades de cada 10"
    ).groups()
    share = (int(per_character) / 100) ** len("10,12:120.")
    assert int(of_ten) / 10 < share < (int(of_ten) + 0.5) / 10


@pytest.mark.parametrize(("first", "second", "written"), [(74, 46, "10,12:120."), (12, 34, "06,04:46.")])
def test_the_written_columns_are_the_right_ones(first: int, second: int, written: str) -> None:
    assert f"`{written}`" in LESSON
    units = first % 10 + second % 10
    tens = first // 10 + second // 10 + units // 10
    assert written == f"{units:02d},{tens:02d}:{first + second}."
    assert parse_answer(written, "reasoned") == first + second

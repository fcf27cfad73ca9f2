"""The task: additions of two two-digit numbers, as characters.

Every accuracy of the course is measured on the 200 held-out sums, which no training ever sees.

Alphabet of shapes, used in the whole package: B sequences, T positions, D width, H heads, V vocabulary.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from minigpt.streams import stream

VOCABULARY = "0123456789^+=,:."
START, END = "^", "."
TOKEN_OF = {character: token for token, character in enumerate(VOCABULARY)}
START_TOKEN, END_TOKEN = TOKEN_OF[START], TOKEN_OF[END]

SMALLEST, LARGEST = 10, 99
"""Both terms of a sum lie in this closed range."""

HELD_OUT_COUNT = 200
PROMPT_LENGTH = len("^74+46=")
FORMATS = ("direct", "reasoned", "decorative")
RESPONSE_LENGTH = {"direct": len("120."), "reasoned": len("10,12:120."), "decorative": len("07,31:120.")}
"""Characters of the longest right response of each format, the full stop included."""


class Sum(NamedTuple):
    """One question: first + second."""

    first: int
    second: int

    @property
    def total(self) -> int:
        return self.first + self.second


def check_sum(first: int, second: int) -> Sum:
    """Return the sum, or raise ValueError if a term is not a whole number from 10 to 99."""
    for term in (first, second):
        if isinstance(term, bool) or not isinstance(term, int | np.integer) or not SMALLEST <= term <= LARGEST:
            raise ValueError(
                f"a term must be a whole number from {SMALLEST} to {LARGEST}, got {term!r}: the model has only"
                " ever seen two-digit terms"
            )
    return Sum(int(first), int(second))


def encode(text: str) -> list[int]:
    """Tokens of a text, one per character. Raises ValueError for a character outside the vocabulary."""
    try:
        return [TOKEN_OF[character] for character in text]
    except KeyError as error:
        raise ValueError(
            f"{error.args[0]!r} in {text!r} is not one of the {len(VOCABULARY)} characters {VOCABULARY!r}"
        ) from None


def decode_text(tokens) -> str:
    """Text of a sequence of tokens. Raises ValueError for a token outside 0 … V−1."""
    characters = []
    for token in tokens:
        if not 0 <= token < len(VOCABULARY):
            raise ValueError(f"a token must lie in 0 … {len(VOCABULARY) - 1}, got {token}")
        characters.append(VOCABULARY[token])
    return "".join(characters)


def prompt(question: Sum) -> str:
    return f"{START}{question.first}+{question.second}="


def columns(question: Sum) -> tuple[int, int]:
    """The written working: the units' sum, and the tens' sum with the carry."""
    units = question.first % 10 + question.second % 10
    tens = question.first // 10 + question.second // 10 + units // 10
    return units, tens


def trace_text(units: int, tens: int) -> str:
    return f"{units:02d},{tens:02d}"


def response(question: Sum, format: str, digits=None) -> str:
    """The response that training shows for a question, such as `10,12:120.` for 74+46.

    format: "direct", "reasoned" or "decorative"; the last needs four digits (0–9) that stand where the working would.
    """
    answer = f"{question.total}{END}"
    if format == "direct":
        return answer
    if format == "reasoned":
        return f"{trace_text(*columns(question))}:{answer}"
    if format == "decorative":
        if digits is None or len(digits) != 4:
            raise ValueError(f"a decorative response needs four digits, got {digits!r}")
        a, b, c, d = digits
        return f"{a}{b},{c}{d}:{answer}"
    raise ValueError(f"unknown format {format!r}: expected one of {', '.join(FORMATS)}")


def parse_answer(text: str, format: str) -> int | None:
    """The answer that a response gives, or None if it is malformed.

    Well formed is: ends in its only full stop; exactly one `:` for the formats with a trace, none for the direct one;
    the answer (after the `:`) is made of digits, without leading zeros. What the trace says is not looked at.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: expected one of {', '.join(FORMATS)}")
    if not text.endswith(END):
        return None
    body = text[: -len(END)]
    if body.count(":") != (0 if format == "direct" else 1):
        return None
    answer = body.rpartition(":")[2]
    if not answer or any(character not in "0123456789" for character in answer):
        return None
    if len(answer) > 1 and answer[0] == "0":
        return None
    return int(answer)


def verify(text: str, question: Sum, format: str) -> bool:
    """True if the response is well formed and its answer is the sum. Malformed is wrong, never an exception."""
    return parse_answer(text, format) == question.total


@cache
def all_sums() -> tuple[Sum, ...]:
    terms = range(SMALLEST, LARGEST + 1)
    return tuple(Sum(first, second) for first in terms for second in terms)


@cache
def split() -> tuple[tuple[Sum, ...], tuple[Sum, ...]]:
    """(7,900 training sums, 200 held-out sums): fixed, whatever the seed of a run."""
    sums = all_sums()
    order = stream(0, "held-out-split").permutation(len(sums))
    held_out = tuple(sums[index] for index in order[:HELD_OUT_COUNT])
    training = tuple(sums[index] for index in np.sort(order[HELD_OUT_COUNT:], kind="stable"))
    return training, held_out


@cache
def token_table(format: str) -> np.ndarray:
    """(7900, P + R) int32: prompt and response of every training sum, short responses padded with the end token.

    The row of the decorative format has zeros as its digits: training overwrites them at every use.
    """
    first, second = np.array(split()[0], dtype=np.int32).T
    total, zeros = first + second, np.zeros_like(first)
    units = first % 10 + second % 10 if format == "reasoned" else zeros
    tens = first // 10 + second // 10 + units // 10 if format == "reasoned" else zeros

    def two_digits(values: np.ndarray) -> list[np.ndarray]:
        return [values // 10 + TOKEN_OF["0"], values % 10 + TOKEN_OF["0"]]

    def sign(character: str) -> np.ndarray:
        return np.full_like(first, TOKEN_OF[character])

    # By columns of characters: written row by row with `response`, the tables of `cot` take a page 0.15 s longer.
    question = [sign(START), *two_digits(first), sign("+"), *two_digits(second), sign("=")]
    trace = [] if format == "direct" else [*two_digits(units), sign(","), *two_digits(tens), sign(":")]
    short = [*two_digits(total), sign(END), sign(END)]
    long = [total // 100 + TOKEN_OF["0"], *two_digits(total % 100), sign(END)]
    answer = [np.where(total < 100, *either) for either in zip(short, long, strict=True)]
    table = np.stack([*question, *trace, *answer], axis=1)
    table.flags.writeable = False
    return table


def prompts(questions) -> np.ndarray:
    """(B, P) int32: the prompts of some sums."""
    return np.array([encode(prompt(question)) for question in questions], dtype=np.int32).reshape(-1, PROMPT_LENGTH)


def response_mask(tokens: np.ndarray) -> np.ndarray:
    """(B, R) responses → (B, R) bool: true up to and including the first full stop, false on the padding after it."""
    ended = np.cumsum(tokens == END_TOKEN, axis=1, dtype=np.int32)
    return (ended == 0) | ((ended == 1) & (tokens == END_TOKEN))


def response_texts(tokens: np.ndarray) -> list[str]:
    """(B, R) responses → their texts, cut after the first full stop."""
    mask = response_mask(tokens)
    return [decode_text(row[keep]) for row, keep in zip(tokens, mask, strict=True)]

"""Claims about the task: tokeniser, formats, split and verifier."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigpt import task

terms = st.integers(task.SMALLEST, task.LARGEST)
sums = st.builds(task.Sum, terms, terms)
digits = st.lists(st.integers(0, 9), min_size=4, max_size=4)
texts = st.text(alphabet=task.VOCABULARY, max_size=18)


def test_the_examples_of_the_course_hold():
    assert task.prompt(task.Sum(74, 46)) == "^74+46="
    assert task.response(task.Sum(74, 46), "direct") == "120."
    assert task.response(task.Sum(74, 46), "reasoned") == "10,12:120."
    assert task.response(task.Sum(12, 34), "reasoned") == "06,04:46."
    assert task.response(task.Sum(12, 34), "decorative", digits=(3, 0, 9, 9)) == "30,99:46."


@given(texts)
def test_encoding_and_decoding_are_inverse(text):
    assert task.decode_text(task.encode(text)) == text


@given(st.text(min_size=1).filter(lambda text: set(text) - set(task.VOCABULARY)))
def test_a_character_outside_the_vocabulary_is_named(text):
    with pytest.raises(ValueError, match="not one of the 16 characters"):
        task.encode(text)


def test_a_token_outside_the_vocabulary_is_refused():
    for token in (-1, 16):
        with pytest.raises(ValueError, match="token must lie in"):
            task.decode_text([token])


@given(sums, digits)
def test_every_right_response_is_verified_in_its_own_format(question, four):
    for format in task.FORMATS:
        assert task.verify(task.response(question, format, digits=four), question, format)


@given(sums, st.integers(0, 999))
def test_another_answer_is_wrong(question, answer):
    for format, head in (("direct", ""), ("reasoned", "10,12:"), ("decorative", "99,99:")):
        assert task.verify(f"{head}{answer}.", question, format) == (answer == question.total)


@given(sums, texts, st.sampled_from(task.FORMATS))
def test_any_text_gets_a_verdict_and_never_an_exception(question, text, format):
    verdict = task.verify(text, question, format)
    assert verdict in (True, False)
    if verdict:
        assert text.endswith(f"{question.total}.")


@given(sums, st.text(alphabet="0123456789,+=^", max_size=7))
def test_what_the_trace_says_is_not_checked(question, trace):
    assert task.verify(f"{trace}:{question.total}.", question, "reasoned")


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("120", "direct"),  # no full stop
        ("0120.", "direct"),  # leading zero
        ("120..", "direct"),  # two full stops
        (":120.", "direct"),  # a colon where there is no trace
        ("120.", "reasoned"),  # no colon
        ("10:12:120.", "reasoned"),  # two colons
        ("10,12:.", "reasoned"),  # no answer
        ("10,12:+120.", "reasoned"),  # a sign
        ("10,12:1.20.", "reasoned"),  # a full stop in the answer
        ("", "direct"),
        (".", "direct"),
    ],
)
def test_malformed_responses_are_wrong(text, format):
    assert not task.verify(text, task.Sum(74, 46), format)


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="unknown format 'verse'"):
        task.parse_answer("1.", "verse")
    with pytest.raises(ValueError, match="unknown format 'verse'"):
        task.response(task.Sum(10, 10), "verse")
    with pytest.raises(ValueError, match="four digits"):
        task.response(task.Sum(10, 10), "decorative")


@pytest.mark.parametrize("term", [9, 100, -74, 74.0, "74", True])
def test_a_term_outside_10_to_99_is_refused(term):
    with pytest.raises(ValueError, match="whole number from 10 to 99"):
        task.check_sum(term, 46)


def test_the_split_is_a_fixed_partition_with_200_held_out():
    training, held_out = task.split()
    assert len(held_out) == 200
    assert len(training) == 7900
    assert set(training).isdisjoint(held_out)
    assert set(training) | set(held_out) == set(task.all_sums())
    assert held_out[:3] == (task.Sum(77, 87), task.Sum(28, 87), task.Sum(32, 39))


def test_no_held_out_sum_is_in_a_training_table():
    held_out = {task.prompt(question) for question in task.split()[1]}
    for format in task.FORMATS:
        table = task.token_table(format)
        assert table.shape == (7900, task.PROMPT_LENGTH + task.RESPONSE_LENGTH[format])
        shown = {task.decode_text(row[: task.PROMPT_LENGTH]) for row in table}
        assert len(shown) == 7900
        assert not shown & held_out


def test_the_training_tables_are_what_the_prompts_and_responses_say():
    for format in task.FORMATS:
        table, length = task.token_table(format), task.PROMPT_LENGTH + task.RESPONSE_LENGTH[format]
        assert table.dtype == np.int32
        for question, row in zip(task.split()[0], table, strict=True):
            written = task.prompt(question) + task.response(question, format, digits=(0, 0, 0, 0))
            assert task.decode_text(row) == written.ljust(length, task.END)


@given(st.lists(texts, min_size=1, max_size=5))
def test_a_response_ends_with_its_first_full_stop(rows):
    tokens = np.array([task.encode(row.ljust(18, "7")) for row in rows], dtype=np.int32)
    for row, text in zip(rows, task.response_texts(tokens), strict=True):
        whole = row.ljust(18, "7")
        head, stop, _ = whole.partition(".")
        assert text == head + stop

"""More attempts: the unbiased estimator, and a verifier that errs."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigpt.attempts import Verifier, best_of_n, chosen_right, pass_at_k, power

TYPICAL = Verifier(0.9, 0.1, 0.05)


def test_pass_at_k_of_the_recorded_case_and_its_biased_cousin():
    assert pass_at_k(5, 2, 3) == pytest.approx(0.9)
    assert best_of_n(2 / 5, 3) == pytest.approx(0.784)


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_ratio_of_binomials(case):
    n, c, k = case
    assert pass_at_k(n, c, k) == pytest.approx(1 - comb(n - c, k) / comb(n, k))


def test_a_verifier_that_errs_helps_at_four_attempts_and_ruins_at_thousands():
    assert chosen_right(0.6, 1, TYPICAL) == pytest.approx(0.6)
    assert chosen_right(0.6, 4, TYPICAL) == pytest.approx(0.902178, abs=1e-6)
    assert chosen_right(0.6, 4096, TYPICAL) == pytest.approx(0.000257, abs=1e-6)


@given(st.floats(0, 1), st.integers(1, 64))
def test_a_perfect_verifier_is_best_of_n(p, n):
    assert chosen_right(p, n, Verifier(1.0, 0.0, 0.0)) == pytest.approx(best_of_n(p, n), abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_with_one_attempt_nobody_chooses(p, accepts_right, accepts_wrong, fooled):
    assert chosen_right(p, 1, Verifier(accepts_right, accepts_wrong, fooled)) == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize(
    "shares", [(0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 1.0, 0.0), (0.9, 0.1, 0.05), (0.5, 0.5, 0.5)]
)
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_the_formula_agrees_with_choosing_many_times(shares, p):
    verifier, n, turns = Verifier(*shares), 5, 40_000
    draw = np.random.Generator(np.random.PCG64(7))
    right = draw.random((turns, n)) < p
    accepted = draw.random((turns, n)) < np.where(right, verifier.accepts_right, verifier.accepts_wrong)
    fooling = accepted & ~right & (draw.random((turns, n)) < verifier.fooled)
    level = np.where(fooling, 2, np.where(accepted, 1, 0)) + draw.random((turns, n)) / 2
    measured = np.take_along_axis(right, level.argmax(axis=1)[:, None], axis=1).mean()
    assert chosen_right(p, n, verifier) == pytest.approx(measured, abs=4 * 0.5 / np.sqrt(turns))


@given(st.floats(0, 1), st.integers(0, 5000))
def test_powers_are_powers(base, exponent):
    assert power(base, exponent) == pytest.approx(base**exponent, rel=1e-9, abs=1e-300)


def test_impossible_attempts_are_refused():
    with pytest.raises(ValueError, match="1 ≤ k ≤ attempts"):
        pass_at_k(5, 2, 6)
    with pytest.raises(ValueError, match="at least one attempt"):
        chosen_right(0.5, 0, TYPICAL)
    with pytest.raises(ValueError, match="shares"):
        chosen_right(0.5, 2, Verifier(1.1, 0.0, 0.0))
    with pytest.raises(ValueError, match="at least 0"):
        power(0.5, -1)

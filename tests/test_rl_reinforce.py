"""The variance of REINFORCE, exact and sampled."""

from __future__ import annotations

from itertools import product

import pytest

from minigpt.rl.reinforce import estimator_variance, sampled_variance, step_variance


def test_twenty_decisions_have_the_recorded_variances():
    assert estimator_variance(20, 0.6) == pytest.approx(1.104)
    assert step_variance(0.6) == pytest.approx(0.0096)
    assert estimator_variance(20, 0.6, baseline=0.0) == pytest.approx(34.512)
    best = 19 * 0.6 + 0.4
    assert estimator_variance(20, 0.6, baseline=best) == pytest.approx(1.0944)
    assert estimator_variance(20, 0.6, best) < min(estimator_variance(20, 0.6, best + d) for d in (-0.1, 0.1))


def test_fifty_decisions_are_295_times_as_noisy_as_a_reward_per_step():
    assert round(estimator_variance(50, 0.6) / step_variance(0.6)) == 295


@pytest.mark.parametrize("decisions", [1, 2, 5, 9])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.6])
@pytest.mark.parametrize("baseline", [None, 0.0, 1.7])
def test_the_formula_is_what_enumerating_every_chain_gives(decisions, p, baseline):
    b = decisions * p if baseline is None else baseline
    mean = square = 0.0
    for chain in product((0, 1), repeat=decisions):
        weight = p ** sum(chain) * (1 - p) ** (decisions - sum(chain))
        estimate = (sum(chain) - b) * (chain[0] - p)
        mean, square = mean + weight * estimate, square + weight * estimate**2
    assert mean == pytest.approx(p * (1 - p))
    assert estimator_variance(decisions, p, baseline) == pytest.approx(square - mean**2)


@pytest.mark.parametrize("decisions", [1, 5, 20, 50])
def test_twenty_thousand_chains_agree_with_the_formula(decisions):
    sampled = sampled_variance(1, decisions, 0.6)
    assert abs(sampled.variance - estimator_variance(decisions, 0.6)) < 3 * sampled.standard_error
    assert sampled == sampled_variance(1, decisions, 0.6)


def test_no_decision_at_all_is_refused():
    with pytest.raises(ValueError, match="at least one decision"):
        estimator_variance(0, 0.5)
    with pytest.raises(ValueError, match="at least one decision"):
        sampled_variance(1, 3, 1.5)

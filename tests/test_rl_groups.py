"""Advantages inside a group, and groups that have none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from minigpt.rl.advantages import group_advantages, has_signal, leave_one_out
from minigpt.rl.groups import least_group, share_without_signal, simulate_groups

HALF_RIGHT = np.array([[0, 0, 1, 1, 1, 0, 1, 0]], dtype=float)
ONE_RIGHT = np.array([[1, 0, 0, 0, 0, 0, 0, 0]], dtype=float)
REWARDS = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(2, 9)), elements=st.floats(-10, 10, width=32))


def test_half_right_gives_plus_and_minus_one():
    expected = np.where(HALF_RIGHT == 1, 1.0, -1.0)
    np.testing.assert_allclose(group_advantages(HALF_RIGHT), expected, atol=3e-6)
    np.testing.assert_array_equal(group_advantages(HALF_RIGHT, scale="none"), expected / 2)
    np.testing.assert_allclose(leave_one_out(HALF_RIGHT), expected * 0.571429, atol=1e-6)


def test_a_lone_right_answer_is_pushed_up_seven_times_as_far_as_each_wrong_one_down():
    np.testing.assert_allclose(group_advantages(ONE_RIGHT)[0, :2], [2.645751, -0.377964], atol=1e-5)
    np.testing.assert_allclose(leave_one_out(ONE_RIGHT)[0, :2], [1.0, -0.142857], atol=1e-6)
    np.testing.assert_allclose(group_advantages(ONE_RIGHT, scale="none")[0, :2], [0.875, -0.125])


@given(REWARDS)
def test_advantages_of_a_group_sum_to_zero(rewards):
    for found in (group_advantages(rewards), group_advantages(rewards, scale="none"), leave_one_out(rewards)):
        np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-6)


@given(st.floats(-1e6, 1e6), st.integers(2, 32))
def test_a_group_without_spread_has_exactly_no_advantage(reward, group):
    rewards = np.full((1, group), reward)
    assert not has_signal(rewards).any()
    for found in (group_advantages(rewards), group_advantages(rewards, scale="none"), leave_one_out(rewards)):
        assert (found == 0.0).all()


@given(REWARDS)
def test_leaving_oneself_out_is_the_mean_of_the_others(rewards):
    G = rewards.shape[1]
    others = (rewards.sum(axis=1, keepdims=True) - rewards) / (G - 1)
    np.testing.assert_allclose(leave_one_out(rewards), rewards - others, atol=1e-6)


def test_rewards_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match="nobody to be compared with"):
        group_advantages(np.ones((3, 1)))
    with pytest.raises(ValueError, match="finite"):
        has_signal(np.array([[0.0, np.nan]]))
    with pytest.raises(ValueError, match="unknown scale"):
        group_advantages(HALF_RIGHT, scale="variance")


def test_at_30_per_cent_a_group_of_8_lacks_signal_in_5_77_per_cent_and_7_is_the_least_below_ten():
    assert round(100 * share_without_signal(0.3, 8), 2) == 5.77
    assert least_group(0.3) == 7
    assert share_without_signal(0.3, 6) >= 0.1 > share_without_signal(0.3, 7)


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.99])
@pytest.mark.parametrize("group", [2, 8, 32])
def test_twenty_thousand_simulated_groups_agree_with_the_formula(p, group):
    simulation = simulate_groups(1, p, group)
    assert abs(simulation.standard_errors) < 3
    assert simulation == simulate_groups(1, p, group)
    expected = share_without_signal(p, group)
    assert abs(simulation.share - expected) <= 3 * np.sqrt(expected * (1 - expected) / 20_000)


def test_certain_answers_never_have_signal_and_no_group_would_do():
    assert share_without_signal(1.0, 8) == share_without_signal(0.0, 8) == 1.0
    assert simulate_groups(1, 1.0, 8) == (1.0, 0.0)
    for p in (0.0, 1.0):
        with pytest.raises(ValueError, match="no group would do"):
            least_group(p)
    with pytest.raises(ValueError, match="at least 2"):
        share_without_signal(0.5, 1)

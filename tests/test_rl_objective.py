"""Clip, KL estimators and aggregation: values and slopes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minigpt.rl.objective import (
    clipped_surrogate,
    is_clipped,
    kl_estimates,
    kl_slopes,
    surrogate_slope,
    token_weights,
)

LENGTHS_2_AND_4 = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], dtype=bool)
SIGNS = np.array([[1.0], [-1.0]])
P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])


def test_clip_kills_gradient_only_beyond_the_bound_that_the_advantage_pushes_to():
    ratio = np.array([0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 3.0])
    np.testing.assert_array_equal(surrogate_slope(ratio, 1.0, 0.2), [0.5, 0.79, 0.81, 1.0, 1.19, 0, 0])
    np.testing.assert_array_equal(surrogate_slope(ratio, -1.0, 0.2), [0, 0, -0.81, -1.0, -1.19, -1.21, -3.0])
    assert not is_clipped(ratio, 0.0, 0.2).any()


@given(st.floats(0.05, 5), st.floats(-3, 3), st.floats(0.05, 0.5))
def test_the_slope_is_that_of_the_surrogate_in_the_log_probability(ratio, advantage, epsilon):
    assume(min(abs(ratio - 1 - epsilon), abs(ratio - 1 + epsilon)) > 1e-3)
    step = 1e-6
    up, down = (clipped_surrogate(np.array(ratio * np.exp(s)), advantage, epsilon) for s in (step, -step))
    assert surrogate_slope(np.array(ratio), advantage, epsilon) == pytest.approx((up - down) / (2 * step), abs=1e-5)


def test_k1_and_k3_average_to_the_divergence_and_k2_does_not():
    ratio = Q / P
    found = {name: float((P * k).sum()) for name, k in kl_estimates(np.log(ratio), ratio).items()}
    assert found["k1"] == pytest.approx(0.0252672, abs=1e-7)
    assert found["k3"] == pytest.approx(0.0252672, abs=1e-7)
    assert found["k2"] == pytest.approx(0.0248624, abs=1e-7)


def test_in_the_loss_only_k2_gives_the_true_gradient_and_k1_gives_none():
    ratio = Q / P
    slopes = kl_slopes(np.log(ratio), ratio)
    scores = np.eye(3) - P  # d log p(token) / d logits, a row per token
    gradient = {name: (P * slope) @ scores for name, slope in slopes.items()}
    np.testing.assert_allclose(gradient["k2"], [0.098938, -0.093885, -0.005053], atol=1e-6)
    np.testing.assert_allclose(gradient["k3"], P - Q, atol=1e-12)
    np.testing.assert_allclose(gradient["k1"], 0.0, atol=1e-12)


@given(st.floats(-3, 3))
def test_the_slopes_of_the_estimators_are_their_derivatives(log_ratio):
    step = 1e-6  # the policy's log-probability up is the log-ratio to the reference down
    up, down = (kl_estimates(np.array(log_ratio - s), np.exp(log_ratio - s)) for s in (step, -step))
    for name, slope in kl_slopes(np.array(log_ratio), np.exp(log_ratio)).items():
        assert slope == pytest.approx((up[name] - down[name]) / (2 * step), abs=1e-4)


@pytest.mark.parametrize(
    ("aggregation", "loss", "slopes"),
    [("grpo", 0.0, (-0.25, 0.125)), ("dapo", 1 / 3, (-1 / 6, 1 / 6)), ("dr_grpo", 0.25, (-0.125, 0.125))],
)
def test_the_three_aggregations_give_the_recorded_loss_and_token_gradients(aggregation, loss, slopes):
    weights = token_weights(LENGTHS_2_AND_4, aggregation, longest=4)
    assert -(weights * SIGNS).sum() == pytest.approx(loss)
    gradient = -weights * surrogate_slope(np.ones((2, 4)), SIGNS, 0.2)
    np.testing.assert_allclose(gradient[:, 0], slopes)
    assert (gradient[0, 2:] == 0).all()


def test_a_long_wrong_answer_is_punished_less_per_token_except_under_dr_grpo():
    mask = np.arange(20) < np.array([[5], [20]])
    per_answer = -2 * token_weights(mask, "grpo")[:, 0]  # of each answer's own mean, before that over the two answers
    np.testing.assert_allclose(per_answer, [-0.2, -0.05])
    assert len(set(token_weights(mask, "dr_grpo", longest=20)[:, 0])) == 1


def test_what_cannot_be_aggregated_or_clipped_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        token_weights(np.zeros((2, 3), dtype=bool), "grpo")
    with pytest.raises(ValueError, match="needs `longest`, at least 4"):
        token_weights(LENGTHS_2_AND_4, "dr_grpo", longest=3)
    with pytest.raises(ValueError, match="unknown aggregation"):
        token_weights(LENGTHS_2_AND_4, "mean")
    with pytest.raises(ValueError, match="epsilon"):
        clipped_surrogate(np.ones(1), np.ones(1), 1.0)

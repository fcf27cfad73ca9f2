"""How noisy REINFORCE is: the variance of one decision's gradient estimate among T decisions.

Each decision is a Bernoulli draw a with probability p, its score with respect to its logit is a − p, and the reward
adds the draws up. An estimate is (R − b)·(a − p). Source: Williams 1992; `estimator_variance` derives the closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigpt.streams import uniforms

SAMPLED_CHAINS = 20_000


class SampledVariance(NamedTuple):
    """Sample variance of the estimates, and its own standard error."""

    variance: float
    standard_error: float


def estimator_variance(decisions: int, p: float, baseline: float | None = None) -> float:
    """Variance of (R − b)·(a − p), exactly, for a reward R = Σa that comes at the end.

    decisions: T ≥ 1. baseline: b; None is the mean reward, T·p. With T = 1 and b = p it is the variance of a reward per
    step: the other decisions are then no part of it. The mean of the estimates is p(1−p) whatever the baseline.

    Given a, R is a plus the others' sum, of mean m = (T−1)p and variance v = (T−1)p(1−p), so E[(R − b)²·(a − p)²] is
    p(1−p)²·((1 + m − b)² + v) + (1−p)p²·((m − b)² + v). With b = T·p the variance is (T−1)p²(1−p)² + p(1−p)(1−2p)².
    """
    _check(decisions, p)
    q, b = 1.0 - p, decisions * p if baseline is None else baseline
    mean, variance = (decisions - 1) * p, (decisions - 1) * p * q
    if_taken, if_not = 1.0 + mean - b, mean - b
    squared = p * q * q * (if_taken * if_taken + variance) + q * p * p * (if_not * if_not + variance)
    return squared - p * q * p * q


def step_variance(p: float) -> float:
    """The same if every decision has its own reward and the baseline p: p(1−p)(1−2p)², whatever T is."""
    return estimator_variance(1, p, p)


def sampled_variance(seed: int, decisions: int, p: float, chains: int = SAMPLED_CHAINS) -> SampledVariance:
    """The variance of the first decision's estimate over sampled chains, reward at the end, baseline T·p.

    Draws are indexed by (chain, decision).
    """
    _check(decisions, p)
    taken = (uniforms(seed, f"reinforce/{decisions}", (chains, decisions)) < p).astype(np.float64)
    estimates = (np.sum(taken, axis=1) - decisions * p) * (taken[:, 0] - p)
    squares = np.square(estimates - np.mean(estimates))
    variance = float(np.sum(squares)) / (chains - 1)
    spread = float(np.mean(np.square(squares))) - variance * variance
    return SampledVariance(variance, float(np.sqrt(max(spread, 0.0) / chains)))


def _check(decisions: int, p: float) -> None:
    if decisions < 1 or not 0.0 <= p <= 1.0:
        raise ValueError(f"expected at least one decision and p in [0, 1], got decisions={decisions}, p={p}")

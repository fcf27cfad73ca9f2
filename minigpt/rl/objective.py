"""What a policy is pushed towards: ratio, clip, KL penalty, and how tokens are averaged. N answers of T tokens.

Every slope is with respect to a token's log-probability, so that a loss is handed to the model's backward as weights.
The ratio and its logarithm come in together: exponentials belong to the backend.
"""

from __future__ import annotations

import numpy as np


def clipped_surrogate(ratio: np.ndarray, advantages: np.ndarray, epsilon: float) -> np.ndarray:
    """min(ρ·A, clip(ρ, 1−ε, 1+ε)·A), to be maximised; same shape as the ratio, which the advantages broadcast to.

    Source: Schulman et al. 2017, arXiv:1707.06347, equation 7.
    """
    _check_epsilon(epsilon)
    return np.minimum(ratio * advantages, np.clip(ratio, 1.0 - epsilon, 1.0 + epsilon) * advantages)


def is_clipped(ratio: np.ndarray, advantages: np.ndarray, epsilon: float) -> np.ndarray:
    """True where the clip takes the gradient away: past the bound on the side that the advantage pushes to."""
    _check_epsilon(epsilon)
    return ((advantages > 0) & (ratio > 1.0 + epsilon)) | ((advantages < 0) & (ratio < 1.0 - epsilon))


def surrogate_slope(ratio: np.ndarray, advantages: np.ndarray, epsilon: float) -> np.ndarray:
    """d(clipped surrogate)/d(log-probability): ρ·A, or 0 where it is clipped. On the bound itself, ρ·A."""
    return np.where(is_clipped(ratio, advantages, epsilon), 0.0, ratio * advantages)


def kl_estimates(log_ratio: np.ndarray, ratio: np.ndarray) -> dict[str, np.ndarray]:
    """k1, k2, k3 of KL(policy ‖ reference), from r = reference/policy at tokens that the policy drew.

    k1 = −ln r is unbiased and noisy, k2 = ½·ln² r biased, k3 = r − 1 − ln r unbiased and never negative.
    Source: Schulman 2020, "Approximating KL Divergence".
    """
    return {"k1": -log_ratio, "k2": 0.5 * log_ratio * log_ratio, "k3": ratio - 1.0 - log_ratio}


def kl_slopes(log_ratio: np.ndarray, ratio: np.ndarray) -> dict[str, np.ndarray]:
    """Their derivatives with respect to the policy's log-probability, as a term of the loss.

    k1's is 1 everywhere, which averages to no gradient at all; k2's averages to the true gradient; k3's, 1 − r, to that
    of the reverse KL(reference ‖ policy).
    """
    return {"k1": np.ones_like(log_ratio), "k2": -log_ratio, "k3": 1.0 - ratio}


def token_weights(mask: np.ndarray, aggregation: str, *, longest: int | None = None) -> np.ndarray:
    """What each token's loss counts for in the loss of a batch; 0 on the padding.

    mask: (N, T) bool, true on the tokens of the answers, the end token included.
    aggregation: "grpo", the mean over answers of each one's mean: a token of a long answer counts less, so that long
    wrong answers are punished less per token. "dapo", the mean over all tokens (arXiv:2503.14476). "dr_grpo", the sum
    over a constant, N·longest (arXiv:2503.20783); longest: the most tokens that an answer may have.
    Raises ValueError for an answer without tokens, for another aggregation, or without `longest` where it is needed.
    """
    mask = np.asarray(mask, dtype=bool)
    lengths = np.sum(mask, axis=1)
    if mask.ndim != 2 or mask.shape[0] < 1 or (lengths == 0).any():
        raise ValueError(f"mask must be (N ≥ 1, T) with at least one token per answer, got shape {mask.shape}")
    N = mask.shape[0]
    if aggregation == "grpo":
        return mask / (lengths[:, None] * np.float64(N))
    if aggregation == "dapo":
        return mask / np.float64(np.sum(lengths))
    if aggregation == "dr_grpo":
        if longest is None or longest < lengths.max():
            raise ValueError(f"dr_grpo needs `longest`, at least {lengths.max()} here, got {longest}")
        return mask / np.float64(N * longest)
    raise ValueError(f"unknown aggregation {aggregation!r}: expected 'grpo', 'dapo' or 'dr_grpo'")


def _check_epsilon(epsilon: float) -> None:
    if not 0.0 < epsilon < 1.0:
        raise ValueError(f"epsilon must lie between 0 and 1, got {epsilon}")

"""Advantages: how much better an answer did than the others to its own question. Q questions, G answers to each."""

from __future__ import annotations

import numpy as np

EPSILON = 1e-6
"""Added to the standard deviation, as verl does; TRL adds 1e-4 to the sample standard deviation."""


def check_rewards(rewards: np.ndarray) -> np.ndarray:
    """The rewards as float64 (Q, G). Raises ValueError if they are not finite, or if a group has one answer."""
    rewards = np.asarray(rewards, dtype=np.float64)
    if rewards.ndim != 2 or rewards.shape[1] < 2:
        raise ValueError(
            f"rewards must be (Q, G) with G ≥ 2, got shape {rewards.shape}:"
            " a lone answer has nobody to be compared with"
        )
    if not np.isfinite(rewards).all():
        raise ValueError("rewards must be finite: a question's answers are compared with each other")
    return rewards


def has_signal(rewards: np.ndarray) -> np.ndarray:
    """(Q, G) → (Q,) bool: whether the answers to a question differ in reward. If not, they teach nothing."""
    rewards = check_rewards(rewards)
    return rewards.max(axis=1) != rewards.min(axis=1)


def group_advantages(rewards: np.ndarray, *, scale: str = "std") -> np.ndarray:
    """Score each answer against the others to its own question.

    rewards: (Q, G) float, G answers to each of Q questions.
    scale: "std" divides by the group's population standard deviation, "none" (Dr. GRPO) does not.
    Returns (Q, G) float64, reward units if scale is "none", else dimensionless; all zero for a group without spread.
    Raises ValueError if G < 2: a lone answer has nobody to be compared with.
    Departs from the source: 1e-6 is added to the divisor. Source: Shao et al. 2024, arXiv:2402.03300, section 4.1;
    for "none", Liu et al. 2025, arXiv:2503.20783.
    """
    rewards = check_rewards(rewards)
    if scale not in ("std", "none"):
        raise ValueError(f"unknown scale {scale!r}: expected 'std' or 'none'")
    # Exactly zero for a group without spread, whatever its mean rounds to.
    centred = np.where(has_signal(rewards)[:, None], rewards - np.mean(rewards, axis=1, keepdims=True), 0.0)
    if scale == "none":
        return centred
    return centred / (np.std(rewards, axis=1, keepdims=True) + EPSILON)


def leave_one_out(rewards: np.ndarray) -> np.ndarray:
    """Each answer's reward less the mean of the *others'*, which keeps the expected gradient whole.

    rewards: (Q, G). Returns (Q, G) float64, reward units: G/(G−1) times the distance to the group's mean.
    Source: RLOO, Ahmadian et al. 2024, arXiv:2402.14740.
    """
    centred = group_advantages(rewards, scale="none")
    G = centred.shape[1]
    return centred * (G / (G - 1))

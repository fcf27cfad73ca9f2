"""When a group teaches nothing: all its answers right, or all wrong."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigpt.attempts import power
from minigpt.streams import uniforms

SIMULATED_GROUPS = 20_000


class Simulation(NamedTuple):
    """Share of simulated groups without signal, and its distance from the formula in standard errors."""

    share: float
    standard_errors: float


def share_without_signal(p: float, group: int) -> float:
    """p^G + (1−p)^G: the probability that G independent answers, each right with probability p, all agree.

    Raises ValueError unless p is in [0, 1] and G ≥ 2.
    """
    if not 0.0 <= p <= 1.0 or group < 2:
        raise ValueError(f"expected p in [0, 1] and a group of at least 2, got p={p}, group={group}")
    return power(p, group) + power(1.0 - p, group)


def least_group(p: float, limit: float = 0.1) -> int:
    """The smallest group of which less than `limit` lack signal. Raises ValueError unless 0 < p < 1 and limit > 0."""
    if not (0.0 < p < 1.0 and limit > 0.0):
        raise ValueError(f"expected 0 < p < 1 and a limit above 0, got p={p}, limit={limit}: no group would do")
    group = 2
    while share_without_signal(p, group) >= limit:
        group += 1
    return group


def simulate_groups(seed: int, p: float, group: int, groups: int = SIMULATED_GROUPS) -> Simulation:
    """Draw `groups` groups of answers and count those without signal.

    The draws are indexed by (group, answer), from a stream for each size of group. The error is 0 if the formula gives
    0 or 1: then there is nothing to draw.
    """
    expected = share_without_signal(p, group)
    right = uniforms(seed, f"groups/{group}", (groups, group)) < p
    count = np.sum(right, axis=1)
    share = float(np.mean((count == 0) | (count == group)))
    spread = float(np.sqrt(expected * (1.0 - expected) / groups))
    return Simulation(share, (share - expected) / spread if spread > 0.0 else 0.0)

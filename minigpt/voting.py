"""Self-consistency: sample several chains, vote on their answers. Source: Wang et al. 2022, arXiv:2203.11171."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, fsum


def plurality(answers: Sequence[int | None]) -> int | None:
    """The most frequent answer; malformed ones (None) do not vote; of tied answers, the one seen first.

    None if no chain gave a well-formed answer.
    """
    counts: dict[int, int] = {}
    for answer in answers:
        if answer is not None:
            counts[answer] = counts.get(answer, 0) + 1
    return max(counts, key=counts.__getitem__) if counts else None


def majority(answers: Sequence[int | None], truth: int) -> bool:
    """True if strictly more than half of the chains give the right answer."""
    return 2 * sum(answer == truth for answer in answers) > len(answers)


def binomial_majority(k: int, p: float) -> float:
    """P(Bin(k, p) > k/2): what a majority of k independent chains would reach if every question were equally hard.

    k ≥ 1; p in [0, 1]. Powers are running products, which have the same bits everywhere.
    """
    if k < 1 or not 0.0 <= p <= 1.0:
        raise ValueError(f"expected k ≥ 1 and p in [0, 1], got k={k}, p={p}")
    right, wrong = [1.0], [1.0]
    for _ in range(k):
        right.append(right[-1] * p)
        wrong.append(wrong[-1] * (1.0 - p))
    return fsum(comb(k, successes) * right[successes] * wrong[k - successes] for successes in range(k // 2 + 1, k + 1))

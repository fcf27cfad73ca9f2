"""What more attempts at a question buy: pass@k, and choosing with a verifier that errs."""

from __future__ import annotations

from typing import NamedTuple


def pass_at_k(attempts: int, right: int, k: int) -> float:
    """Probability that k of the n attempts made, c of them right, hold a right one: 1 − C(n−c, k)/C(n, k).

    Unbiased, unlike 1 − (1 − c/n)^k. Raises ValueError unless 0 ≤ c ≤ n and 1 ≤ k ≤ n.
    Source: Chen et al. 2021, arXiv:2107.03374, equation 1.
    """
    if not (0 <= right <= attempts and 1 <= k <= attempts):
        raise ValueError(f"expected 0 ≤ right ≤ attempts and 1 ≤ k ≤ attempts, got {attempts=}, {right=}, {k=}")
    if attempts - right < k:
        return 1.0
    none = 1.0
    for i in range(attempts - right + 1, attempts + 1):
        none *= 1.0 - k / i
    return 1.0 - none


def power(base: float, exponent: int) -> float:
    """base^exponent for a whole exponent ≥ 0, by repeated squaring: the same bits everywhere, unlike `**`."""
    if exponent < 0:
        raise ValueError(f"expected an exponent of at least 0, got {exponent}")
    result = 1.0
    while exponent:
        if exponent % 2:
            result *= base
        base *= base
        exponent //= 2
    return result


def best_of_n(p: float, n: int) -> float:
    """Probability that n independent attempts, each right with probability p, hold a right one: 1 − (1−p)^n."""
    _check(p, n)
    return 1.0 - power(1.0 - p, n)


class Verifier(NamedTuple):
    """One that errs. Shares in [0, 1].

    accepts_right: of right answers. accepts_wrong: of wrong ones. fooled: of the wrong ones accepted, those that fool
    it wholly and score above any right one.
    """

    accepts_right: float
    accepts_wrong: float
    fooled: float


def chosen_right(p: float, n: int, verifier: Verifier) -> float:
    """Probability that the answer chosen among n is right, each being right with probability p.

    Chosen is an answer that fools the verifier, if there is one; else any of the accepted; else any of all. Per
    attempt, f = (1−p)bh fools, r = pa is right and accepted, w = (1−p)b(1−h) wrong and accepted, s = f + r + w is
    accepted:

        P_n = r/(r+w)·[(1−f)^n − (1−s)^n] + (1−s)^(n−1)·p(1−a)

    The first term: nothing fools and something is accepted. The second: nothing is accepted, and the first of n equal
    attempts is right, given that it was refused. The first term is 0 if r + w = 0.
    """
    _check(p, n)
    if not all(0.0 <= share <= 1.0 for share in verifier):
        raise ValueError(f"a verifier's shares must lie in [0, 1], got {verifier}")
    fooling = (1.0 - p) * verifier.accepts_wrong * verifier.fooled
    right = p * verifier.accepts_right
    wrong = (1.0 - p) * verifier.accepts_wrong * (1.0 - verifier.fooled)
    refused = 1.0 - (fooling + right + wrong)
    accepted = 0.0
    if right + wrong > 0.0:
        accepted = right / (right + wrong) * (power(1.0 - fooling, n) - power(refused, n))
    return accepted + power(refused, n - 1) * p * (1.0 - verifier.accepts_right)


def _check(p: float, n: int) -> None:
    if not 0.0 <= p <= 1.0 or n < 1:
        raise ValueError(f"expected p in [0, 1] and at least one attempt, got p={p}, n={n}")

"""Named random streams.

A stream is a PCG64 generator seeded by the sha256 of "seed/name". Its draws are indexed by what they are for (question,
chain, token), never by the order in which work happened, so pausing, slicing or running two things at once cannot
change a result. Only `random`, `integers` and `permutation` are used: they give the same bits on every platform,
while normal or gumbel draws go through the platform's libm.
"""

from __future__ import annotations

import hashlib

import numpy as np

# Named here because NumPy would bring it in at its first use, which is after the reader's click.
import numpy.random

SEED_LIMIT = 2**32


def stream(seed: int, name: str) -> np.random.Generator:
    """A fresh generator for (seed, name). Raises ValueError unless 0 <= seed < 2**32."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"a seed must be a whole number from 0 to {SEED_LIMIT - 1}, got {seed!r}")
    digest = hashlib.sha256(f"{int(seed)}/{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "little"))))


def uniforms(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32 uniforms in [0, 1), indexed by position: u[question, chain, token] is the same however much is used."""
    return stream(seed, name).random(shape, dtype=np.float32)

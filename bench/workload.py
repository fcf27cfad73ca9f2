"""The work that is timed, composed of what every peer offers. The JavaScript side mirrors it: browser/workload.js."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from bench.material import BETA1, BETA2, CHECK_STEPS, CLIP_NORM, EPSILON, KL_SHARE, RATE, Material, pack
from minigpt.model import ModelShape
from minigpt.task import PROMPT_LENGTH, response_mask

__all__ = ["BETA1", "BETA2", "CLIP_NORM", "EPSILON", "RATE", "WORK", "Peer", "check", "timed"]

COT_STEPS, COT_EVALUATE_EVERY, COT_SAMPLINGS = 1500, 250, 3
WARM_UP_SECONDS = 0.05


class Peer(Protocol):
    """One implementation of the course's model. Arrays are NumPy's; a batch's tokens are (B, T + 1) int32."""

    def load(self, shape: ModelShape, parameters: np.ndarray) -> None:
        """Take these weights (flat, float32), also as the reference policy; forget the optimiser's memory."""
        ...

    def step(self, tokens: np.ndarray, weights: np.ndarray) -> None:
        """One step on the loss Σ weights (B, T) · log-probability: backward, norm clipped at 1, Adam at RATE."""
        ...

    def logprobs(self, tokens: np.ndarray, *, reference: bool = False) -> np.ndarray:
        """(B, T) log-probability of each token after the first."""
        ...

    def decode(self, prompts: np.ndarray, length: int, uniforms: np.ndarray | None) -> np.ndarray:
        """Tokens (B, length) that continue the prompts; with uniforms by inverse CDF, else greedily."""
        ...

    def finish(self) -> None:
        """Wait for what is still being computed."""
        ...


def check(peer: Peer, material: Material) -> dict:
    """What the judge compares. See material.expected."""
    arrays = material.arrays
    peer.load(material.shape, arrays["parameters"])
    answered = {"logprobs": pack(peer.logprobs(arrays["tokens"][0]))}
    if "prompts" in arrays:
        answered["answers"] = pack(sample(peer, material))
    for index in range(CHECK_STEPS):
        peer.step(arrays["tokens"][index], arrays["weights"][index])
    answered["stepped"] = pack(peer.logprobs(arrays["tokens"][0]))
    return answered


def sft(peer: Peer, material: Material, turn: int) -> None:
    """One supervised step."""
    arrays = material.arrays
    index = turn % len(arrays["tokens"])
    peer.step(arrays["tokens"][index], arrays["weights"][index])


def sample(peer: Peer, material: Material, turn: int = 0) -> np.ndarray:
    """64 answers."""
    arrays = material.arrays
    return peer.decode(arrays["prompts"], arrays["uniforms"].shape[1], arrays["uniforms"])


def grpo(peer: Peer, material: Material, turn: int) -> None:
    """A GRPO iteration with given rewards: 64 answers, old and reference log-probabilities, a policy-gradient step."""
    arrays = material.arrays
    answers = sample(peer, material)
    tokens = np.concatenate([arrays["prompts"], answers], axis=1)
    old, reference = peer.logprobs(tokens), peer.logprobs(tokens, reference=True)
    mask = np.zeros(old.shape, dtype=np.float32)
    mask[:, PROMPT_LENGTH - 1 :] = response_mask(answers)
    # Of clip(rho)·A and beta·k3 at rho = 1, the first step on a batch: their gradient at the log-probabilities.
    push = KL_SHARE * (1.0 - np.exp(reference - old)) - arrays["advantages"][:, None]
    weights = mask * push / (mask.sum(axis=1, keepdims=True) * len(answers))
    peer.step(tokens, weights.astype(np.float32))


def cot(peer: Peer, material: Material, turn: int) -> None:
    """What the widget `cot` computes: two trainings with their evaluations, then 1,500 chains thrice."""
    arrays = material.arrays
    length = arrays["uniforms"].shape[1]
    for tokens, weights in (("tokens", "weights"), ("direct_tokens", "direct_weights")):
        answers = length if tokens == "tokens" else 4
        peer.decode(arrays["held_out"], answers, None)
        for step in range(COT_STEPS):
            index = step % len(arrays[tokens])
            peer.step(arrays[tokens][index], arrays[weights][index])
            if (step + 1) % COT_EVALUATE_EVERY == 0:
                peer.decode(arrays["held_out"], answers, None)
    peer.load(material.shape, arrays["parameters"])
    for _ in range(COT_SAMPLINGS):
        peer.decode(arrays["chain_prompts"], length, arrays["chain_uniforms"])


WORK: dict[str, Callable] = {"sft": sft, "sample": sample, "grpo": grpo, "cot": cot}


def timed(peer: Peer, material: Material, work: str, seconds: float) -> dict[str, float]:
    """Milliseconds of one turn of the work, as the mean over about `seconds` of turns after some to warm up.

    Browsers round their clocks to a tenth of a millisecond or more, so that only the whole stretch is timed.
    """
    run = WORK[work]
    at_once = getattr(peer, "TOGETHER", 1)

    def stretch(turns: int) -> float:
        peer.load(material.shape, material.arrays["parameters"])
        start = time.perf_counter()
        for turn in range(turns):
            run(peer, material, turn)
        peer.finish()
        return time.perf_counter() - start

    turns = 1
    if work != "cot":
        turns = max(2, at_once)
        stretch(turns)  # compiles what is compiled at the first use
        while (taken := stretch(turns)) < WARM_UP_SECONDS:
            turns *= 2
        turns = max(1, round(seconds / taken * turns / at_once)) * at_once
    return {"ms": stretch(turns) * 1000 / turns, "turns": turns}

"""What every peer is given: the same weights, batches, prompts and random numbers, and the answers they must get.

The judge is the NumPy reference in float64. Nobody is timed before agreeing with it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigpt.backend import AdamState
from minigpt.model import COURSE_SHAPE, ModelShape, initial_parameters, layout
from minigpt.reference import ReferenceBackend
from minigpt.streams import stream, uniforms
from minigpt.supervised import BATCH, Schedule, SupervisedTraining, response_weights
from minigpt.task import RESPONSE_LENGTH, prompts, split, token_table

SEED = 1
STEPS_BEFORE = 500
"""Steps that the weights of every measurement have behind them: a policy as RL would start from, whose answers have
the usual length."""

RATE = 0.001
BETA1, BETA2, EPSILON, CLIP_NORM = 0.9, 0.99, 1e-8, 1.0
BATCHES = 32
"""Different batches, taken in turn: training long on one of them alone would drive its gradients to nothing."""

ANSWERS, GROUP = 64, 8
KL_SHARE = 0.02
HELD_OUT = 200
CHAINS = 1500

CHECK_STEPS = 3
LOGPROB_TOLERANCE = 1e-3
"""Of log-probabilities before any step: float32 against float64, with room for another order of summation."""
STEPPED_TOLERANCE = 5e-3
"""After three steps of Adam, which moves a weight by the sign of its gradient, however small and uncertain that is."""
ANSWERS_ALIKE = 0.95
"""Least share of the 64 answers that equal the judge's token by token; a draw near a boundary may fall either side."""


def batches(batch: int, format: str = "reasoned") -> tuple[np.ndarray, np.ndarray]:
    """Tokens (BATCHES, B, T + 1), and weights (BATCHES, B, T) with which Σ weights · log-probability is the loss."""
    table = token_table(format)
    rows = stream(SEED, "bench-batches").integers(0, len(table), size=(BATCHES, batch), dtype=np.int64)
    return table[rows], response_weights(table[rows])


@dataclass
class Material:
    """Arrays by name, for one shape and batch."""

    shape: ModelShape
    arrays: dict[str, np.ndarray]


def course_material() -> Material:
    """The measurements at the course's sizes: 500-step weights, 16 sums a batch, 64 answers to 8 questions."""
    training = SupervisedTraining(ReferenceBackend(), "reasoned", SEED, Schedule())
    while training.steps_done < STEPS_BEFORE:
        training.step()
    tokens, weights = batches(BATCH)
    direct_tokens, direct_weights = batches(BATCH, "direct")
    questions, held_out = split()
    asked = questions[: ANSWERS // GROUP]
    repeated = np.repeat(prompts(asked), GROUP, axis=0)
    length = RESPONSE_LENGTH["reasoned"]
    rewards = stream(SEED, "bench-rewards").integers(0, 2, size=(ANSWERS // GROUP, GROUP), dtype=np.int64)
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    advantages = centred / (rewards.std(axis=1, keepdims=True) + 1e-6)
    return Material(
        COURSE_SHAPE,
        {
            "parameters": training.parameters,
            "tokens": tokens,
            "weights": weights,
            "direct_tokens": direct_tokens,
            "direct_weights": direct_weights,
            "prompts": repeated,
            "uniforms": uniforms(SEED, "bench-answers", (ANSWERS, length)),
            "advantages": advantages.reshape(-1).astype(np.float32),
            "held_out": prompts(held_out[:HELD_OUT]),
            "chain_prompts": np.repeat(prompts(held_out[:100]), CHAINS // 100, axis=0),
            "chain_uniforms": uniforms(SEED, "bench-chains", (CHAINS, length)),
        },
    )


def growth_material(width: int, batch: int) -> Material:
    """One training step at other sizes: hidden layer four times the width, two heads as in the course."""
    shape = ModelShape(width=width, hidden=4 * width)
    tokens, weights = batches(batch)
    return Material(
        shape, {"parameters": initial_parameters(SEED, shape), "tokens": tokens[:4], "weights": weights[:4]}
    )


def pack(array: np.ndarray) -> dict[str, Any]:
    """JSON of an array, for the lanes; JavaScript reads the bytes as they are."""
    array = np.ascontiguousarray(array)
    return {"shape": list(array.shape), "dtype": str(array.dtype), "data": base64.b64encode(array.tobytes()).decode()}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    data = base64.b64decode(packed["data"])
    return np.frombuffer(data, dtype=packed["dtype"]).reshape(packed["shape"]).copy()


def packed(material: Material) -> dict[str, Any]:
    return {
        "shape": dict(vars(material.shape)),
        "layout": [[name, list(size), offset] for name, size, offset in layout(material.shape)],
        "arrays": {name: pack(array) for name, array in material.arrays.items()},
    }


def expected(material: Material) -> dict[str, np.ndarray]:
    """The judge's answers: log-probabilities of the first batch, the same after three steps, and 64 sampled answers."""
    judge, shape, arrays = ReferenceBackend(), material.shape, material.arrays
    parameters = arrays["parameters"].astype(np.float64)
    state = AdamState.like(parameters, beta1=BETA1, beta2=BETA2, epsilon=EPSILON)
    found: dict[str, np.ndarray] = {}

    def logprobs() -> np.ndarray:
        tokens = arrays["tokens"][0]
        return judge.token_logprobs(judge.forward(parameters, tokens[:, :-1].copy(), shape).logits, tokens[:, 1:])

    found["logprobs"] = logprobs()
    if "prompts" in arrays:
        length = arrays["uniforms"].shape[1]
        decoded = judge.decode(parameters, arrays["prompts"], length, shape, uniforms=arrays["uniforms"])
        found["answers"] = decoded.tokens
    for index in range(CHECK_STEPS):
        tokens, weights = arrays["tokens"][index], arrays["weights"][index].astype(np.float64)
        forward = judge.forward(parameters, tokens[:, :-1].copy(), shape)
        dlogits = judge.logprob_gradient(forward.logits, tokens[:, 1:], weights)
        judge.adam_step(parameters, judge.backward(forward, dlogits, None, shape), state, RATE, clip_norm=CLIP_NORM)
    found["stepped"] = logprobs()
    return found


def loss(logprobs: np.ndarray, material: Material) -> float:
    return float(np.sum(logprobs * material.arrays["weights"][0]))


def disagreement(answered: dict[str, Any], judged: dict[str, np.ndarray], material: Material) -> dict[str, Any]:
    """How far a peer is from the judge, and "agrees": whether that is near enough to be timed."""
    distances = {
        "loss": loss(unpack(answered["logprobs"]), material),
        "judged_loss": loss(judged["logprobs"], material),
        "logprobs": float(np.abs(unpack(answered["logprobs"]) - judged["logprobs"]).max()),
        "stepped": float(np.abs(unpack(answered["stepped"]) - judged["stepped"]).max()),
    }
    agrees = distances["logprobs"] <= LOGPROB_TOLERANCE and distances["stepped"] <= STEPPED_TOLERANCE
    if answered.get("answers") is not None:
        alike = (unpack(answered["answers"]) == judged["answers"]).all(axis=1)
        distances["answers_alike"] = float(alike.mean())
        agrees = agrees and distances["answers_alike"] >= ANSWERS_ALIKE
    return {**distances, "agrees": bool(agrees)}

"""The training that the kernel's bits are judged by: 1,500 supervised steps of each format, then 64 sampled answers.

The batches are recorded, so that a machine without Python can replay them too.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import numpy as np

from minigpt import supervised, task
from minigpt.backend import AdamState, Backend
from minigpt.model import COURSE_SHAPE, initial_parameters

GOLDEN: dict[str, str] = json.loads((Path(__file__).parent / "golden" / "kernel.json").read_text(encoding="utf-8"))
FORMATS = ("reasoned", "direct")
STEPS = 1500
SHAPE = np.array([16, 18, 16, 2, 2, 64], np.int32)
"""As the C side reads it: vocabulary, context, width, layers, heads, hidden."""
LENGTH = 10
TEMPERATURE = 0.9
HEADER = struct.Struct("=14if")
"""As in aarch64/replay.c: the shape, parameters, steps, B, T, prompts, P, length, end; the temperature."""


def sft_weights(tokens: np.ndarray) -> np.ndarray:
    """(B, T + 1) tokens → (B, T): minus the mean over the response's tokens."""
    weights = np.zeros((len(tokens), tokens.shape[1] - 1), np.float32)
    weights[:, task.PROMPT_LENGTH - 1 :] = task.response_mask(tokens[:, task.PROMPT_LENGTH :])
    return weights * np.float32(-1.0 / np.sum(weights))


def batches(backend: Backend, format: str, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """(steps, 16, T + 1) tokens and (steps, 16, T) weights of the course's own training, and its rates."""
    training = supervised.SupervisedTraining(backend, format, 1, supervised.Schedule())
    tokens = np.stack([training.batch(step) for step in range(steps)])
    weights = np.stack([sft_weights(batch) for batch in tokens])
    return tokens, weights, [training.schedule.rate(step) for step in range(steps)]


def settings(rates: list[float]) -> np.ndarray:
    """(steps, 6): what the C function is told of Adam at each step."""
    rows, state = [], AdamState.like(np.zeros(1, np.float32), beta1=0.9, beta2=0.99)
    for rate in rates:
        state.advance()
        rows.append((0.9, 0.99, 1e-8, rate / (1.0 - state.beta1_power), 1.0 / (1.0 - state.beta2_power), 1.0))
    return np.array(rows)


def questions() -> tuple[np.ndarray, np.ndarray]:
    """(64, P) prompts of held-out sums, and (64, 10) uniforms to answer them by."""
    uniforms = np.random.default_rng(0).random((64, LENGTH), dtype=np.float32)
    return task.prompts(task.split()[1][:64]), uniforms


def recording(backend: Backend, format: str, steps: int = STEPS) -> bytes:
    """All of it in one piece, for a program that reads its standard input."""
    tokens, weights, rates = batches(backend, format, steps)
    prompts, uniforms = questions()
    parameters = initial_parameters(1)
    sizes = (len(parameters), *weights.shape, *prompts.shape, LENGTH, task.END_TOKEN)
    header = HEADER.pack(*SHAPE.tolist(), *sizes, TEMPERATURE)
    return b"".join([header, *map(bytes, (parameters, tokens, weights, settings(rates), prompts, uniforms))])


def digest(*arrays: np.ndarray | bytes) -> str:
    return hashlib.sha256(b"".join(map(bytes, arrays))).hexdigest()


def replayed(backend: Backend, format: str, steps: int = STEPS) -> tuple[str, str]:
    """The digests of the parameters and Adam's memory after those steps, and of the answers sampled then."""
    tokens, weights, rates = batches(backend, format, steps)
    parameters = initial_parameters(1)
    state = AdamState.like(parameters, beta1=0.9, beta2=0.99)
    for batch, weight, rate in zip(tokens, weights, rates, strict=True):
        backend.sft_step(parameters, batch, weight, state, rate, COURSE_SHAPE)
    prompts, uniforms = questions()
    answers = backend.decode(parameters, prompts, LENGTH, COURSE_SHAPE, uniforms=uniforms, temperature=TEMPERATURE)
    return digest(parameters, state.mean, state.square), digest(answers.tokens, answers.logprobs)


def digests_of(backend: Backend) -> dict[str, str]:
    """What GOLDEN holds, as this backend computes it."""
    made = {}
    for format in FORMATS:
        made[format], made[f"{format}-sampled"] = replayed(backend, format)
    return made

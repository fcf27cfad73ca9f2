"""Supervised fine-tuning (SFT): raise the log-probability of the response shown, token by token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minigpt.backend import AdamState, Backend
from minigpt.model import COURSE_SHAPE, ModelShape, initial_parameters
from minigpt.streams import stream
from minigpt.task import (
    HELD_OUT_COUNT,
    PROMPT_LENGTH,
    RESPONSE_LENGTH,
    TOKEN_OF,
    Sum,
    prompts,
    response_mask,
    response_texts,
    split,
    token_table,
    verify,
)

BATCH = 16


@dataclass(frozen=True)
class Schedule:
    """Learning rate: linear warm-up, constant, then linear down to a share of the peak. All in steps.

    The decay matters more than its exact shape: with a constant rate the reasoned model ends between 0.59 and 0.98.
    """

    peak: float = 0.01
    warm_up: int = 50
    constant_until: int = 500
    end: int = 1500
    end_share: float = 0.05

    def rate(self, step: int) -> float:
        """The rate of a step, the first being 0."""
        if step < self.warm_up:
            return self.peak * (step + 1) / self.warm_up
        if step < self.constant_until:
            return self.peak
        gone = min(1.0, (step - self.constant_until) / (self.end - self.constant_until))
        return self.peak * (1.0 - gone * (1.0 - self.end_share))


def response_weights(tokens: np.ndarray) -> np.ndarray:
    """Weights (…, B, P + R − 1) of the next tokens of batches (…, B, P + R): −1/N on the N response tokens of each.

    Σ weights · log-probability is then the mean −log-probability of a batch. Zero on the prompt and the padding.
    """
    weights = np.zeros((*tokens.shape[:-1], tokens.shape[-1] - 1), dtype=np.float32)
    responses = tokens[..., PROMPT_LENGTH:]
    mask = response_mask(responses.reshape(-1, responses.shape[-1])).reshape(responses.shape)
    weights[..., PROMPT_LENGTH - 1 :] = mask
    weights *= np.float32(-1.0) / np.sum(weights, axis=(-2, -1), keepdims=True)
    return weights


class SupervisedTraining:
    """The training of one model of one format: the same bits alone or beside others, in however many slices.

    Models of one seed start from the same weights and see the same sums, so that they differ only in the format.
    """

    def __init__(self, backend: Backend, format: str, seed: int, schedule: Schedule, shape: ModelShape = COURSE_SHAPE):
        self.backend, self.format, self.seed, self.schedule, self.shape = backend, format, seed, schedule, shape
        self.parameters = initial_parameters(seed, shape)
        self.state = AdamState.like(self.parameters, beta1=0.9, beta2=0.99)
        self.steps_done = 0
        # All batches at once (3 MB): taken one by one they would cost a good part of the compiled step's time.
        table = token_table(format)
        rows = stream(seed, "sft-sums").integers(0, len(table), size=(schedule.end, BATCH), dtype=np.int64)
        self._tokens = table[rows]
        if format == "decorative":
            digits = stream(seed, "decorative-digits").integers(0, 10, size=(schedule.end, BATCH, 4), dtype=np.int64)
            units, tens = PROMPT_LENGTH, PROMPT_LENGTH + len("00,")
            self._tokens[..., units : units + 2] = digits[..., :2] + TOKEN_OF["0"]
            self._tokens[..., tens : tens + 2] = digits[..., 2:] + TOKEN_OF["0"]
        self._weights = response_weights(self._tokens)

    def batch(self, step: int) -> np.ndarray:
        """Tokens (B, P + R) of one step."""
        return self._tokens[step]

    def step(self) -> None:
        rate, tokens, weights = self.schedule.rate(self.steps_done), self.batch(self.steps_done), self._weights
        self.backend.sft_step(self.parameters, tokens, weights[self.steps_done], self.state, rate, self.shape)
        self.steps_done += 1


def greedy_responses(
    backend: Backend, parameters: np.ndarray, questions: tuple[Sum, ...], format: str, shape: ModelShape = COURSE_SHAPE
) -> list[str]:
    decoded = backend.decode(parameters, prompts(questions), RESPONSE_LENGTH[format], shape)
    return response_texts(decoded.tokens)


EVALUATION_SLICE = 50


def held_out_accuracy(backend: Backend, parameters: np.ndarray, format: str, shape: ModelShape = COURSE_SHAPE):
    """Generator: share of the 200 held-out sums answered right by greedy decoding. Yields None between slices."""
    questions, right = split()[1], 0
    for start in range(0, HELD_OUT_COUNT, EVALUATION_SLICE):
        part = questions[start : start + EVALUATION_SLICE]
        texts = greedy_responses(backend, parameters, part, format, shape)
        right += sum(verify(text, question, format) for text, question in zip(texts, part, strict=True))
        yield None
    return right / HELD_OUT_COUNT

"""The seam behind which a model is computed: the NumPy reference, or the compiled kernel.

The two are chosen explicitly and never replace each other in silence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigpt.model import ModelShape

BACKENDS = ("kernel", "numpy")
DEFAULT_BACKEND = "kernel"


class BackendError(RuntimeError):
    """The backend that was asked for is not available here."""


@dataclass
class Forward:
    """Result of a forward pass: logits (B, T, V), hidden (B, T, D) after the final norm, and the backward's cache.

    A workspace belongs to the run that made it: use it before the next forward of the same backend, or copy.
    """

    logits: np.ndarray
    hidden: np.ndarray
    cache: Any


@dataclass
class Decoded:
    """tokens (B, R) int32, padded with the end token after the first one; logprobs (B, R) of the tokens chosen, under
    the tempered distribution they were drawn from (0 on the padding)."""

    tokens: np.ndarray
    logprobs: np.ndarray


@dataclass
class AdamState:
    """Adam's memory for one flat vector. The powers of the betas are running products: `**` differs between libms."""

    mean: np.ndarray
    square: np.ndarray
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    step: int = 0
    beta1_power: float = field(default=1.0)
    beta2_power: float = field(default=1.0)

    @classmethod
    def like(cls, vector: np.ndarray, **settings) -> AdamState:
        return cls(np.zeros_like(vector), np.zeros_like(vector), **settings)

    def advance(self) -> None:
        self.step += 1
        self.beta1_power *= self.beta1
        self.beta2_power *= self.beta2


class Backend(ABC):
    """What every algorithm of the course is built from."""

    name: str

    @abstractmethod
    def forward(self, parameters: np.ndarray, tokens: np.ndarray, shape: ModelShape) -> Forward:
        """tokens (B, T) int32, T ≤ context → logits and hidden states at every position."""

    @abstractmethod
    def backward(
        self, forward: Forward, dlogits: np.ndarray | None, dhidden: np.ndarray | None, shape: ModelShape
    ) -> np.ndarray:
        """Flat gradient of a loss whose gradients at the logits (B, T, V) and hidden states (B, T, D) are given."""

    @abstractmethod
    def token_logprobs(self, logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """log-probability (B, T) of the target tokens (B, T) under logits (B, T, V)."""

    @abstractmethod
    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Softmax over the last axis, for logits (…, V)."""

    @abstractmethod
    def logprob_gradient(self, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Gradient (B, T, V) at the logits of Σ weights · log-probability of the targets.

        Every loss of the course is this with its own weights: supervised training has −1/N on the response tokens,
        a policy gradient minus the advantage.
        """

    @abstractmethod
    def adam_step(
        self,
        vector: np.ndarray,
        gradient: np.ndarray,
        state: AdamState,
        learning_rate: float,
        *,
        clip_norm: float | None = 1.0,
    ) -> float:
        """One Adam step on any flat vector, in place, after scaling the gradient down to `clip_norm`.

        Returns the gradient's norm before clipping. Raises FloatingPointError if it is not finite; then nothing has
        been changed.
        """

    def sft_step(
        self,
        parameters: np.ndarray,
        tokens: np.ndarray,
        weights: np.ndarray,
        state: AdamState,
        learning_rate: float,
        shape: ModelShape,
        *,
        clip_norm: float | None = 1.0,
    ) -> float:
        """One step on tokens (B, T + 1), in place: the loss is Σ weights (B, T) · log-probability of each next token.

        Returns the gradient's norm before clipping. A backend may do the same in one go.
        """
        inputs, targets = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
        forward = self.forward(parameters, inputs, shape)
        dlogits = self.logprob_gradient(forward.logits, targets, weights)
        gradient = self.backward(forward, dlogits, None, shape)
        return self.adam_step(parameters, gradient, state, learning_rate, clip_norm=clip_norm)

    @abstractmethod
    def decode(
        self,
        parameters: np.ndarray,
        prompts: np.ndarray,
        length: int,
        shape: ModelShape,
        *,
        uniforms: np.ndarray | None = None,
        temperature: float = 1.0,
    ) -> Decoded:
        """Continue prompts (B, P) by at most `length` tokens, until the end token.

        Without uniforms, greedily (the first of equal maxima). With uniforms (B, length) in [0, 1), by inverse CDF at
        the given temperature: token = number of tokens whose cumulative probability is ≤ u.
        """


def check_tokens(tokens: np.ndarray, shape: ModelShape) -> None:
    if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= shape.context or tokens.shape[0] < 1:
        raise ValueError(f"tokens must be (B ≥ 1, 1 ≤ T ≤ {shape.context}), got shape {tokens.shape}")
    if tokens.dtype != np.int32:
        raise ValueError(f"tokens must be int32, got {tokens.dtype}: the default width differs between platforms")
    if tokens.min() < 0 or tokens.max() >= shape.vocabulary:
        raise ValueError(f"tokens must lie in 0 … {shape.vocabulary - 1}, got {tokens.min()} … {tokens.max()}")


def check_decode(prompts, length, shape, uniforms, temperature) -> None:
    check_tokens(prompts, shape)
    # The last token of a response is never fed back, so it needs no position of its own.
    if length < 1 or prompts.shape[1] + length - 1 > shape.context:
        room = shape.context - prompts.shape[1] + 1
        raise ValueError(f"a prompt of {prompts.shape[1]} tokens leaves room for 1 … {room} more, asked for {length}")
    if uniforms is not None and uniforms.shape != (prompts.shape[0], length):
        raise ValueError(f"uniforms must be {(prompts.shape[0], length)}, one per token, got {uniforms.shape}")
    if not temperature > 0:
        raise ValueError(f"a temperature must be above 0, got {temperature}: decode greedily without uniforms instead")


def open_backend(name: str = DEFAULT_BACKEND) -> Backend:
    """A backend by name. Raises BackendError if it is not available, ValueError if there is no such name."""
    if name == "numpy":
        from minigpt.reference import ReferenceBackend

        return ReferenceBackend()
    if name == "kernel":
        from minigpt.kernel import KernelBackend

        return KernelBackend()
    raise ValueError(f"unknown backend {name!r}: expected one of {', '.join(BACKENDS)}")

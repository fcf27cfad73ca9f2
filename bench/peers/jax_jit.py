"""The same model in JAX: a whole step, and the whole decoding of a batch, are one compiled function each."""

from __future__ import annotations

from functools import partial

import jax
import jaxlib
import numpy as np
from jax import numpy as jnp

from bench.workload import BETA1, BETA2, CLIP_NORM, EPSILON, RATE
from minigpt.model import ModelShape, views
from minigpt.task import END_TOKEN


def norm(x, gain, bias):
    mean = x.mean(axis=-1, keepdims=True)
    variance = jnp.square(x - mean).mean(axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + bias


def layer(p, prefix, x, heads, attend):
    B, T, D = x.shape
    mixed_in = norm(x, p[f"{prefix}.norm1.gain"], p[f"{prefix}.norm1.bias"]) @ p[f"{prefix}.attention.weight"]
    parts = jnp.split(mixed_in + p[f"{prefix}.attention.bias"], 3, axis=-1)
    query, key, value = (part.reshape(B, T, heads, D // heads).transpose(0, 2, 1, 3) for part in parts)
    mixed = attend(query, key, value).transpose(0, 2, 1, 3).reshape(B, T, D)
    x = x + mixed @ p[f"{prefix}.projection.weight"] + p[f"{prefix}.projection.bias"]
    wide = norm(x, p[f"{prefix}.norm2.gain"], p[f"{prefix}.norm2.bias"]) @ p[f"{prefix}.expand.weight"]
    active = jax.nn.gelu(wide + p[f"{prefix}.expand.bias"], approximate=True)
    return x + active @ p[f"{prefix}.contract.weight"] + p[f"{prefix}.contract.bias"]


def attention(query, key, value, seen):
    scores = query @ key.transpose(0, 1, 3, 2) * (1.0 / np.sqrt(query.shape[-1]))
    return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1) @ value


def head(p, x):
    return norm(x, p["norm.gain"], p["norm.bias"]) @ p["head.weight"]


@partial(jax.jit, static_argnames="shape")
def token_logprobs(p, tokens, shape: ModelShape):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    T = inputs.shape[1]
    seen = jnp.tril(jnp.ones((T, T), dtype=bool))
    x = p["token_embedding"][inputs] + p["position_embedding"][:T]
    for index in range(shape.layers):
        x = layer(p, f"layer{index}", x, shape.heads, lambda q, k, v: attention(q, k, v, seen))
    logprobs = jax.nn.log_softmax(head(p, x))
    return jnp.take_along_axis(logprobs, targets[..., None], axis=-1)[..., 0]


def one_step(p, state, tokens, weights, shape: ModelShape):
    mean, square, count = state
    gradients = jax.grad(lambda p: jnp.sum(weights * token_logprobs(p, tokens, shape)))(p)
    length = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients.values()))
    shrink = jnp.minimum(1.0, CLIP_NORM / length)
    count = count + 1
    correct1, correct2 = 1.0 - BETA1**count, 1.0 - BETA2**count
    new = {}
    for name, gradient in gradients.items():
        gradient = gradient * shrink
        mean = {**mean, name: BETA1 * mean[name] + (1 - BETA1) * gradient}
        square = {**square, name: BETA2 * square[name] + (1 - BETA2) * jnp.square(gradient)}
        new[name] = p[name] - RATE * (mean[name] / correct1) / (jnp.sqrt(square[name] / correct2) + EPSILON)
    return new, (mean, square, count)


step = jax.jit(one_step, static_argnames="shape", donate_argnums=(0, 1))


@partial(jax.jit, static_argnames="shape", donate_argnums=(0, 1))
def many_steps(p, state, tokens, weights, shape: ModelShape):
    """One step for each of the first axis of tokens and weights."""

    def advance(carried, batch):
        return one_step(*carried, *batch, shape), None

    return jax.lax.scan(advance, (p, state), (tokens, weights))[0]


@partial(jax.jit, static_argnames=("shape", "length"))
def decode(p, prompts, length: int, shape: ModelShape, uniforms):
    B, P = prompts.shape
    places = jnp.arange(P + length)

    def extend(new, positions, memory):
        x = p["token_embedding"][new] + p["position_embedding"][positions]
        seen = places[None, :] <= positions[:, None]
        for index in range(shape.layers):

            def attend(query, key, value, index=index):
                nonlocal memory
                start = (index, 0, 0, 0, positions[0], 0)
                memory = jax.lax.dynamic_update_slice(memory, jnp.stack([key, value])[None], start)
                return attention(query, memory[index, 0], memory[index, 1], seen)

            x = layer(p, f"layer{index}", x, shape.heads, attend)
        return head(p, x[:, -1]), memory

    def choose(logits, step):
        if uniforms is None:
            return jnp.argmax(logits, axis=-1)
        cumulative = jnp.cumsum(jax.nn.softmax(logits), axis=-1)
        below = cumulative <= uniforms[:, step, None] * cumulative[:, -1:]
        return jnp.minimum(below.sum(axis=-1), shape.vocabulary - 1)

    def advance(carried):
        step, logits, memory, tokens, ended = carried
        token = choose(logits, step).astype(jnp.int32)
        tokens = tokens.at[:, step].set(jnp.where(ended, END_TOKEN, token))
        logits, memory = extend(token[:, None], jnp.array([P]) + step, memory)
        return step + 1, logits, memory, tokens, ended | (token == END_TOKEN)

    memory = jnp.zeros((shape.layers, 2, B, shape.heads, P + length, shape.width // shape.heads))
    logits, memory = extend(prompts, jnp.arange(P), memory)
    start = (0, logits, memory, jnp.full((B, length), END_TOKEN, dtype=jnp.int32), jnp.zeros(B, dtype=bool))
    return jax.lax.while_loop(lambda carried: (carried[0] < length) & ~carried[4].all(), advance, start)[3]


class Jit:
    def versions(self) -> dict[str, str]:
        return {"JAX": f"{jax.__version__}, jaxlib {jaxlib.__version__}"}

    def load(self, shape: ModelShape, parameters: np.ndarray) -> None:
        self.shape = shape
        named = {name: np.array(view) for name, view in views(shape, parameters).items()}
        self.reference = {name: jnp.array(tensor) for name, tensor in named.items()}
        self.parameters = {name: jnp.array(tensor) for name, tensor in named.items()}
        zeros = [{name: jnp.zeros_like(tensor) for name, tensor in named.items()} for _ in range(2)]
        self.state = (*zeros, jnp.zeros((), dtype=jnp.int32))

    def step(self, tokens: np.ndarray, weights: np.ndarray) -> None:
        self.parameters, self.state = step(self.parameters, self.state, tokens, weights, self.shape)

    def logprobs(self, tokens: np.ndarray, *, reference: bool = False) -> np.ndarray:
        return np.asarray(token_logprobs(self.reference if reference else self.parameters, tokens, self.shape))

    def decode(self, prompts: np.ndarray, length: int, uniforms: np.ndarray | None) -> np.ndarray:
        return np.asarray(decode(self.parameters, prompts, length, self.shape, uniforms))

    def finish(self) -> None:
        jax.block_until_ready((self.parameters, self.state))


class Scanned(Jit):
    """Steps are put by and run together, many in one call: JAX's way to leave Python out of the loop."""

    TOGETHER = 50

    def load(self, shape: ModelShape, parameters: np.ndarray) -> None:
        self.waiting: list[tuple[np.ndarray, np.ndarray]] = []
        super().load(shape, parameters)

    def step(self, tokens: np.ndarray, weights: np.ndarray) -> None:
        self.waiting.append((tokens, weights))
        if len(self.waiting) == self.TOGETHER:
            self.flush()

    def flush(self) -> None:
        if len(self.waiting) == self.TOGETHER:
            tokens, weights = (np.stack(part) for part in zip(*self.waiting, strict=True))
            self.parameters, self.state = many_steps(self.parameters, self.state, tokens, weights, self.shape)
        else:
            for tokens, weights in self.waiting:
                super().step(tokens, weights)
        self.waiting = []

    def logprobs(self, tokens: np.ndarray, *, reference: bool = False) -> np.ndarray:
        self.flush()
        return super().logprobs(tokens, reference=reference)

    def decode(self, prompts: np.ndarray, length: int, uniforms: np.ndarray | None) -> np.ndarray:
        self.flush()
        return super().decode(prompts, length, uniforms)

    def finish(self) -> None:
        self.flush()
        super().finish()

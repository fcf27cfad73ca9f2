"""The NumPy reference: every operation of the model, forward and backward side by side.

This is the code to read. It works in the dtype of the parameters it is given: float32 in use, float64 when gradients
are checked. `dx` is the gradient of the loss with respect to `x`. Cross-references: Radford et al. 2019 (GPT-2,
pre-LayerNorm); Kingma and Ba 2015, arXiv:1412.6980 (Adam); Pascanu et al. 2013, arXiv:1211.5063 (clipping by norm).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minigpt.backend import AdamState, Backend, Decoded, Forward, check_decode, check_tokens
from minigpt.model import ModelShape, views
from minigpt.task import END_TOKEN

NORM_EPSILON = 1e-5
GELU_SCALE, GELU_CUBIC = 0.7978845608028654, 0.044715


def linear_forward(x, weight, bias=None):
    """(…, I) · (I, O) + (O,) → (…, O)."""
    y = x @ weight
    return y if bias is None else y + bias


def linear_backward(dy, x, weight):
    """Returns dx, dweight, dbias."""
    flat_x, flat_dy = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return dy @ weight.T, flat_x.T @ flat_dy, flat_dy.sum(axis=0)


def norm_forward(x, gain, bias):
    """LayerNorm over the last axis. Returns y and what its backward needs."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1.0 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + x.dtype.type(NORM_EPSILON))
    normal = centred * scale
    return normal * gain + bias, (normal, scale)


def norm_backward(dy, cache, gain):
    """Returns dx, dgain, dbias."""
    normal, scale = cache
    axes = tuple(range(dy.ndim - 1))
    dnormal = dy * gain
    mean = dnormal.mean(axis=-1, keepdims=True)
    along = (dnormal * normal).mean(axis=-1, keepdims=True)
    return (dnormal - mean - normal * along) * scale, (dy * normal).sum(axis=axes), dy.sum(axis=axes)


def gelu_forward(x):
    """The tanh form of GELU. Returns y and the tanh, which its backward needs."""
    inner = x.dtype.type(GELU_SCALE) * (x + x.dtype.type(GELU_CUBIC) * x * x * x)
    bend = np.tanh(inner)
    return x.dtype.type(0.5) * x * (1 + bend), bend


def gelu_backward(dy, x, bend):
    slope = x.dtype.type(GELU_SCALE) * (1 + x.dtype.type(3 * GELU_CUBIC) * x * x)
    return dy * x.dtype.type(0.5) * (1 + bend + x * (1 - bend * bend) * slope)


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def split_heads(x, heads):
    """(B, T, D) → (B, H, T, D/H)."""
    B, T, D = x.shape
    return x.reshape(B, T, heads, D // heads).transpose(0, 2, 1, 3)


def join_heads(x):
    """(B, H, T, D/H) → (B, T, D)."""
    B, H, T, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * size)


def attention_forward(query, key, value, first_position=0):
    """Causal attention of T queries, the first at `first_position`, over S keys. All (B, H, T or S, D/H).

    Returns the mixed values and the weights (B, H, T, S), which the backward needs.
    """
    T, S = query.shape[2], key.shape[2]
    scores = query @ key.transpose(0, 1, 3, 2) * query.dtype.type(1.0 / np.sqrt(query.shape[3]))
    future = np.arange(S)[None, :] > first_position + np.arange(T)[:, None]
    weights = softmax(np.where(future, query.dtype.type(-np.inf), scores))
    return weights @ value, weights


def attention_backward(dmixed, query, key, value, weights):
    """Returns dquery, dkey, dvalue."""
    dweights = dmixed @ value.transpose(0, 1, 3, 2)
    dscores = weights * (dweights - (dweights * weights).sum(axis=-1, keepdims=True))
    dscores = dscores * query.dtype.type(1.0 / np.sqrt(query.shape[3]))
    return dscores @ key, dscores.transpose(0, 1, 3, 2) @ query, weights.transpose(0, 1, 3, 2) @ dmixed


def layer_forward(x, tensors, prefix, heads, past=None, first_position=0):
    """One pre-LayerNorm block. `past` is a pair of (B, H, S, D/H) buffers for decoding, or None for training.

    Returns (B, T, D) and the cache of the backward (None when decoding).
    """
    normal1, norm1 = norm_forward(x, tensors[f"{prefix}.norm1.gain"], tensors[f"{prefix}.norm1.bias"])
    mixed_in = linear_forward(normal1, tensors[f"{prefix}.attention.weight"], tensors[f"{prefix}.attention.bias"])
    query, key, value = (split_heads(part, heads) for part in np.split(mixed_in, 3, axis=-1))
    if past is not None:
        reach = first_position + x.shape[1]
        for buffer, new in zip(past, (key, value), strict=True):
            buffer[:, :, first_position:reach] = new
        key, value = (buffer[:, :, :reach] for buffer in past)
    mixed, weights = attention_forward(query, key, value, first_position)
    joined = join_heads(mixed)
    middle = x + linear_forward(joined, tensors[f"{prefix}.projection.weight"], tensors[f"{prefix}.projection.bias"])
    normal2, norm2 = norm_forward(middle, tensors[f"{prefix}.norm2.gain"], tensors[f"{prefix}.norm2.bias"])
    wide = linear_forward(normal2, tensors[f"{prefix}.expand.weight"], tensors[f"{prefix}.expand.bias"])
    active, bend = gelu_forward(wide)
    y = middle + linear_forward(active, tensors[f"{prefix}.contract.weight"], tensors[f"{prefix}.contract.bias"])
    if past is not None:
        return y, None
    return y, (normal1, norm1, query, key, value, weights, joined, normal2, norm2, wide, active, bend)


def layer_backward(dy, cache, tensors, gradients, prefix):
    """Returns dx and writes the block's gradients into `gradients`."""
    normal1, norm1, query, key, value, weights, joined, normal2, norm2, wide, active, bend = cache

    def through_linear(dout, x, name):
        dx, dweight, dbias = linear_backward(dout, x, tensors[f"{prefix}.{name}.weight"])
        gradients[f"{prefix}.{name}.weight"][...] = dweight
        gradients[f"{prefix}.{name}.bias"][...] = dbias
        return dx

    def through_norm(dout, norm, name):
        dx, dgain, dbias = norm_backward(dout, norm, tensors[f"{prefix}.{name}.gain"])
        gradients[f"{prefix}.{name}.gain"][...] = dgain
        gradients[f"{prefix}.{name}.bias"][...] = dbias
        return dx

    dwide = gelu_backward(through_linear(dy, active, "contract"), wide, bend)
    dmiddle = dy + through_norm(through_linear(dwide, normal2, "expand"), norm2, "norm2")
    djoined = through_linear(dmiddle, joined, "projection")
    parts = attention_backward(split_heads(djoined, query.shape[1]), query, key, value, weights)
    dmixed_in = np.concatenate([join_heads(part) for part in parts], axis=-1)
    return dmiddle + through_norm(through_linear(dmixed_in, normal1, "attention"), norm1, "norm1")


@dataclass
class ReferenceCache:
    """What `ReferenceBackend.backward` needs from its forward."""

    parameters: np.ndarray
    tokens: np.ndarray
    layers: list
    norm: tuple


class ReferenceBackend(Backend):
    """The readable implementation. Its bits depend on NumPy's build and the machine: see the kernel for equal bits."""

    name = "numpy"

    def forward(self, parameters, tokens, shape: ModelShape) -> Forward:
        check_tokens(tokens, shape)
        tensors = views(shape, parameters)
        x = tensors["token_embedding"][tokens] + tensors["position_embedding"][: tokens.shape[1]]
        caches = []
        for layer in range(shape.layers):
            x, cache = layer_forward(x, tensors, f"layer{layer}", shape.heads)
            caches.append(cache)
        hidden, norm = norm_forward(x, tensors["norm.gain"], tensors["norm.bias"])
        logits = linear_forward(hidden, tensors["head.weight"])
        return Forward(logits, hidden, ReferenceCache(parameters, tokens, caches, norm))

    def backward(self, forward, dlogits, dhidden, shape: ModelShape) -> np.ndarray:
        cache: ReferenceCache = forward.cache
        tensors = views(shape, cache.parameters)
        gradient = np.zeros_like(cache.parameters)
        gradients = views(shape, gradient)
        dnormal = np.zeros_like(forward.hidden) if dhidden is None else dhidden
        if dlogits is not None:
            dthrough, gradients["head.weight"][...], _ = linear_backward(
                dlogits, forward.hidden, tensors["head.weight"]
            )
            dnormal = dnormal + dthrough
        dx, gradients["norm.gain"][...], gradients["norm.bias"][...] = norm_backward(
            dnormal, cache.norm, tensors["norm.gain"]
        )
        for layer in reversed(range(shape.layers)):
            dx = layer_backward(dx, cache.layers[layer], tensors, gradients, f"layer{layer}")
        gradients["position_embedding"][: cache.tokens.shape[1]] = dx.sum(axis=0)
        np.add.at(gradients["token_embedding"], cache.tokens, dx)
        return gradient

    def token_logprobs(self, logits, targets) -> np.ndarray:
        return np.take_along_axis(log_softmax(logits), targets[..., None], axis=-1)[..., 0]

    def probabilities(self, logits) -> np.ndarray:
        return softmax(logits)

    def logprob_gradient(self, logits, targets, weights) -> np.ndarray:
        dlogits = -softmax(logits) * weights[..., None]
        at_target = np.take_along_axis(dlogits, targets[..., None], axis=-1) + weights[..., None]
        np.put_along_axis(dlogits, targets[..., None], at_target.astype(dlogits.dtype), axis=-1)
        return dlogits

    def adam_step(self, vector, gradient, state: AdamState, learning_rate, *, clip_norm=1.0) -> float:
        norm = float(np.sqrt(np.sum(np.square(gradient, dtype=np.float64))))
        if not np.isfinite(norm):
            raise FloatingPointError(f"the gradient of step {state.step + 1} is not finite (norm {norm})")
        if clip_norm is not None and norm > clip_norm:
            gradient = gradient * gradient.dtype.type(clip_norm / norm)
        state.advance()
        one = gradient.dtype.type(1)
        beta1, beta2 = gradient.dtype.type(state.beta1), gradient.dtype.type(state.beta2)
        state.mean[...] = beta1 * state.mean + (one - beta1) * gradient
        state.square[...] = beta2 * state.square + (one - beta2) * gradient * gradient
        rate = gradient.dtype.type(learning_rate / (1.0 - state.beta1_power))
        spread = np.sqrt(state.square * gradient.dtype.type(1.0 / (1.0 - state.beta2_power)))
        vector -= rate * state.mean / (spread + gradient.dtype.type(state.epsilon))
        return norm

    def decode(self, parameters, prompts, length, shape: ModelShape, *, uniforms=None, temperature=1.0) -> Decoded:
        check_decode(prompts, length, shape, uniforms, temperature)
        tensors = views(shape, parameters)
        B, P = prompts.shape
        size = (B, shape.heads, P + length, shape.width // shape.heads)
        past = [(np.zeros(size, parameters.dtype), np.zeros(size, parameters.dtype)) for _ in range(shape.layers)]
        tokens = np.full((B, length), END_TOKEN, dtype=np.int32)
        logprobs = np.zeros((B, length), dtype=parameters.dtype)
        running = np.ones(B, dtype=bool)
        new, position = prompts, 0
        for step in range(length):
            logits = self._extend(tensors, new, position, past, shape)
            position += new.shape[1]
            tempered = logits if uniforms is None else logits / parameters.dtype.type(temperature)
            if uniforms is None:
                choice = np.argmax(tempered, axis=-1)
            else:
                cumulative = np.cumsum(softmax(tempered), axis=-1)
                threshold = uniforms[:, step, None] * cumulative[:, -1:]
                choice = np.minimum((cumulative <= threshold).sum(axis=-1), shape.vocabulary - 1)
            choice = choice.astype(np.int32)
            tokens[running, step] = choice[running]
            logprobs[running, step] = self.token_logprobs(tempered, choice)[running]
            running &= choice != END_TOKEN
            if not running.any():
                break
            new = tokens[:, step : step + 1]
        return Decoded(tokens, logprobs)

    @staticmethod
    def _extend(tensors, new, position, past, shape):
        """Logits (B, V) after feeding (B, S) new tokens at `position`; `past` gains their keys and values."""
        reach = position + new.shape[1]
        x = tensors["token_embedding"][new] + tensors["position_embedding"][position:reach]
        for layer in range(shape.layers):
            x, _ = layer_forward(x, tensors, f"layer{layer}", shape.heads, past[layer], position)
        hidden, _ = norm_forward(x[:, -1], tensors["norm.gain"], tensors["norm.bias"])
        return linear_forward(hidden, tensors["head.weight"])

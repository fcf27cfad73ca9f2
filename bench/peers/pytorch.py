"""The same model in PyTorch, as one would write it: fused layers, attention and Adam, one thread."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from bench.workload import BETA1, BETA2, CLIP_NORM, EPSILON, RATE
from minigpt.model import ModelShape, views
from minigpt.task import END_TOKEN

torch.set_num_threads(1)


def tensors_of(shape: ModelShape, flat: np.ndarray) -> dict[str, torch.Tensor]:
    """Named tensors; matrices as PyTorch's `linear` has them, (out, in)."""
    named = {}
    for name, view in views(shape, flat).items():
        matrix = name.endswith(".weight")
        named[name] = torch.from_numpy(np.ascontiguousarray(view.T if matrix else view).copy())
    return named


def embed(p: dict[str, torch.Tensor], tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return functional.embedding(tokens, p["token_embedding"]) + p["position_embedding"][positions]


def layer(p, prefix: str, x: torch.Tensor, heads: int, attend) -> torch.Tensor:
    """One pre-LayerNorm block; `attend` mixes queries, keys and values of shape (B, H, T, S)."""
    B, T, D = x.shape
    normal = functional.layer_norm(x, (D,), p[f"{prefix}.norm1.gain"], p[f"{prefix}.norm1.bias"], 1e-5)
    mixed_in = functional.linear(normal, p[f"{prefix}.attention.weight"], p[f"{prefix}.attention.bias"])
    query, key, value = (part.view(B, T, heads, D // heads).transpose(1, 2) for part in mixed_in.split(D, dim=2))
    mixed = attend(query, key, value).transpose(1, 2).reshape(B, T, D)
    x = x + functional.linear(mixed, p[f"{prefix}.projection.weight"], p[f"{prefix}.projection.bias"])
    normal = functional.layer_norm(x, (D,), p[f"{prefix}.norm2.gain"], p[f"{prefix}.norm2.bias"], 1e-5)
    wide = functional.linear(normal, p[f"{prefix}.expand.weight"], p[f"{prefix}.expand.bias"])
    active = functional.gelu(wide, approximate="tanh")
    return x + functional.linear(active, p[f"{prefix}.contract.weight"], p[f"{prefix}.contract.bias"])


def head(p, x: torch.Tensor) -> torch.Tensor:
    normal = functional.layer_norm(x, (x.shape[-1],), p["norm.gain"], p["norm.bias"], 1e-5)
    return functional.linear(normal, p["head.weight"])


def causal(query, key, value):
    """Written out when it is compiled, into which it melts; else PyTorch's own. Each is the faster one there."""
    if not torch.compiler.is_compiling():
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    T = query.shape[2]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = query @ key.transpose(2, 3) * query.shape[3] ** -0.5
    return scores.masked_fill(future, -torch.inf).softmax(dim=-1) @ value


def token_logprobs(p, tokens: torch.Tensor, shape: ModelShape) -> torch.Tensor:
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x = embed(p, inputs, torch.arange(inputs.shape[1]))
    for index in range(shape.layers):
        x = layer(p, f"layer{index}", x, shape.heads, causal)
    logits = head(p, x)
    losses = functional.cross_entropy(logits.reshape(-1, shape.vocabulary), targets.reshape(-1), reduction="none")
    return -losses.view(targets.shape)


def weighted_loss(p, tokens: torch.Tensor, weights: torch.Tensor, shape: ModelShape) -> torch.Tensor:
    return (weights * token_logprobs(p, tokens, shape)).sum()


def extend(p, new: torch.Tensor, positions: torch.Tensor, keys, values, shape: ModelShape) -> torch.Tensor:
    """Logits (B, V) after new tokens (B, T) at `positions`; keys and values (L, B, H, S, size) gain theirs."""
    x = embed(p, new, positions)
    seen = torch.arange(keys.shape[3])[None, :] <= positions[:, None]
    for index in range(shape.layers):

        def attend(query, key, value, index=index):
            keys[index].index_copy_(2, positions, key)
            values[index].index_copy_(2, positions, value)
            return functional.scaled_dot_product_attention(query, keys[index], values[index], attn_mask=seen)

        x = layer(p, f"layer{index}", x, shape.heads, attend)
    return head(p, x[:, -1])


def choose(logits: torch.Tensor, uniform: torch.Tensor | None) -> torch.Tensor:
    if uniform is None:
        return logits.argmax(dim=1)
    cumulative = logits.softmax(dim=1).cumsum(dim=1)
    below = cumulative <= uniform[:, None] * cumulative[:, -1:]
    return below.sum(dim=1).clamp(max=logits.shape[1] - 1)


class Eager:
    def __init__(self):
        self.loss, self.token_logprobs, self.extend = weighted_loss, token_logprobs, extend

    def versions(self) -> dict[str, str]:
        return {"PyTorch": f"{torch.__version__}, one thread"}

    def load(self, shape: ModelShape, parameters: np.ndarray) -> None:
        self.shape = shape
        self.reference = tensors_of(shape, parameters)
        self.parameters = {name: tensor.clone().requires_grad_() for name, tensor in self.reference.items()}
        self.optimizer = torch.optim.Adam(
            self.parameters.values(), lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True
        )

    def step(self, tokens: np.ndarray, weights: np.ndarray) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        batch = torch.from_numpy(tokens).long()
        self.loss(self.parameters, batch, torch.from_numpy(weights), self.shape).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), CLIP_NORM, foreach=True)
        self.optimizer.step()

    @torch.no_grad()
    def logprobs(self, tokens: np.ndarray, *, reference: bool = False) -> np.ndarray:
        parameters = self.reference if reference else self.parameters
        return self.token_logprobs(parameters, torch.from_numpy(tokens).long(), self.shape).numpy()

    @torch.no_grad()
    def decode(self, prompts: np.ndarray, length: int, uniforms: np.ndarray | None) -> np.ndarray:
        shape, (B, P) = self.shape, prompts.shape
        size = (shape.layers, B, shape.heads, P + length, shape.width // shape.heads)
        keys, values = torch.zeros(size), torch.zeros(size)
        draws = None if uniforms is None else torch.from_numpy(uniforms)
        tokens = torch.full((B, length), END_TOKEN)
        ended = torch.zeros(B, dtype=torch.bool)
        new, positions = torch.from_numpy(prompts).long(), torch.arange(P)
        for step in range(length):
            logits = self.extend(self.parameters, new, positions, keys, values, shape)
            token = choose(logits, None if draws is None else draws[:, step])
            tokens[:, step] = torch.where(ended, END_TOKEN, token)
            ended |= token == END_TOKEN
            if ended.all():
                break
            new, positions = token[:, None], positions[-1:] + 1
        return tokens.to(torch.int32).numpy()

    def finish(self) -> None:
        pass


class Compiled(Eager):
    """The same under torch.compile: the loss with its backward, the log-probabilities and the decoding step."""

    def __init__(self):
        torch._dynamo.config.recompile_limit = 64  # beyond it, other batch sizes would run uncompiled without a word
        self.loss = torch.compile(weighted_loss, dynamic=False)
        self.token_logprobs = torch.compile(token_logprobs, dynamic=False)
        self.extend = torch.compile(extend, dynamic=False)

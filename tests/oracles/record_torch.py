"""Record what PyTorch computes on our weights: the oracle of tests/test_model_gradients.py.

    pip install torch numpy && python tests/oracles/record_torch.py > tests/golden/autograd.json

The model is written anew here with torch's own layers, not translated from ours.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2]))
from minigpt import model

SEED = 20261201
SHAPE = model.COURSE_SHAPE
torch.set_default_dtype(torch.float64)


def logits_of(tensors, tokens):
    T, D = tokens.shape[1], SHAPE.width
    x = functional.embedding(tokens, tensors["token_embedding"]) + tensors["position_embedding"][:T]
    for layer in range(SHAPE.layers):
        get = {name.removeprefix(f"layer{layer}."): value for name, value in tensors.items()}.get
        normal = functional.layer_norm(x, (D,), get("norm1.gain"), get("norm1.bias"), 1e-5)
        mixed_in = normal @ get("attention.weight") + get("attention.bias")
        heads = [part.unflatten(-1, (SHAPE.heads, -1)).transpose(1, 2) for part in mixed_in.chunk(3, dim=-1)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
        x = x + mixed @ get("projection.weight") + get("projection.bias")
        normal = functional.layer_norm(x, (D,), get("norm2.gain"), get("norm2.bias"), 1e-5)
        wide = functional.gelu(normal @ get("expand.weight") + get("expand.bias"), approximate="tanh")
        x = x + wide @ get("contract.weight") + get("contract.bias")
    hidden = functional.layer_norm(x, (D,), tensors["norm.gain"], tensors["norm.bias"], 1e-5)
    return hidden @ tensors["head.weight"]


def autograd():
    random = np.random.default_rng(SEED)
    parameters = random.normal(0, 0.3, model.parameter_count(SHAPE))
    tokens = torch.tensor(random.integers(0, SHAPE.vocabulary, (4, 16), dtype=np.int32), dtype=torch.long)
    targets = torch.tensor(random.integers(0, SHAPE.vocabulary, (4, 16), dtype=np.int32), dtype=torch.long)
    weights = torch.tensor(random.normal(0, 1, (4, 16)))
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in model.views(SHAPE, parameters).items()}
    logits = logits_of(tensors, tokens)
    logprobs = functional.log_softmax(logits, dim=-1).gather(-1, targets[..., None])[..., 0]
    loss = (logprobs * weights).sum()
    loss.backward()
    return {
        "last_logits": logits[0, -1].tolist(),
        "loss": loss.item(),
        "gradients": {
            name: {"norm": value.grad.norm().item(), "first": value.grad.flatten()[:4].tolist()}
            for name, value in tensors.items()
        },
    }


def adam(steps=5, size=6):
    random = np.random.default_rng(SEED + 1)
    vector = torch.nn.Parameter(torch.tensor(random.normal(0, 1, size)))
    start = vector.tolist()
    optimiser = torch.optim.Adam([vector], lr=0.01, betas=(0.9, 0.99), eps=1e-8)
    gradients, vectors = [], []
    for step in range(steps):
        # Small ones are left alone, large ones are clipped to norm 1.
        gradient = torch.tensor(random.normal(0, 0.1 if step % 2 else 3.0, size))
        gradients.append(gradient.tolist())
        vector.grad = gradient.clone()
        norm = gradient.norm()
        if norm > 1:
            vector.grad *= 1 / norm
        optimiser.step()
        vectors.append(vector.tolist())
    return {"start": start, "gradients": gradients, "vectors": vectors}


print(json.dumps({"torch": torch.__version__, "seed": SEED, "shape": vars(SHAPE), **autograd(), "adam": adam()}))

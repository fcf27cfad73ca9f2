"""Shape of the GPT and layout of its parameters in one flat vector.

The whole model is one vector, so that an optimiser step, a copy, a distance between two models or a checkpoint is one
operation, and NumPy and the compiled kernel share it without copying.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from minigpt.streams import stream
from minigpt.task import VOCABULARY


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a GPT. Raises ValueError if the width does not divide into the heads or a size is not positive."""

    vocabulary: int = len(VOCABULARY)
    context: int = 18
    width: int = 16
    layers: int = 2
    heads: int = 2
    hidden: int = 64

    def __post_init__(self):
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive whole number, got {value!r}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")


COURSE_SHAPE = ModelShape()


@cache
def layout(shape: ModelShape) -> tuple[tuple[str, tuple[int, ...], int], ...]:
    """(name, shape, offset) of every tensor in the flat vector, in order."""
    D, F = shape.width, shape.hidden
    tensors = [("token_embedding", (shape.vocabulary, D)), ("position_embedding", (shape.context, D))]
    for layer in range(shape.layers):
        tensors += [
            (f"layer{layer}.norm1.gain", (D,)),
            (f"layer{layer}.norm1.bias", (D,)),
            (f"layer{layer}.attention.weight", (D, 3 * D)),
            (f"layer{layer}.attention.bias", (3 * D,)),
            (f"layer{layer}.projection.weight", (D, D)),
            (f"layer{layer}.projection.bias", (D,)),
            (f"layer{layer}.norm2.gain", (D,)),
            (f"layer{layer}.norm2.bias", (D,)),
            (f"layer{layer}.expand.weight", (D, F)),
            (f"layer{layer}.expand.bias", (F,)),
            (f"layer{layer}.contract.weight", (F, D)),
            (f"layer{layer}.contract.bias", (D,)),
        ]
    tensors += [("norm.gain", (D,)), ("norm.bias", (D,)), ("head.weight", (D, shape.vocabulary))]
    placed, offset = [], 0
    for name, size in tensors:
        placed.append((name, size, offset))
        offset += prod(size)
    return tuple(placed)


@cache
def parameter_count(shape: ModelShape = COURSE_SHAPE) -> int:
    _, size, offset = layout(shape)[-1]
    return offset + prod(size)


def views(shape: ModelShape, vector: np.ndarray) -> dict[str, np.ndarray]:
    """The named tensors of a flat vector, as views: writing to one writes to the vector."""
    count = parameter_count(shape)
    if vector.shape != (count,):
        raise ValueError(f"a model of this shape has a vector of {count} parameters, got shape {vector.shape}")
    return {name: vector[offset : offset + prod(size)].reshape(size) for name, size, offset in layout(shape)}


def initial_parameters(seed: int, shape: ModelShape = COURSE_SHAPE) -> np.ndarray:
    """Fresh weights (float32): uniform with standard deviation 1/√fan-in, residual outputs divided by √(2·layers).

    Uniform rather than normal: the shape hardly matters at this size and uniform draws have the same bits everywhere.
    Every format starts from the same weights, so that two models of one seed differ only in what they are shown.
    """
    vector = np.zeros(parameter_count(shape), dtype=np.float32)
    draw = stream(seed, "initial-weights")
    for name, tensor in views(shape, vector).items():
        if name.endswith("gain"):
            tensor[...] = 1.0
        elif not name.endswith("bias"):
            fan_in = shape.width if name.endswith("embedding") else tensor.shape[0]
            deviation = 1.0 / np.sqrt(fan_in)
            if name.endswith(("projection.weight", "contract.weight")):
                deviation /= np.sqrt(2.0 * shape.layers)
            # float64 throughout, rounded once: the bits do not depend on NumPy's scalar promotion rules.
            tensor[...] = (draw.random(tensor.shape) * 2.0 - 1.0) * (deviation * np.sqrt(3.0))
    return vector

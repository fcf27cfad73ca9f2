"""Graphs of the course's model for ONNX Runtime Web's training: `python -m bench.ort_graphs OUT` writes them.

The browser's side cannot make them: what it trains is a graph with its gradient, built by the Python package
onnxruntime-training. Made anew in every run, nothing of it is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.training import artifacts, onnxblock

from bench.material import BETA1, BETA2, CLIP_NORM, EPSILON, unpack
from minigpt.model import ModelShape, layout, parameter_count, views

OPSET, IR_VERSION = 17, 9
FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32


class Graph:
    """Nodes in the making; every operation returns the name of its output."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def __call__(self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes):
        names = [f"{operator}_{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, names[0], domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, values, dtype=np.int64) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, dtype=dtype), name))
        return name

    def named(self, result: str, name: str) -> None:
        self.nodes.append(helper.make_node("Identity", [result], [name]))

    def model(self, inputs, outputs, initial: dict[str, np.ndarray]) -> onnx.ModelProto:
        tensors = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in initial.items()]
        graph = helper.make_graph(
            self.nodes,
            "raona",
            [helper.make_tensor_value_info(*value) for value in inputs],
            [helper.make_tensor_value_info(*value) for value in outputs],
            tensors + self.constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def norm(g: Graph, x: str, prefix: str) -> str:
    # The mean and the spread are outputs too: the gradient's builder asks for them.
    return g("LayerNormalization", x, f"{prefix}.gain", f"{prefix}.bias", outputs=3, axis=-1, epsilon=1e-5)[0]


def dense(g: Graph, x: str, prefix: str) -> str:
    return g("Add", g("MatMul", x, f"{prefix}.weight"), f"{prefix}.bias")


def layer(g: Graph, x: str, index: int, shape: ModelShape, past: tuple[str, str] | None):
    """One block; with past keys and values (B, H, S, size) it also returns them with the new ones behind."""
    prefix, size = f"layer{index}", shape.width // shape.heads
    mixed_in = dense(g, norm(g, x, f"{prefix}.norm1"), f"{prefix}.attention")
    heads = g("Reshape", mixed_in, g.constant([0, 0, 3 * shape.heads, size]))
    heads = g("Transpose", heads, perm=[0, 2, 1, 3])
    query, key, value = g("Split", heads, g.constant([shape.heads] * 3), outputs=3, axis=1)
    if past:
        key, value = (g("Concat", old, new, axis=2) for old, new in zip(past, (key, value), strict=True))
    scores = g("MatMul", query, g("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g("Mul", scores, g.constant(1.0 / np.sqrt(size), np.float32))
    mixed = g("MatMul", g("Softmax", g("Add", scores, "mask"), axis=-1), value)
    joined = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), g.constant([0, 0, shape.width]))
    x = g("Add", x, dense(g, joined, f"{prefix}.projection"))
    wide = dense(g, norm(g, x, f"{prefix}.norm2"), f"{prefix}.expand")
    active = g("FastGelu", wide, domain="com.microsoft")
    return g("Add", x, dense(g, active, f"{prefix}.contract")), key, value


def embed(g: Graph, tokens: str) -> str:
    places = g("Gather", "position_embedding", "positions", axis=0)
    return g("Add", g("Gather", "token_embedding", tokens, axis=0), places)


def logits_of(g: Graph, x: str) -> str:
    return g("MatMul", norm(g, x, "norm"), "head.weight")


def losses_of(g: Graph, shape: ModelShape) -> str:
    """(B, T) minus log-probabilities of the targets."""
    x = embed(g, "inputs")
    for index in range(shape.layers):
        x, _, _ = layer(g, x, index, shape, None)
    flat = g("Reshape", logits_of(g, x), g.constant([-1, shape.vocabulary]))
    targets = g("Reshape", "targets", g.constant([-1]))
    losses, _ = g("SoftmaxCrossEntropyLoss", flat, targets, outputs=2, reduction="none")
    return g("Reshape", losses, g("Shape", "targets"))


BATCH_INPUTS = [
    ("inputs", INT32, ["B", "T"]),
    ("positions", INT32, ["T"]),
    ("mask", FLOAT, ["T", "T"]),
    ("targets", INT32, ["B", "T"]),
]


def training_graph(shape: ModelShape, parameters: np.ndarray) -> onnx.ModelProto:
    g = Graph()
    losses = losses_of(g, shape)
    # The loss is Σ weights · log-probability, and `losses` have the other sign.
    g.named(g("ReduceSum", g("Mul", g("Neg", "weights"), losses), keepdims=0), "loss")
    g.named(losses, "losses")
    inputs = [*BATCH_INPUTS, ("weights", FLOAT, ["B", "T"])]
    outputs = [("loss", FLOAT, []), ("losses", FLOAT, ["B", "T"])]
    initial = {name: view.copy() for name, view in views(shape, parameters).items()}
    return g.model(inputs, outputs, initial)


def cut(g: Graph, shape: ModelShape) -> None:
    """The flat input `parameters` as the named tensors, in the order of a training session's own buffer."""
    tensors = layout(shape)
    lengths = g.constant([int(np.prod(size)) for _, size, _ in tensors])
    parts = g("Split", "parameters", lengths, outputs=len(tensors), axis=0)
    for part, (name, size, _) in zip(parts, tensors, strict=True):
        g.nodes.append(helper.make_node("Reshape", [part, g.constant(size)], [name]))


def logprob_graph(shape: ModelShape) -> onnx.ModelProto:
    """Of any weights, given as an input: the reference policy."""
    g = Graph()
    cut(g, shape)
    g.named(losses_of(g, shape), "losses")
    inputs = [("parameters", FLOAT, [parameter_count(shape)]), *BATCH_INPUTS]
    return g.model(inputs, [("losses", FLOAT, ["B", "T"])], {})


def decoding_graph(shape: ModelShape) -> onnx.ModelProto:
    """Logits after new tokens; `past` (2 layers, B, H, S, size) holds keys and values, `present` those and the new."""
    g, size = Graph(), shape.width // shape.heads
    cut(g, shape)
    pasts = g("Split", "past", g.constant([1] * 2 * shape.layers), outputs=2 * shape.layers, axis=0)
    pasts = [g("Squeeze", past, g.constant([0])) for past in pasts]
    x, present = embed(g, "inputs"), []
    for index in range(shape.layers):
        x, key, value = layer(g, x, index, shape, (pasts[2 * index], pasts[2 * index + 1]))
        present += [g("Unsqueeze", part, g.constant([0])) for part in (key, value)]
    g.named(g("Concat", *present, axis=0), "present")
    last = g("Gather", x, g.constant(-1), axis=1)
    g.named(logits_of(g, last), "logits")
    inputs = [
        ("parameters", FLOAT, [parameter_count(shape)]),
        ("inputs", INT32, ["B", "T"]),
        ("positions", INT32, ["T"]),
        ("mask", FLOAT, ["T", "S"]),
        ("past", FLOAT, [2 * shape.layers, "B", shape.heads, "P", size]),
    ]
    outputs = [
        ("logits", FLOAT, ["B", shape.vocabulary]),
        ("present", FLOAT, [2 * shape.layers, "B", shape.heads, "S", size]),
    ]
    return g.model(inputs, outputs, {})


def write(out: Path, shape: ModelShape, parameters: np.ndarray) -> None:
    """training_model, eval_model and optimizer_model.onnx, checkpoint, logprobs.onnx and decoding.onnx."""
    out.mkdir(parents=True, exist_ok=True)
    clip = onnxblock.optim.ClipGradNorm(CLIP_NORM)
    artifacts.generate_artifacts(
        training_graph(shape, parameters),
        requires_grad=[name for name, _, _ in layout(shape)],
        loss_input_names=["loss"],
        additional_output_names=["losses"],
        optimizer=onnxblock.optim.AdamW(betas=(BETA1, BETA2), eps=EPSILON, weight_decay=0.0, clip_grad=clip),
        artifact_directory=out,
    )
    for path in out.glob("*.onnx"):  # those that it starts from nothing have the newest format, which it cannot read
        model = onnx.load(path)
        model.ir_version = IR_VERSION
        onnx.save(model, path)
    onnx.save(logprob_graph(shape), out / "logprobs.onnx")
    onnx.save(decoding_graph(shape), out / "decoding.onnx")


def main(out: str) -> None:
    """Reads {"name": packed material, …} from stdin."""
    for name, material in json.load(sys.stdin).items():
        write(Path(out, name), ModelShape(**material["shape"]), unpack(material["arrays"]["parameters"]))


if __name__ == "__main__":
    main(sys.argv[1])

"""The compiled kernel as a backend: one C source, the same bits natively and in the browser.

Everything here checks arrays, hands their addresses to kernel.c and turns its statuses into errors. Arrays are float32
and tokens int32; memory is NumPy's, so nothing is copied and nothing is left behind.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from functools import cache
from pathlib import Path

import numpy as np

from minigpt.backend import AdamState, Backend, BackendError, Decoded, Forward, check_decode
from minigpt.kernel import build
from minigpt.model import ModelShape, layout, parameter_count
from minigpt.task import END_TOKEN

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int32)

_POINTER, _INT, _LONG, _FLOAT, _DOUBLE = ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_float, ctypes.c_double
_SIGNATURES = {
    "forward_floats": (_LONG, (_POINTER, _INT, _INT)),
    "forward": (_INT, (_POINTER, _INT, _INT, *[_POINTER] * 5, _LONG)),
    "backward_floats": (_LONG, (_POINTER, _INT, _INT)),
    "backward": (_INT, (_POINTER, _INT, _INT, _POINTER, _POINTER, _LONG, *[_POINTER] * 4, _LONG)),
    "step_floats": (_LONG, (_POINTER, _INT, _INT)),
    "step": (_INT, (_POINTER, _INT, _INT, *[_POINTER] * 8, _LONG)),
    "adam": (_INT, (_LONG, *[_POINTER] * 6)),
    "decode_floats": (_LONG, (_POINTER, _INT, _INT, _INT)),
    "decode": (_INT, (_POINTER, _INT, _INT, _INT, *[_POINTER] * 3, _FLOAT, _INT, *[_POINTER] * 3, _LONG)),
    "softmax": (_INT, (_LONG, _INT, _POINTER, _POINTER)),
    "log_softmax": (_INT, (_LONG, _INT, _POINTER, _POINTER)),
    "log_softmax_backward": (_INT, (_LONG, _INT, *[_POINTER] * 3)),
    "token_logprobs": (_INT, (_LONG, _INT, *[_POINTER] * 3)),
    "logprob_gradient": (_INT, (_LONG, _INT, *[_POINTER] * 4)),
    "exp": (None, (_LONG, _POINTER, _POINTER)),
    "log": (None, (_LONG, _POINTER, _POINTER)),
    "sigmoid": (None, (_LONG, _POINTER, _POINTER)),
    "relu": (None, (_LONG, _POINTER, _POINTER)),
    "relu_backward": (None, (_LONG, *[_POINTER] * 3)),
    "sigmoid_backward": (None, (_LONG, *[_POINTER] * 3)),
    "dot": (_DOUBLE, (_LONG, _POINTER, _POINTER)),
    "affine_floats": (_LONG, (_LONG, _INT, _INT)),
    "affine": (_INT, (_LONG, _INT, _INT, *[_POINTER] * 5, _LONG)),
    "affine_backward": (_INT, (_LONG, _INT, _INT, *[_POINTER] * 7, _LONG)),
}

_SETTINGS = struct.Struct("6d")

SMALL_WORKSPACE, BAD_TOKEN, BAD_NORM, BAD_SCORES, BAD_LOGITS, BAD_GRADIENT = range(1, 7)
STATUS_PLACE = 16


def load_library(path: Path) -> ctypes.PyDLL:
    """The functions of a compiled kernel. PyDLL keeps Python's lock, so that threads can share scratch space."""
    library = ctypes.PyDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, f"raona_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def find_library() -> Path:
    """The library of this very source, built if it is missing and a compiler is there. Raises BackendError."""
    path = build.compiled_path()
    if path.exists():
        return path
    if build.has_compiler():
        try:
            return build.build_native(path)
        except build.KernelBuildError as error:
            raise BackendError(str(error)) from error
    remedy = (
        "this build of the site lacks it: build the site again"
        if build.platform() == build.WASM_PLATFORM
        else f"install {build.ZIG_REQUIREMENT} with pip and run `python -m minigpt.kernel`,"
        " or choose the backend 'numpy', which is slower and repeats its numbers only on this machine"
    )
    raise BackendError(f"the compiled kernel is not here ({path.name} in {path.parent}): {remedy}")


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _given(array: np.ndarray, name: str, dtype: np.dtype, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """An input: of the right type and shape, contiguous (copied if it is not)."""
    if array.dtype != dtype or (shape is not None and array.shape != shape):
        expected = f"{dtype}" if shape is None else f"{dtype} of shape {shape}"
        raise ValueError(f"{name} must be {expected}, got {array.dtype} of shape {array.shape}")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _in_place(array: np.ndarray, name: str, shape: tuple[int, ...]) -> int:
    """Address of an array that is written to."""
    flags = array.flags
    if array.dtype != FLOAT or array.shape != shape or not flags.c_contiguous or not flags.writeable:
        raise ValueError(
            f"{name} is changed in place, so it must be a contiguous, writeable float32 array of shape {shape}, got"
            f" {array.dtype} of shape {array.shape}"
        )
    return array.__array_interface__["data"][0]


class _StepScratch:
    """Room for one fused step of B sequences of T positions: what it is given is copied here, which costs less than
    asking NumPy for two addresses, and does for any memory layout."""

    def __init__(self, B: int, T: int, floats: int):
        self.tokens, self.weights = np.empty((B, T + 1), INT), np.empty((B, T), FLOAT)
        self.workspace = np.empty(floats, FLOAT)
        self.tokens_address, self.weights_address = _address(self.tokens), _address(self.weights)
        self.workspace_address = _address(self.workspace)


class _Sizes:
    """A model's shape as the C side reads it, and the scratch space of its fused steps, by their sizes."""

    def __init__(self, shape: ModelShape):
        self.array = np.array(
            [shape.vocabulary, shape.context, shape.width, shape.layers, shape.heads, shape.hidden], dtype=INT
        )
        self.address = _address(self.array)
        self.count = parameter_count(shape)
        self.step_scratch: dict[tuple[int, int], _StepScratch] = {}


class _Workspaces:
    """Workspaces that forward passes have given back, kept for the next ones: a fresh page of memory is slow."""

    KEPT = 8

    def __init__(self):
        self.free: dict[int, list[np.ndarray]] = {}

    def take(self, floats: int) -> np.ndarray:
        spare = self.free.get(floats)
        return spare.pop() if spare else np.empty(floats, dtype=FLOAT)

    def give_back(self, workspace: np.ndarray) -> None:
        spare = self.free.setdefault(workspace.size, [])
        if len(spare) < self.KEPT:
            spare.append(workspace)


class _Kept:
    """What a backward needs of its forward. The workspace is this result's alone until nobody holds the result."""

    def __init__(self, pool: _Workspaces, floats: int, tokens: np.ndarray, shape: ModelShape):
        self.pool, self.workspace, self.tokens, self.shape = pool, pool.take(floats), tokens, shape

    def __del__(self):
        self.pool.give_back(self.workspace)


class KernelBackend(Backend):
    """The compiled kernel. Its bits are the same on every machine, and a batch's do not depend on how it is split."""

    name = "kernel"
    REMEMBERED = 8

    def __init__(self, library: Path | None = None):
        """library: a compiled kernel other than the one beside the package (for tests of other instruction sets)."""
        self._library = load_library(library or find_library())
        self._pool = _Workspaces()
        self._sizes = cache(_Sizes)
        self._known: dict[int, tuple[tuple[np.ndarray, ...], tuple[int, int, int]]] = {}
        self._settings, self._norm = (_DOUBLE * 6)(), _DOUBLE()
        self._settings_address, self._norm_address = map(ctypes.addressof, (self._settings, self._norm))

    # ------------------------------------------------------------------------------------------ the model

    def forward(self, parameters: np.ndarray, tokens: np.ndarray, shape: ModelShape) -> Forward:
        sizes = self._sizes(shape)
        parameters = _given(parameters, "parameters", FLOAT, (sizes.count,))
        B, T = self._check_tokens(tokens, shape, 0)
        # A copy, so that the backward still knows them if the caller's array is used for the next batch.
        tokens = np.array(tokens, dtype=INT, order="C")
        floats = self._library.raona_forward_floats(sizes.address, B, T)
        kept = _Kept(self._pool, floats, tokens, shape)
        logits, hidden = np.empty((B, T, shape.vocabulary), FLOAT), np.empty((B, T, shape.width), FLOAT)
        addresses = map(_address, (parameters, tokens, logits, hidden, kept.workspace))
        status = self._library.raona_forward(sizes.address, B, T, *addresses, floats)
        if status:
            self._fail(status, shape)
        return Forward(logits, hidden, kept)

    def backward(self, forward: Forward, dlogits, dhidden, shape: ModelShape) -> np.ndarray:
        kept: _Kept = forward.cache
        if kept.shape != shape:
            raise ValueError(f"the forward was of another model: {kept.shape}, got {shape}")
        sizes = self._sizes(shape)
        B, T = kept.tokens.shape
        if dlogits is not None:
            dlogits = _given(dlogits, "dlogits", FLOAT, (B, T, shape.vocabulary))
        if dhidden is not None:
            dhidden = _given(dhidden, "dhidden", FLOAT, (B, T, shape.width))
        floats = self._library.raona_backward_floats(sizes.address, B, T)
        workspace = self._pool.take(floats)
        gradient = np.empty(sizes.count, FLOAT)
        status = self._library.raona_backward(
            sizes.address,
            B,
            T,
            _address(kept.tokens),
            _address(kept.workspace),
            kept.workspace.size,
            None if dlogits is None else _address(dlogits),
            None if dhidden is None else _address(dhidden),
            _address(gradient),
            _address(workspace),
            floats,
        )
        self._pool.give_back(workspace)
        if status:
            self._fail(status, shape, gradient=gradient)
        return gradient

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
        """The whole step in one call, with the bits that forward, logprob_gradient, backward and adam_step give."""
        sizes = self._sizes(shape)
        B, T = self._check_tokens(tokens, shape, 1)
        scratch = sizes.step_scratch.get((B, T))
        if scratch is None:
            scratch = _StepScratch(B, T, self._library.raona_step_floats(sizes.address, B, T))
            sizes.step_scratch[B, T] = scratch
        if weights.shape != (B, T) or weights.dtype != FLOAT:
            raise ValueError(f"weights must be float32 of shape {(B, T)}, got {weights.dtype} of shape {weights.shape}")
        scratch.tokens[...] = tokens
        scratch.weights[...] = weights
        parameters_address, mean_address, square_address = self._addresses(parameters, state, (sizes.count,))
        self._set_adam(state, learning_rate, clip_norm)
        status = self._library.raona_step(
            sizes.address,
            B,
            T,
            parameters_address,
            scratch.tokens_address,
            scratch.weights_address,
            mean_address,
            square_address,
            self._settings_address,
            self._norm_address,
            scratch.workspace_address,
            scratch.workspace.size,
        )
        norm = self._norm.value
        if status:
            self._fail(status, shape, step=state.step + 1, norm=norm)
        state.advance()
        return norm

    def adam_step(
        self,
        vector: np.ndarray,
        gradient: np.ndarray,
        state: AdamState,
        learning_rate: float,
        *,
        clip_norm: float | None = 1.0,
    ) -> float:
        shape = vector.shape
        if vector.ndim != 1:
            raise ValueError(f"an optimiser step is taken on a flat vector, got shape {shape}")
        gradient = _given(gradient, "gradient", FLOAT, shape)
        self._set_adam(state, learning_rate, clip_norm)
        vector_address, mean_address, square_address = self._addresses(vector, state, shape)
        status = self._library.raona_adam(
            vector.size,
            vector_address,
            _address(gradient),
            mean_address,
            square_address,
            self._settings_address,
            self._norm_address,
        )
        norm = self._norm.value
        if status:
            self._fail(status, None, step=state.step + 1, norm=norm, gradient=gradient)
        state.advance()
        return norm

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
        check_decode(prompts, length, shape, uniforms, temperature)
        sizes = self._sizes(shape)
        parameters = _given(parameters, "parameters", FLOAT, (sizes.count,))
        prompts = _given(prompts, "prompts", INT)
        B, P = prompts.shape
        if uniforms is not None:
            uniforms = _given(uniforms, "uniforms", FLOAT, (B, length))
            if not (uniforms.min() >= 0.0 and uniforms.max() < 1.0):
                raise ValueError(f"uniforms must lie in [0, 1), got {uniforms.min()} … {uniforms.max()}")
        floats = self._library.raona_decode_floats(sizes.address, B, P, length)
        workspace = self._pool.take(floats)
        tokens, logprobs = np.empty((B, length), INT), np.empty((B, length), FLOAT)
        status = self._library.raona_decode(
            sizes.address,
            B,
            P,
            length,
            _address(parameters),
            _address(prompts),
            None if uniforms is None else _address(uniforms),
            temperature,
            END_TOKEN,
            _address(tokens),
            _address(logprobs),
            _address(workspace),
            floats,
        )
        self._pool.give_back(workspace)
        if status:
            self._fail(status, shape)
        return Decoded(tokens, logprobs)

    # ------------------------------------------------------------------------------------------ rows of logits

    def token_logprobs(self, logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
        logits = _given(logits, "logits", FLOAT)
        targets = _given(targets, "targets", INT, logits.shape[:-1])
        y = np.empty(targets.shape, FLOAT)
        self._rows("token_logprobs", logits, targets, y)
        return y

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        logits = _given(logits, "logits", FLOAT)
        y = np.empty(logits.shape, FLOAT)
        self._rows("softmax", logits, y)
        return y

    def logprob_gradient(self, logits: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        logits = _given(logits, "logits", FLOAT)
        targets = _given(targets, "targets", INT, logits.shape[:-1])
        weights = _given(weights, "weights", FLOAT, targets.shape)
        y = np.empty(logits.shape, FLOAT)
        self._rows("logprob_gradient", logits, targets, weights, y)
        return y

    def log_softmax(self, x: np.ndarray) -> np.ndarray:
        """Log-probabilities over the last axis."""
        x = _given(x, "x", FLOAT)
        y = np.empty(x.shape, FLOAT)
        self._rows("log_softmax", x, y)
        return y

    def log_softmax_backward(self, dy: np.ndarray, y: np.ndarray) -> np.ndarray:
        """dx, from the result y of log_softmax."""
        y = _given(y, "y", FLOAT)
        dy = _given(dy, "dy", FLOAT, y.shape)
        dx = np.empty(y.shape, FLOAT)
        self._rows("log_softmax_backward", dy, y, dx)
        return dx

    # ------------------------------------------------------------------------------------------ small networks

    def affine(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """x (…, I) · weight (I, O) + bias (O) → (…, O)."""
        x, weight, rows = self._affine_arguments(x, weight)
        I, O = weight.shape  # noqa: E741
        if bias is not None:
            bias = _given(bias, "bias", FLOAT, (O,))
        y = np.empty((*x.shape[:-1], O), FLOAT)
        workspace = self._pool.take(self._library.raona_affine_floats(rows, I, O))
        self._library.raona_affine(
            rows,
            I,
            O,
            _address(x),
            _address(weight),
            None if bias is None else _address(bias),
            _address(y),
            _address(workspace),
            workspace.size,
        )
        self._pool.give_back(workspace)
        return y

    def affine_backward(
        self, dy: np.ndarray, x: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns dx, dweight, dbias; the last two are summed over all rows, in their order."""
        x, weight, rows = self._affine_arguments(x, weight)
        I, O = weight.shape  # noqa: E741
        dy = _given(dy, "dy", FLOAT, (*x.shape[:-1], O))
        dx, dweight, dbias = np.empty(x.shape, FLOAT), np.empty((I, O), FLOAT), np.empty(O, FLOAT)
        workspace = self._pool.take(self._library.raona_affine_floats(rows, I, O))
        addresses = map(_address, (dy, x, weight, dx, dweight, dbias, workspace))
        self._library.raona_affine_backward(rows, I, O, *addresses, workspace.size)
        self._pool.give_back(workspace)
        return dx, dweight, dbias

    def exp(self, x: np.ndarray) -> np.ndarray:
        """Elementwise; 0 below −87.3 (never subnormal), infinite above 88.72."""
        return self._each("exp", x)

    def log(self, x: np.ndarray) -> np.ndarray:
        """Elementwise, natural; −inf at 0, NaN below."""
        return self._each("log", x)

    def sigmoid(self, x: np.ndarray) -> np.ndarray:
        return self._each("sigmoid", x)

    def sigmoid_backward(self, dy: np.ndarray, y: np.ndarray) -> np.ndarray:
        """dx, from the result y of sigmoid."""
        return self._each("sigmoid_backward", dy, y)

    def relu(self, x: np.ndarray) -> np.ndarray:
        return self._each("relu", x)

    def relu_backward(self, dy: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self._each("relu_backward", dy, x)

    def dot(self, x: np.ndarray, y: np.ndarray) -> float:
        """Σ x·y, summed in double in a fixed order."""
        x = _given(x, "x", FLOAT)
        y = _given(y, "y", FLOAT, x.shape)
        return self._library.raona_dot(x.size, _address(x), _address(y))

    # ------------------------------------------------------------------------------------------ helpers

    @staticmethod
    def _check_tokens(tokens: np.ndarray, shape: ModelShape, targets: int) -> tuple[int, int]:
        """(B, T) of tokens (B, T + targets). Whether they lie in the vocabulary is seen to by the C side."""
        if tokens.ndim != 2 or not 1 <= tokens.shape[1] - targets <= shape.context or tokens.shape[0] < 1:
            raise ValueError(
                f"tokens must be (B ≥ 1, {1 + targets} ≤ T ≤ {shape.context + targets}), got shape {tokens.shape}"
            )
        if tokens.dtype != INT:
            raise ValueError(f"tokens must be int32, got {tokens.dtype}: the default width differs between platforms")
        return tokens.shape[0], tokens.shape[1] - targets

    def _addresses(self, vector: np.ndarray, state: AdamState, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """Of the three arrays that a step changes. The last ones are remembered: a training asks thousands of times."""
        arrays = (vector, state.mean, state.square)
        known = self._known.get(id(vector))
        if known is not None and all(map(operator.is_, known[0], arrays)):
            return known[1]
        names = ("parameters", "state.mean", "state.square")
        first, second, third = (_in_place(array, name, shape) for array, name in zip(arrays, names, strict=True))
        if len(self._known) >= self.REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[id(vector)] = (arrays, (first, second, third))
        return first, second, third

    def _set_adam(self, state: AdamState, learning_rate: float, clip_norm: float | None) -> None:
        if not (0.0 <= learning_rate < float("inf")):
            raise FloatingPointError(
                f"the learning rate of step {state.step + 1} is {learning_rate}: expected ≥ 0, finite"
            )
        if clip_norm is not None and not clip_norm > 0.0:
            raise ValueError(f"clip_norm must be above 0, or None for no clipping, got {clip_norm}")
        _SETTINGS.pack_into(
            self._settings,
            0,
            state.beta1,
            state.beta2,
            state.epsilon,
            learning_rate / (1.0 - state.beta1_power * state.beta1),
            1.0 / (1.0 - state.beta2_power * state.beta2),
            clip_norm or 0.0,
        )

    def _rows(self, name: str, *arrays: np.ndarray) -> None:
        first = arrays[0]
        if first.ndim < 1 or first.shape[-1] < 1:
            raise ValueError(f"{name} works over the last axis, got shape {first.shape}")
        n = first.shape[-1]
        status = getattr(self._library, f"raona_{name}")(first.size // n, n, *map(_address, arrays))
        if status == BAD_TOKEN:
            raise ValueError(f"targets must lie in 0 … {n - 1}, got {arrays[1].min()} … {arrays[1].max()}")
        if status:
            self._fail(status, None)

    def _each(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        arrays = tuple(_given(array, "an argument", FLOAT, arrays[0].shape) for array in arrays)
        y = np.empty(arrays[0].shape, FLOAT)
        getattr(self._library, f"raona_{name}")(y.size, *map(_address, arrays), _address(y))
        return y

    @staticmethod
    def _affine_arguments(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        weight = _given(weight, "weight", FLOAT)
        if weight.ndim != 2 or x.ndim < 1 or x.shape[-1] != weight.shape[0]:
            raise ValueError(f"affine needs x (…, I) and weight (I, O), got shapes {x.shape} and {weight.shape}")
        x = _given(x, "x", FLOAT)
        return x, weight, x.size // weight.shape[0]

    def _fail(
        self,
        status: int,
        shape: ModelShape | None,
        *,
        step: int | None = None,
        norm: float | None = None,
        gradient: np.ndarray | None = None,
    ) -> None:
        """Raises the error that a status means."""
        what, place = status % STATUS_PLACE, status // STATUS_PLACE
        when = "" if step is None else f" in step {step}"
        if what == BAD_TOKEN:
            assert shape is not None
            raise ValueError(f"tokens must lie in 0 … {shape.vocabulary - 1}; one of those given{when} does not")
        if what == SMALL_WORKSPACE:
            raise RuntimeError(
                "the kernel got a workspace that is too small: its sizes disagree, which is a fault here"
            )
        if what == BAD_NORM:
            layers = 0 if shape is None else shape.layers
            name = "the last LayerNorm" if place == layers else f"a LayerNorm of layer {place}"
            raise FloatingPointError(
                f"the input of {name}{when} is not finite, or too large: the weights have blown up"
            )
        if what == BAD_SCORES:
            raise FloatingPointError(f"the attention scores of layer {place}{when} are not finite")
        if what == BAD_LOGITS:
            raise FloatingPointError(f"the logits{when} are not finite")
        where = ""
        if gradient is not None and not np.isfinite(gradient).all():
            index = int(np.argmin(np.isfinite(gradient)))
            where = f", first at index {index}"
            if shape is not None:
                where = f", first in {[name for name, _, offset in layout(shape) if offset <= index][-1]}"
        size = "" if norm is None else f" (norm {norm})"
        reason = "too large to be squared" if norm is not None and np.isfinite(norm) else "not finite"
        raise FloatingPointError(f"the gradient{when or ' of this step'} is {reason}{size}{where}")

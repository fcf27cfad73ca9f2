"""Claims about the kernel's errors: what is not finite stops a run by name; a missing kernel comes with the remedy."""

import sys

import numpy as np
import pytest

from minigpt import kernel, task
from minigpt.backend import AdamState, BackendError
from minigpt.kernel import KernelBackend, build
from minigpt.model import COURSE_SHAPE, ModelShape, initial_parameters, parameter_count, views

KERNEL = KernelBackend()
TOKENS = np.ascontiguousarray(task.token_table("reasoned")[:4])
INPUTS = np.ascontiguousarray(TOKENS[:, :-1])
PROMPTS = TOKENS[:, :7].copy()
WEIGHTS = np.full((4, 16), -1 / 64, np.float32)


def broken(name, value, index=0):
    parameters = initial_parameters(1)
    views(COURSE_SHAPE, parameters)[name].reshape(-1)[index] = value
    return parameters


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name, said",
    [
        ("position_embedding", "a LayerNorm of layer 0"),
        ("layer0.attention.bias", "attention scores of layer 0"),
        ("layer0.contract.bias", "a LayerNorm of layer 1"),
        ("layer1.expand.bias", "the last LayerNorm"),
        ("norm.bias", "the logits"),
        ("head.weight", "the logits"),
    ],
)
def test_weights_that_are_not_finite_are_an_error_that_names_where(name, said, value):
    parameters = broken(name, value)
    if name == "layer0.attention.bias" and np.isinf(value):
        said = "layer 0"
    for attempt in (
        lambda: KERNEL.forward(parameters, INPUTS, COURSE_SHAPE),
        lambda: KERNEL.decode(parameters, PROMPTS, 5, COURSE_SHAPE),
    ):
        with pytest.raises(FloatingPointError, match=said):
            attempt()


def test_a_failed_step_names_itself_and_changes_nothing():
    parameters = broken("layer1.norm1.gain", np.nan)
    before, state = parameters.copy(), AdamState.like(parameters)
    state.advance()
    with pytest.raises(FloatingPointError, match=r"layer 1 in step 2"):
        KERNEL.sft_step(parameters, TOKENS, WEIGHTS, state, 0.01, COURSE_SHAPE)
    np.testing.assert_array_equal(parameters, before)
    assert not state.mean.any()
    assert state.step == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_never_taken(bad):
    vector, gradient = np.ones(10, np.float32), np.ones(10, np.float32)
    gradient[3] = bad
    state = AdamState.like(vector)
    with pytest.raises(FloatingPointError, match=r"gradient in step 1 is not finite.*index 3"):
        KERNEL.adam_step(vector, gradient, state, 0.1)
    assert (vector == 1).all()
    assert not state.square.any()
    assert state.step == 0


def test_a_gradient_whose_square_overflows_is_an_error_rather_than_a_standstill():
    vector = np.ones(4, np.float32)
    with pytest.raises(FloatingPointError, match="too large to be squared"):
        KERNEL.adam_step(vector, np.full(4, 1e20, np.float32), AdamState.like(vector), 0.1, clip_norm=None)
    assert KERNEL.adam_step(vector, np.full(4, 1e20, np.float32), AdamState.like(vector), 0.1) == pytest.approx(2e20)


def test_the_backward_names_the_tensor_that_broke():
    forward = KERNEL.forward(initial_parameters(1), INPUTS, COURSE_SHAPE)
    dlogits = np.zeros((4, 16, 16), np.float32)
    dlogits[0, 0, 0] = np.inf
    with pytest.raises(FloatingPointError, match="token_embedding"):
        KERNEL.backward(forward, dlogits, None, COURSE_SHAPE)


@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_an_error(weight):
    weights, parameters = WEIGHTS.copy(), initial_parameters(1)
    weights[2, 9] = weight
    with pytest.raises(FloatingPointError, match="gradient in step 1"):
        KERNEL.sft_step(parameters, TOKENS, weights, AdamState.like(parameters), 0.01, COURSE_SHAPE)
    np.testing.assert_array_equal(parameters, initial_parameters(1))


def test_logits_that_are_not_finite_are_an_error():
    logits, targets = np.zeros((2, 5), np.float32), np.zeros(2, np.int32)
    logits[1, 4] = np.nan
    for attempt in (
        lambda: KERNEL.probabilities(logits),
        lambda: KERNEL.log_softmax(logits),
        lambda: KERNEL.token_logprobs(logits, targets),
        lambda: KERNEL.logprob_gradient(logits, targets, np.ones(2, np.float32)),
    ):
        with pytest.raises(FloatingPointError, match="logits are not finite"):
            attempt()


@pytest.mark.parametrize("rate", [np.nan, np.inf, -0.1])
def test_a_learning_rate_that_makes_no_sense_is_an_error(rate):
    vector = np.ones(3, np.float32)
    with pytest.raises(FloatingPointError, match="learning rate of step 1"):
        KERNEL.adam_step(vector, vector.copy(), AdamState.like(vector), rate)


@pytest.mark.parametrize(
    "attempt, said",
    [
        (lambda p: KERNEL.forward(p, INPUTS.astype(np.int64), COURSE_SHAPE), "int32"),
        (lambda p: KERNEL.forward(p, INPUTS[:0], COURSE_SHAPE), "B ≥ 1"),
        (lambda p: KERNEL.forward(p, np.zeros((1, 19), np.int32), COURSE_SHAPE), "T ≤ 18"),
        (lambda p: KERNEL.forward(p, np.full((1, 3), 16, np.int32), COURSE_SHAPE), "0 … 15"),
        (lambda p: KERNEL.forward(p, np.full((1, 3), -1, np.int32), COURSE_SHAPE), "0 … 15"),
        (lambda p: KERNEL.forward(p.astype(np.float64), INPUTS, COURSE_SHAPE), "float32"),
        (lambda p: KERNEL.forward(p[:-1], INPUTS, COURSE_SHAPE), "parameters must be"),
        (lambda p: KERNEL.sft_step(p, INPUTS, WEIGHTS, AdamState.like(p), 0.1, COURSE_SHAPE), "weights must be"),
        (lambda p: KERNEL.sft_step(p[::-1], TOKENS, WEIGHTS, AdamState.like(p), 0.1, COURSE_SHAPE), "in place"),
        (lambda p: KERNEL.sft_step(p, TOKENS + np.int32(9), WEIGHTS, AdamState.like(p), 0.1, COURSE_SHAPE), "0 … 15"),
        (lambda p: KERNEL.token_logprobs(np.zeros((2, 4), np.float32), np.full(2, 4, np.int32)), "0 … 3"),
        (lambda p: KERNEL.decode(p, PROMPTS, 13, COURSE_SHAPE), "room"),
        (lambda p: KERNEL.decode(p, PROMPTS, 2, COURSE_SHAPE, uniforms=np.ones((4, 2), np.float32)), r"\[0, 1\)"),
        (lambda p: KERNEL.decode(p, PROMPTS, 2, COURSE_SHAPE, uniforms=np.zeros((4, 2))), "float32"),
        (lambda p: KERNEL.affine(p, np.zeros((3, 3), np.float32)), "affine needs"),
        (lambda p: KERNEL.exp(np.zeros(3)), "float32"),
    ],
)
def test_arrays_of_the_wrong_kind_are_said_with_what_was_expected(attempt, said):
    with pytest.raises(ValueError, match=said):
        attempt(initial_parameters(1))


def test_a_forward_of_another_model_is_refused():
    small = ModelShape(width=8, hidden=8)
    forward = KERNEL.forward(np.zeros(parameter_count(small), np.float32), INPUTS, small)
    with pytest.raises(ValueError, match="another model"):
        KERNEL.backward(forward, np.zeros((4, 16, 16), np.float32), None, COURSE_SHAPE)


# ---- without the library


def test_without_library_and_compiler_the_error_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "compiled_path", lambda *_: tmp_path / build.compiled_name("nowhere"))
    monkeypatch.setattr(build, "has_compiler", lambda: False)
    with pytest.raises(BackendError, match=r"install ziglang==.*python -m minigpt\.kernel.*backend 'numpy'"):
        KernelBackend()
    monkeypatch.setattr(build, "platform", lambda: build.WASM_PLATFORM)
    with pytest.raises(BackendError, match="build the site again"):
        KernelBackend()


def test_a_missing_library_is_built_where_there_is_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel.build, "compiled_path", lambda *_: tmp_path / "kernel.so")
    assert KernelBackend().exp(np.zeros(1, np.float32))[0] == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.so"]


def test_a_library_of_another_source_is_not_found(monkeypatch, tmp_path):
    """Its name carries the digest of the source and the flags."""
    changed = tmp_path / "kernel.c"
    changed.write_bytes(build.SOURCE.read_bytes() + b"\n")
    before = build.compiled_path()
    monkeypatch.setattr(build, "SOURCE", changed)
    assert build.compiled_path() != before


def test_a_source_that_does_not_compile_is_a_clear_error_and_leaves_nothing(monkeypatch, tmp_path):
    wrong = tmp_path / "wrong.c"
    wrong.write_text("int f(void) { return nothing; }\n")
    monkeypatch.setattr(build, "SOURCE", wrong)
    for make in (build.build_native, build.build_wasm):
        with pytest.raises(build.KernelBuildError, match="undeclared identifier"):
            make(tmp_path / "out" / "kernel.so")
    assert list((tmp_path / "out").iterdir()) == []


def test_without_ziglang_the_build_says_which_package_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "has_compiler", lambda: False)
    with pytest.raises(build.KernelBuildError, match=f"pip install {build.ZIG_REQUIREMENT}"):
        build.build_native(tmp_path / "kernel.so")


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(build.KernelBuildError, match="could not be written"):
        build.build_native(tmp_path / "file" / "kernel.so")


def test_the_pinned_compiler_is_the_one_installed():
    from importlib.metadata import version

    assert f"ziglang=={version('ziglang')}" == build.ZIG_REQUIREMENT
    assert sys.version_info >= (3, 11)

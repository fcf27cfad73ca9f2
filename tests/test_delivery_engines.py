"""The engines besides Chromium: found, installed where we may, and said in one line where they are missing."""

from pathlib import Path

import pytest

from builder import engines, environment
from builder.engines import ENGINES
from builder.environment import Environment
from builder.errors import BuildError

ALL = ["chromium", "firefox", "webkitgtk", "aarch64"]


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine with none of the engines, whose apt-get brings what `debian` says."""
    monkeypatch.delenv(engines.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engines, "WEBKITGTK_FOLDERS", (tmp_path / "webkit",))
    monkeypatch.setattr(engines, "runs_aarch64", lambda: False)
    return tmp_path


def program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)


def test_all_engines_are_wanted_unless_some_are_named(monkeypatch):
    monkeypatch.delenv(engines.VARIABLE, raising=False)
    assert engines.wanted() == ALL
    monkeypatch.setenv(engines.VARIABLE, "chromium")
    assert engines.wanted() == ["chromium"]
    assert engines.missing() == []
    monkeypatch.setenv(engines.VARIABLE, " firefox, chromium,")
    assert engines.wanted() == ["firefox", "chromium"]


@pytest.mark.parametrize(
    "given, said", [("firefx", "Did you mean firefox?"), ("", "names no engine"), (" , ", "unset")]
)
def test_a_list_that_names_no_engine_is_refused(monkeypatch, given, said):
    monkeypatch.setenv(engines.VARIABLE, given)
    with pytest.raises(BuildError, match=r"RAONA_ENGINES names") as caught:
        engines.missing()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name, program, package", [
    ("firefox", "firefox", "firefox-esr"),
    ("webkitgtk", "WebKitWebDriver and MiniBrowser and Xvfb", "webkit2gtk-driver xvfb"),
    ("aarch64", "qemu-aarch64", "qemu-user"),
])  # fmt: skip
def test_a_missing_engine_is_said_in_one_line_with_its_remedy(bare, name, program, package):
    assert [engine.name for engine in engines.missing()] == ALL[1:]
    message = ENGINES[name].complaint()
    with pytest.raises(BuildError, match="cannot be found"):
        ENGINES[name].programs()
    assert f"{program} cannot be found" in message
    assert f"apt install {package})" in message
    assert "RAONA_ENGINES=chromium make test" in message
    assert "\n" not in message


def test_an_engine_is_found_where_it_lies(bare):
    for path in ("firefox", "WebKitWebDriver", "Xvfb", "qemu-aarch64", "webkit/webkit2gtk-4.1/MiniBrowser"):
        program(bare / path)
    assert engines.missing() == []
    assert ENGINES["firefox"].programs() == {"firefox": bare / "firefox"}
    program(bare / "firefox-esr")
    assert ENGINES["firefox"].programs() == {"firefox": bare / "firefox-esr"}, (
        "the one that is known to work goes first"
    )
    assert ENGINES["webkitgtk"].programs()["MiniBrowser"] == bare / "webkit/webkit2gtk-4.1/MiniBrowser"


def test_an_arm_machine_needs_no_emulator(bare, monkeypatch):
    monkeypatch.setattr(engines, "runs_aarch64", lambda: True)
    assert ENGINES["aarch64"].programs() == {}


def test_root_on_debian_installs_only_what_is_missing_and_only_once(bare, monkeypatch):
    asked = []

    def install(packages, what):
        asked.append(packages)
        program(bare / {"firefox-esr": "firefox-esr", "qemu-user": "qemu-aarch64"}[packages])

    for path in ("WebKitWebDriver", "Xvfb", "webkit/webkit2gtk-4.1/MiniBrowser"):
        program(bare / path)
    monkeypatch.setattr(environment, "is_debian_root", lambda: True)
    monkeypatch.setattr(environment, "apt_install", install)
    for _ in range(2):
        Environment(bare).ensure_engines()
    assert asked == ["firefox-esr", "qemu-user"]


@pytest.mark.parametrize("root", [False, True], ids=["not root", "root, and apt-get fails"])
def test_what_cannot_be_installed_is_said_and_does_not_stop_the_rest(bare, monkeypatch, capsys, root):
    monkeypatch.setattr(environment, "is_debian_root", lambda: root)
    monkeypatch.setattr(environment, "apt_install", lambda packages, what: None)
    Environment(bare).ensure_engines()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" is needed")[0] for line in lines] == [
        "raona: Firefox",
        "raona: WebKitGTK",
        "raona: An emulator of 64-bit ARM",
    ]
    monkeypatch.setenv(engines.VARIABLE, "chromium")
    Environment(bare).ensure_engines()
    assert capsys.readouterr().err == ""

"""The browser engines, besides Chromium, and the other processor on which the tests compare the kernel's bits.

RAONA_ENGINES names those to test in, separated by commas (RAONA_ENGINES=chromium,firefox); without it, all. Standard
library only.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from builder.errors import BuildError, expected

VARIABLE = "RAONA_ENGINES"
CHROMIUM = "chromium"
"""Every browser test needs it, so it is looked for and installed apart: see environment.py."""
WEBKITGTK_FOLDERS = (*Path("/usr/lib").glob("*-linux-gnu*"), Path("/usr/lib"), Path("/usr/libexec"), Path("/usr/lib64"))


@dataclass(frozen=True)
class Engine:
    """Something that tests need besides Chromium. `packages`: Debian's, which bring the programs."""

    name: str
    title: str
    packages: tuple[str, ...]
    find: Callable[[], dict[str, Path | None]]

    def programs(self) -> dict[str, Path]:
        """By their names. Raises BuildError if any is missing."""
        complaint = self.complaint()
        if complaint:
            raise BuildError(complaint)
        return {program: path for program, path in self.find().items() if path is not None}

    def complaint(self) -> str:
        """What is missing on this machine and what to do, in one line; empty if nothing is."""
        missing = [program for program, path in self.find().items() if path is None]
        if not missing:
            return ""
        title = self.title[0].upper() + self.title[1:]
        return (
            f"{title} is needed to compare bits: {' and '.join(missing)} cannot be found. "
            f"Install it (Debian: apt install {' '.join(self.packages)}), or name what to test in: "
            f"{VARIABLE}={CHROMIUM} make test."
        )


def first(*names: str) -> Path | None:
    """The first of these programs that is on PATH."""
    return next((Path(path) for path in map(shutil.which, names) if path), None)


def find_firefox() -> dict[str, Path | None]:
    return {"firefox": first("firefox-esr", "firefox")}


def find_webkitgtk() -> dict[str, Path | None]:
    """MiniBrowser lies beside the engine's own programs, in a folder that only WebKitGTK knows."""
    places = [path for folder in WEBKITGTK_FOLDERS for path in folder.glob("webkit*gtk-*/MiniBrowser")]
    browser = max(places, default=None, key=lambda path: path.parent.name)
    return {"WebKitWebDriver": first("WebKitWebDriver"), "MiniBrowser": browser, "Xvfb": first("Xvfb")}


def find_emulator() -> dict[str, Path | None]:
    if runs_aarch64():
        return {}
    return {"qemu-aarch64": first("qemu-aarch64", "qemu-aarch64-static")}


def runs_aarch64() -> bool:
    """This machine is one itself."""
    return platform.system() == "Linux" and platform.machine() in ("aarch64", "arm64")


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("firefox", "Firefox", ("firefox-esr",), find_firefox),
        Engine("webkitgtk", "WebKitGTK", ("webkit2gtk-driver", "xvfb"), find_webkitgtk),
        Engine("aarch64", "an emulator of 64-bit ARM", ("qemu-user",), find_emulator),
    )
}


def wanted() -> list[str]:
    """The names in RAONA_ENGINES; all if it is not set. Raises BuildError for an empty list or an unknown name."""
    known = [CHROMIUM, *ENGINES]
    given = os.environ.get(VARIABLE)
    if given is None:
        return known
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise BuildError(f"{VARIABLE} names {name!r}, which is no engine.", expected(known, name))
    if not names:
        raise BuildError(f"{VARIABLE} names no engine.", f"{expected(known)} Or unset it, to test in all.")
    return names


def missing() -> list[Engine]:
    """Those wanted that are not on this machine."""
    return [ENGINES[name] for name in wanted() if name in ENGINES and ENGINES[name].complaint()]

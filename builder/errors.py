"""What a failed build says: where, what is wrong, what was expected, what to do. Its readers are maintainers."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """One thing wrong with the sources. `line` counts from 1."""

    what: str
    fix: str
    path: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = ""
        if self.path is not None:
            place = relative(self.path) + (f":{self.line}" if self.line else "") + ": "
        return f"{place}{self.what} {self.fix}"


class BuildError(Exception):
    """The build cannot go on. Carries every problem found, so that one run shows them all."""

    def __init__(
        self, what: str | Iterable[Problem], fix: str = "", *, path: Path | None = None, line: int | None = None
    ):
        self.problems = [Problem(what, fix, path, line)] if isinstance(what, str) else list(what)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Problems:
    """Collects problems while the sources are read; `stop_if_any` ends the build."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, what: str, fix: str, *, path: Path | None = None, line: int | None = None) -> None:
        problem = Problem(what, fix, path, line)
        if problem not in self.found:
            self.found.append(problem)

    def stop_if_any(self) -> None:
        if self.found:
            raise BuildError(sorted(self.found, key=lambda problem: (str(problem.path or ""), problem.line or 0)))


def relative(path: Path) -> str:
    """The path as a maintainer would type it: below the working directory if it is there."""
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return os.fspath(path)


def expected(names: Iterable[str], received: str | None = None) -> str:
    """ "Expected one of a, b, c." with the likely one first said, if a name was only mistyped."""
    known = sorted(names)
    if not known:
        return "None is defined."
    near = difflib.get_close_matches(received, known, n=1) if received else []
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{hint}Expected one of: {', '.join(known)}."

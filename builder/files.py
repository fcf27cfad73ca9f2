"""Files that others may read while they are written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from builder.errors import BuildError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, its folders too, so that nobody ever reads half of it; the last of several writers wins.

    Raises BuildError if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".part", dir=path.parent)
        part = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            part.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        raise BuildError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Make room there, or name another folder: --cache DIR.",
        ) from None

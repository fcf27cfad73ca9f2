"""The native doors' checkpoint store: one safetensors file per key, in the user's cache folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """`$RAONA_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("RAONA_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "raona"


class FileStore:
    """Checkpoints as files. Written whole or not at all; what cannot be read is reported as missing."""

    def __init__(self, folder: Path | None = None):
        self.folder = folder or cache_folder() / "checkpoints"

    def _path(self, key: str) -> Path:
        return self.folder / (key.replace("/", "-") + ".safetensors")

    def get(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except OSError:
            return None

    def put(self, key: str, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=self.folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).replace(self._path(key))

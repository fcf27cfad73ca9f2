"""Zip files whose bytes depend on nothing but their contents."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping

# The earliest moment a zip can carry: no clock, time zone or file system reaches the bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def zip_bytes(entries: Mapping[str, bytes]) -> bytes:
    """The deflated archive of `entries` (name -> contents), in the order of their names, dist-info last."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(entries, key=lambda name: (".dist-info/" in name, name)):
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, also when built on Windows
            info.external_attr = 0o100644 << 16
            archive.writestr(info, entries[name], compresslevel=9)
    return buffer.getvalue()


def unzipped(archive: bytes) -> dict[str, bytes]:
    """Name -> contents of an archive's files."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist() if not name.endswith("/")}


def wheel_bytes(entries: Mapping[str, bytes], record_name: str) -> bytes:
    """The wheel of these files with a RECORD that says what they are, replacing a former one."""
    return zip_bytes({**entries, record_name: record(entries, record_name)})


def record(entries: Mapping[str, bytes], record_name: str) -> bytes:
    """The RECORD of a wheel: name, urlsafe base64 of the sha256, size. Source: the wheel specification (PEP 427)."""
    lines = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in sorted(entries.items())
        if name != record_name
    ]
    return ("\n".join([*lines, f"{record_name},,"]) + "\n").encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

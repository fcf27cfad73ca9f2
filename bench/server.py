"""A static server as hosts of such sites are: it sends text and WebAssembly compressed with gzip."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.server
import posixpath
import threading
import urllib.parse
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from builder.serve import IMMUTABLE, TYPES

LEVEL = 6
WORTH_IT = 0.95
"""Bodies that gzip does not bring below this share (wheels, fonts) are sent as they are."""


@cache
def body(path: Path, stamp: int) -> tuple[bytes, bytes | None, str]:
    """(the file, the same compressed if that is worth it, its entity tag). Compressed once, before it is asked for."""
    data = path.read_bytes()
    squeezed = gzip.compress(data, LEVEL, mtime=0)
    worth = len(squeezed) < WORTH_IT * len(data)
    return data, squeezed if worth else None, f'"{hashlib.sha256(data).hexdigest()[:16]}"'


class Handler(http.server.BaseHTTPRequestHandler):
    """Files below a folder; a folder's index.html. The site's caching rules are those of builder.serve."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def __init__(self, *arguments, root: Path, **options):
        self.root = root
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        path = posixpath.normpath(urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)).lstrip("/")
        file = self.root / path
        if file.is_dir():
            file = file / "index.html"
        if not file.is_file():
            self.send_error(404)
            return
        data, squeezed, tag = body(file, file.stat().st_mtime_ns)
        fresh = self.headers.get("If-None-Match") == tag
        self.send_response(304 if fresh else 200)
        lasting = any(folder in IMMUTABLE for folder in path.split("/")[:2])
        self.send_header("Cache-Control", "public, max-age=31536000, immutable" if lasting else "no-cache")
        self.send_header("ETag", tag)
        if not fresh:
            compressed = squeezed is not None and "gzip" in self.headers.get("Accept-Encoding", "")
            sent = squeezed if compressed and squeezed is not None else data
            self.send_header("Content-Type", TYPES.get(file.suffix, "application/octet-stream"))
            self.send_header("Vary", "Accept-Encoding")
            if compressed:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if not fresh:
            self.wfile.write(sent)

    def log_message(self, format: str, *arguments) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address) -> None:
        pass  # a browser that goes away in the middle is no fault


@contextlib.contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve a folder on localhost while the block runs; gives its address, with the final slash."""
    for path in root.rglob("*"):
        if path.is_file():
            body(path, path.stat().st_mtime_ns)
    with Server(("127.0.0.1", 0), partial(Handler, root=root)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()

"""A small static server for looking at the built site and for testing it; any other static server does as well."""

from __future__ import annotations

import contextlib
import errno
import functools
import http.server
import os
import posixpath
import socket
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

from builder.errors import BuildError

FIRST_PORT = 8000
PORTS_TO_TRY = 20

# Said here and not left to the machine's registry, which on some has none of these or wrong ones.
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ipynb": "application/json",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".whl": "application/zip",
    ".woff2": "font/woff2",
    ".xml": "application/xml",
    ".zip": "application/zip",
}
# Folders whose addresses depend on their contents: what was fetched once never changes.
IMMUTABLE = ("assets", "pyodide", "runtime")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of one folder under a prefix."""

    protocol_version = "HTTP/1.1"
    server_version = "raona"
    path = ""  # a malformed request is answered before it has one
    status = HTTPStatus.OK

    def __init__(self, *args, prefix: str, types: Mapping[str, str], log: Callable[[str], object] | None, **kwargs):
        self.prefix, self.log = prefix, log
        self.extensions_map = {"": "application/octet-stream", **TYPES, **types}
        super().__init__(*args, **kwargs)

    def send_head(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == self.prefix.rstrip("/") and path:
            return self._send_to(self.prefix)
        if not path.startswith(self.prefix):
            self.send_error(HTTPStatus.NOT_FOUND, f"The site is at {self.prefix}")
            return None
        return super().send_head()

    def translate_path(self, path: str) -> str:
        return super().translate_path("/" + path.removeprefix(self.prefix))

    def list_directory(self, path):
        self.send_error(HTTPStatus.NOT_FOUND, "No page here")
        return

    def send_response(self, code, message=None) -> None:
        self.status = code
        super().send_response(code, message)

    def end_headers(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path.removeprefix(self.prefix))
        folder = posixpath.normpath(path).lstrip("/").split("/")[0]
        # Not for errors: a file that is missing today may be there tomorrow.
        lasting = folder in IMMUTABLE and self.status in (HTTPStatus.OK, HTTPStatus.NOT_MODIFIED)
        self.send_header("Cache-Control", "public, max-age=31536000, immutable" if lasting else "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args) -> None:
        if self.log is not None:
            self.log(format % args)

    def _send_to(self, location: str):
        self.send_response(HTTPStatus.MOVED_PERMANENTLY)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    prefix = "/"
    allow_reuse_address = os.name != "nt"  # on Windows it would let two servers share a port

    def handle_error(self, request, client_address) -> None:
        if not isinstance(
            sys.exc_info()[1], (ConnectionError, TimeoutError)
        ):  # a reader who closes the tab is no error
            super().handle_error(request, client_address)


def make_server(
    directory: Path,
    *,
    bind: str = "127.0.0.1",
    port: int | None = None,
    prefix: str = "/",
    types: Mapping[str, str] | None = None,
    log: Callable[[str], object] | None = None,
) -> Server:
    """A server of `directory`, bound but not yet running.

    port: 0 for any free one, None for the first free one from 8000.
    prefix: where the site lies, e.g. "/curs/ia/".
    types: MIME types by suffix that replace the right ones, to act like hosts that know them wrongly.
    Raises BuildError if there is no site, or the port is taken or not allowed.
    """
    if not (directory / "index.html").is_file():
        raise BuildError(f"There is no built site in {directory}.", "Build it first: make build.")
    prefix = f"/{prefix.strip('/')}/".replace("//", "/")
    handler = functools.partial(Handler, directory=os.fspath(directory), prefix=prefix, types=types or {}, log=log)
    wanted = range(FIRST_PORT, FIRST_PORT + PORTS_TO_TRY) if port is None else [port]
    for number in wanted:
        try:
            server = Server((bind, number), handler)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            raise _refused(error, bind, number) from None
        except OverflowError:
            raise BuildError(f"There is no port {number}.", "Choose one from 1 to 65535.") from None
        server.prefix = prefix
        return server
    raise BuildError(
        f"All ports from {FIRST_PORT} to {FIRST_PORT + PORTS_TO_TRY - 1} are taken.",
        "Choose a free one: make serve PORT=9000.",
    )


def _refused(error: OSError, bind: str, port: int) -> BuildError:
    if error.errno == errno.EADDRINUSE:
        return BuildError(
            f"Port {port} is taken by another program.",
            "Stop that program, choose another port (make serve PORT=9000) or give none, to take the first free one.",
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return BuildError(f"{bind} is no address of this machine.", "Use 127.0.0.1, or 0.0.0.0 for the whole network.")
    if error.errno == errno.EACCES:
        return BuildError(f"Port {port} needs rights that you do not have.", "Choose one from 1024 on.")
    return BuildError(f"The server cannot listen on {bind}, port {port}: {error}.", "Choose another address or port.")


@contextlib.contextmanager
def running(directory: Path, **options) -> Iterator[str]:
    """Serve while the block runs; gives the site's address, with its final slash. Takes any free port by default."""
    with make_server(directory, **{"port": 0, **options}) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield address(server)
        finally:
            server.shutdown()
            thread.join()


def serve(directory: Path, *, say: Callable[[str], object] = print, **options) -> None:
    """Serve until interrupted, after saying where."""
    with make_server(directory, **options) as server:
        say(f"Raona is at {address(server)}  (Ctrl+C stops it)")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
        say("Stopped.")


def address(server: Server) -> str:
    host, port = server.server_address[:2]
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else str(host)
    return f"http://{shown}:{port}{server.prefix}"

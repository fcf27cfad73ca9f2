"""What every browser test needs: a real Chromium and a plain static server."""

from __future__ import annotations

import contextlib
import functools
import http.server
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

from builder.environment import NO_BROWSER_FIX, find_browser

TYPES = {".js": "text/javascript", ".wasm": "application/wasm", ".css": "text/css", ".json": "application/json"}


@pytest.fixture(scope="session")
def chromium_options() -> dict[str, Any]:
    """How to launch Chromium: the one that `make test` found or installed, or that RAONA_BROWSER names."""
    browser = find_browser(Path(sys.executable))
    if browser is None:
        pytest.fail(f"No browser was found. {NO_BROWSER_FIX}", pytrace=False)
    return {"executable_path": browser, "args": ["--no-sandbox"]}


@pytest.fixture(scope="session")
def chromium(chromium_options: dict[str, Any]) -> Iterator[Browser]:
    """Headless Chromium, one for the whole session; give each test its own context."""
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(**chromium_options)
        except Error as error:
            pytest.fail(
                f"Chromium could not be started ({str(error).splitlines()[0]}). {NO_BROWSER_FIX}", pytrace=False
            )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lan_address() -> str:
    """An address of this machine that browsers do not trust as they do localhost: plain http there is insecure."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only asks which address would be used
        except OSError:
            pytest.skip("this machine has no address besides localhost")
        return probe.getsockname()[0]


class Served:
    """A folder on the local network. `hits` counts requests by path, `url` ends with a slash."""

    def __init__(self, url: str, hits: dict[str, int]):
        self.url, self.hits = url, hits


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Served]]:
    """serve(directory, prefix="/", host="127.0.0.1", types=None, headers=None, delay=None) -> Served.

    types: content types by suffix, on top of the right ones. headers: sent with every file. delay: path -> seconds
    before the answer. Anything outside the prefix is 404, so a URL that is not relative is found out.
    """
    with contextlib.ExitStack() as stack:
        yield functools.partial(_serve, stack)


def _serve(
    stack: contextlib.ExitStack,
    directory: Path,
    prefix: str = "/",
    *,
    host: str = "127.0.0.1",
    types: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    delay: Callable[[str], float] | None = None,
) -> Served:
    hits: dict[str, int] = {}
    ending = threading.Event()

    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, **TYPES, **(types or {})}  # noqa: RUF012

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if not path.startswith(prefix):
                self.send_error(404)
                return
            self.path = "/" + path[len(prefix) :]
            hits[self.path] = hits.get(self.path, 0) + 1
            if delay:
                ending.wait(delay(self.path))
            with contextlib.suppress(ConnectionError):
                super().do_GET()

        def end_headers(self) -> None:
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((host, 0), functools.partial(Handler, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    stack.callback(thread.join)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    stack.callback(ending.set)
    return Served(f"http://{host}:{server.server_port}{prefix}", hits)


@pytest.fixture(scope="session")
def course(serve: Callable[..., Served], tmp_path_factory: pytest.TempPathFactory) -> Served:
    """The real course, built once and served under a sub-path, as a school's server would."""
    from builder.site import build

    out = tmp_path_factory.mktemp("course") / "dist"
    build(out)
    return serve(out, "/curs/ia/")

"""The browser's door: a Session whose answers are plain JavaScript. Only worker.ts imports this, inside Pyodide."""

from __future__ import annotations

from typing import Any

from js import Object  # type: ignore[import-not-found]
from pyodide.ffi import to_js  # type: ignore[import-not-found]

from widgets._runtime.registry import find
from widgets._runtime.session import Session as PythonSession


def _plain(value: Any) -> Any:
    return to_js(value, dict_converter=Object.fromEntries)


class Session:
    """See session.Session; milliseconds instead of seconds, JavaScript objects instead of dicts."""

    def __init__(self, backend: str):
        self._session = PythonSession(backend)

    def start(self, run_id: str, widget_id: str, parameters: Any, entry: str) -> Any:
        return _plain(self._session.start(run_id, widget_id, parameters.to_py(), entry))

    def pause(self, run_id: str) -> None:
        self._session.pause(run_id)

    def resume(self, run_id: str) -> None:
        self._session.resume(run_id)

    def stop(self, run_id: str) -> None:
        self._session.stop(run_id)

    def committed(self, run_id: str) -> None:
        self._session.committed(run_id)

    def advance(self, budget_ms: float) -> Any:
        return _plain(self._session.advance(budget_ms / 1000))

    def provide(self, key: str, data: Any) -> None:
        self._session.provide(key, bytes(data.to_py()) if data else None)

    def reread(self, widget_id: str, samples: Any, parameters: Any) -> Any:
        """A finished run's samples read again: {readouts, series, explanation, outcome}. Touches no run."""
        return _plain(find(widget_id).reread(samples.to_py(), parameters.to_py()))


def open(backend: str) -> Session:
    return Session(backend)

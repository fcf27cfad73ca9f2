"""The native door: run an experiment to its end, with checkpoints kept in files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minigpt.backend import DEFAULT_BACKEND
from widgets._runtime.registry import MAIN
from widgets._runtime.session import Session
from widgets._runtime.store import FileStore

RUN = "run"
SLICE_SECONDS = 0.1


class RunError(Exception):
    """The experiment itself failed; the message is its error, the cause its trace."""


def run_to_end(
    widget_id: str,
    given: dict[str, Any] | None = None,
    *,
    backend: str = DEFAULT_BACKEND,
    entry: str = MAIN,
    store: FileStore | None = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Record of a whole run: widget, params, seed, backend, readouts, series, digest, samples, explanation, outcome.

    Raises ParameterError or WidgetError before anything starts, BackendError without the backend, RunError if the
    experiment fails.
    """
    session, store = Session(backend), store or FileStore()
    session.start(RUN, widget_id, given or {}, entry)
    samples: dict[str, Any] = {}
    while True:
        for output in session.advance(SLICE_SECONDS):
            if "need" in output:
                session.provide(output["need"], store.get(output["need"]))
            elif "event" in output:
                event = output["event"]
                if event["type"] == "checkpoint":
                    store.put(event["key"], event["data"])
                if event["type"] == "sample":
                    samples[event["name"]] = event["data"]
                session.committed(output["run"])
                if on_event and output["run"] == RUN:
                    on_event(event)
            elif output.get("state") == "error":
                raise RunError(output["message"]) from RuntimeError(output["trace"])
            elif output.get("state") == "done":
                extra = {name: output[name] for name in ("explanation", "outcome")}
                return {**output["record"], "samples": samples, **extra}

"""The `raona` command: list, run, build, serve, bench."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from minigpt.backend import BACKENDS, DEFAULT_BACKEND, BackendError
from minigpt.lab import ParameterError
from widgets._runtime.catalan import format_number
from widgets._runtime.native import RunError, run_to_end
from widgets._runtime.registry import WidgetError, discover, find

PUBLIC_KEYS = ("widget", "params", "seed", "backend", "readouts", "series", "digest")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected name=value, got {text!r}; for example --set k=5")
    return name, value


def list_widgets(arguments: argparse.Namespace) -> int:
    widgets = discover().values()
    if arguments.json:
        rows = [
            {
                "id": widget.id,
                "parameters": [parameter.describe() for parameter in widget.parameters],
                "readouts": list(widget.readouts),
            }
            for widget in widgets
        ]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for widget in widgets:
        print(f"{widget.id}: {widget.labels['question']}")
        for parameter in widget.parameters:
            reach = parameter.options or f"{parameter.minimum}–{parameter.maximum}"
            print(f"    --set {parameter.name}={parameter.default}   {parameter.kind}, {reach}")
        print(f"    readouts: {', '.join(widget.readouts)}")
    return 0


def run_widget(arguments: argparse.Namespace) -> int:
    given: dict[str, Any] = {}
    for name, value in arguments.set:
        if name in given:
            raise ParameterError(f"{name} is set twice")
        given[name] = value
    if arguments.seed is not None:
        if "seed" in given:
            raise ParameterError("seed is given both by --seed and by --set seed=…: use one of them")
        given["seed"] = arguments.seed
    widget = find(arguments.widget)
    labels = widget.labels["stages"]
    with tqdm(total=1.0, bar_format="{desc:32}{percentage:3.0f}% |{bar}| {remaining}", disable=None) as bar:

        def show(event: dict[str, Any]) -> None:
            if event["type"] == "progress":
                bar.set_description_str(labels.get(event["stage"], event["stage"]))
                bar.update(event["done"] / event["total"] - bar.n)

        record = run_to_end(arguments.widget, given, backend=arguments.backend, on_event=show)
        bar.update(1.0 - bar.n)
    if arguments.json:
        print(json.dumps({key: record[key] for key in PUBLIC_KEYS}, ensure_ascii=False))
        return 0
    for name, value in record["readouts"].items():
        label = widget.labels["readouts"][name]
        print(f"{name:16} {format_number(value, label.get('format', 'number')):>8}  {label['label']}")
    print(f"\n{record['explanation']}\n\ndigest {record['digest']}  ({record['backend']}, seed {record['seed']})")
    return 0


def build_course(arguments: argparse.Namespace) -> int:
    from builder.errors import BuildError
    from builder.site import build

    try:
        build(arguments.out, pyodide_dir=arguments.pyodide_dir, cache=arguments.cache, say=_say)
    except BuildError as error:
        count = len(error.problems)
        print(f"raona: the site was not built ({count} problem{'s' if count > 1 else ''}):\n{error}", file=sys.stderr)
        return 1
    return 0


def serve_course(arguments: argparse.Namespace) -> int:
    from builder.errors import BuildError
    from builder.serve import serve

    try:
        serve(arguments.dir, bind=arguments.bind, port=arguments.port, say=_say)
    except BuildError as error:
        print(f"raona: {error}", file=sys.stderr)
        return 1
    return 0


def _add_bench_arguments(measure: argparse.ArgumentParser) -> None:
    """bench/ lies beside the package in a checkout and is not part of the wheel."""
    try:
        from bench import command
    except ImportError:
        measure.set_defaults(command=_no_bench)
        return
    command.add_arguments(measure)
    measure.set_defaults(command=command.run)


def _no_bench(arguments: argparse.Namespace) -> int:
    print("raona: bench works in a checkout of the project: clone it and install it there", file=sys.stderr)
    return 2


def _say(line: str) -> None:
    print(line, flush=True)


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return Path(text)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="raona", description="The course's experiments and its site, from the shell.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="the widgets, their parameters and readouts")
    listing.add_argument("--json", action="store_true", help="an array of {id, parameters, readouts}")
    listing.set_defaults(command=list_widgets)

    run = commands.add_parser("run", help="run one widget's experiment to its end")
    run.add_argument("widget", help="a widget's id; see `raona list`")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a parameter, in the page's units",
    )
    run.add_argument("--seed", metavar="N", help="short for --set seed=N")
    run.add_argument("--backend", choices=BACKENDS, default=DEFAULT_BACKEND, help="default: %(default)s")
    run.add_argument("--json", action="store_true", help="one JSON object on stdout")
    run.set_defaults(command=run_widget)

    build = commands.add_parser("build", help="build the site")
    build.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help="default: %(default)s")
    build.add_argument("--pyodide-dir", type=_folder, metavar="DIR", help="where Pyodide's wheels are looked for first")
    build.add_argument("--cache", type=Path, metavar="DIR", help="downloads and figures; default: ~/.cache/raona")
    build.set_defaults(command=build_course)

    serve = commands.add_parser("serve", help="serve the built site and print its address")
    serve.add_argument("dir", nargs="?", type=Path, default=Path("dist"), metavar="DIR", help="default: %(default)s")
    serve.add_argument("--port", type=int, metavar="N", help="default: the first free one from 8000")
    serve.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="default: %(default)s")
    serve.set_defaults(command=serve_course)

    measure = commands.add_parser("bench", help="measure against the peers, side by side; see bench/README.md")
    _add_bench_arguments(measure)
    return top


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        return arguments.command(arguments)
    except (ParameterError, WidgetError, BackendError, RunError) as error:
        print(f"raona: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        advice = (
            "see that it exists, that you may write there and that the disk has room ($RAONA_CACHE moves the cache)"
        )
        print(f"raona: {place}{error.strerror or error}: {advice}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("raona: stopped; finished checkpoints are kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

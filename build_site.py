"""Builds the site: content/, widgets/ and theme/ become plain files in dist/. See builder/site.py."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from builder.errors import BuildError
from builder.site import build


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="build_site.py", description="Build the course as a static site.")
    parser.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help="where to build (default: dist)")
    parser.add_argument("--pyodide-dir", type=Path, metavar="DIR", help="folder with Pyodide's wheels, tried first")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="downloads and figures (default: ~/.cache/raona)")
    chosen = parser.parse_args(arguments)
    if chosen.pyodide_dir and not chosen.pyodide_dir.is_dir():
        parser.error(f"--pyodide-dir: there is no folder {chosen.pyodide_dir}")
    try:
        build(chosen.out, pyodide_dir=chosen.pyodide_dir, cache=chosen.cache, say=lambda text: print(text, flush=True))
    except BuildError as error:
        count = len(error.problems)
        print(f"error: the site was not built ({count} problem{'s' if count > 1 else ''}):\n{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

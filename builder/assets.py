"""What pages link to: formulas as MathML, bundled scripts, the style sheet with its fonts and colours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.errors import BuildError, Problems
from builder.fonts import Cut
from builder.rendered import Formula

HERE = Path(__file__).resolve().parent
NODE_SECONDS = 120


def node() -> str:
    """Path of Node: from PATH or, if absent, where `make serve` puts it, beside Python in the virtual environment."""
    found = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
    if not found:
        raise BuildError("Node was not found.", "Install Node 20 or later, or run `make serve`, which sees to it.")
    return found


def ask_node(script: Path, request: Any, cwd: Path) -> Any:
    """What a script of ours answers, JSON in and out. Raises BuildError if it fails or says nothing."""
    try:
        done = subprocess.run(
            [node(), str(script)],
            input=json.dumps(request, ensure_ascii=False).encode(),
            capture_output=True,
            cwd=cwd,
            timeout=NODE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(
            f"{script.name} gave no answer in {NODE_SECONDS} s.",
            "Build again when the machine is less busy; if it stays silent, install the npm packages anew: `npm ci`.",
        ) from None
    if done.returncode != 0 or not done.stdout:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
        cause = next((line for line in reason if "Error" in line), reason[-1] if reason else "no output")
        raise BuildError(f"{script.name} failed: {cause}", "If a package is missing, run `npm ci`.")
    return json.loads(done.stdout)


def render_formulas(formulas: list[Formula], problems: Problems, root: Path) -> list[str]:
    """MathML of each formula, in order, by one Node process. Bad TeX is a problem at its place."""
    if not formulas:
        return []
    answers = ask_node(
        HERE / "math.mjs", [{"tex": formula.tex, "display": formula.display} for formula in formulas], root
    )
    rendered = []
    for formula, answer in zip(formulas, answers, strict=True):
        if "error" in answer:
            problems.add(
                f"Temml rejects the formula {formula.tex!r}: {answer['error'].strip()}.",
                "Mend the TeX.",
                path=formula.path,
                line=formula.line,
            )
        rendered.append(answer.get("mathml", ""))
    return rendered


@dataclass(frozen=True)
class Bundle:
    """Published scripts: entry -> file name, and what each loads at once with itself."""

    urls: dict[str, str]
    imports: dict[str, list[str]]


def bundle_scripts(
    root: Path, out: Path, modules: Mapping[str, str], classic: Mapping[str, str], views: Mapping[str, str]
) -> Bundle:
    """Bundle TypeScript entries (paths relative to root) into hashed, split, minified files in `out`."""
    request = {
        "kind": "scripts",
        "root": str(root),
        "modules": dict(modules),
        "classic": dict(classic),
        "views": dict(views),
        "outdir": str(out),
    }
    answer = _esbuild(request, root)
    return Bundle(answer["urls"], answer["imports"])


def bundle_style(root: Path, theme: Path, out: Path, cuts: list[Cut]) -> str:
    """Bundle theme/site.css; returns the published file's name. `generated:` imports are the fonts and the colours."""
    palette = json.loads((theme / "palette.json").read_text(encoding="utf-8"))
    generated = {"generated:fonts": "\n".join(cut.rule for cut in cuts), "generated:colours": colours(palette)}
    request = {
        "kind": "style",
        "root": str(root),
        "file": str(theme / "site.css"),
        "generated": generated,
        "outdir": str(out),
    }
    return _esbuild(request, root)["urls"]["site"]


def _esbuild(request: dict[str, Any], root: Path) -> dict[str, Any]:
    answer = ask_node(HERE / "bundle.mjs", request, root)
    if answer.get("errors"):
        raise BuildError(f"esbuild: {'; '.join(answer['errors'])}.", "Mend the file that it names.")
    return answer


def colours(palette: Mapping[str, Any]) -> str:
    """Custom properties of both themes: by preference, and by the reader's remembered choice."""

    def block(theme: str) -> str:
        groups = palette[theme]
        lines = [f"--{name}:{value};" for name, value in groups["interface"].items()]
        lines += [f"--series-{name}:{value};" for name, value in groups["series"].items()]
        lines += [f"--code-{name}:{value};" for name, value in groups["code"].items()]
        return f"color-scheme:{theme};" + "".join(lines)

    return (
        f":root{{{block('light')}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{block('dark')}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{block('dark')}}}}}\n"
    )

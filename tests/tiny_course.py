"""A course of two lessons in a temporary folder, built with the real theme, bundles and widget, but with a canned
reference run and runtime, so that a build takes a second or two.

Run as a script it builds the course of a folder: `python tests/tiny_course.py FOLDER OUT CACHE`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from builder.site import Sources, build  # noqa: E402

FIRST = """---
title: "Primera lliçó"
kind: lesson
status: ready
block: 1
level: intermedi
time: "1 h"
needs: []
summary: "Per començar."
---

Una frase amb [[pluralitat]] i una cita [@wei2022].

## Primera secció {#primera}

Un 12,5 % de les sumes: 74 + 46 fan `120`. Vegeu [la segona](segona#final) i [el final](#recursos).

:::: dual
::: formal
Si $k$ és senar,

$$p = \\frac{1}{2} + 3{,}14.$$
:::
::: plain
La meitat i una mica més de tres.
:::
::::

::: level practice "A la pràctica"
Un passatge que es plega.
:::

::: widget cot k=5
El peu del giny.
:::

::: pitfall "Un parany"
Compte.
:::

::: excerpt minigpt.task:verify
:::

## Comprova que ho has entès {#comprova}

::: quiz {#quiz}
### Quant fan dos i dos?

- [ ] Tres.
  > Et falta un.
- [x] Quatre.
  > Exacte.
:::

## Recursos {#recursos}

::: resources
- [wei2022] Wei, J.; Wang, X.; Zhou, D. (2022). *Chain of thought*. <https://example.org/wei>
:::
"""

SECOND = """---
title: "Segona lliçó"
kind: lesson
status: planned
block: 1
level: avançat
time: "2 h"
needs: [primera]
summary: "Encara no."
---

## El final {#final}
"""

HOME = """---
title: "Inici"
kind: page
---

Un curs petit.

## Com funciona {#com-funciona}

Llegeix [la primera](primera).
"""

GLOSSARY = """---
title: "Glossari"
kind: page
---

## pluralitat {#pluralitat}
Guanya la resposta que es repeteix més.
"""


class CannedRecorder:
    """A reference run that nobody has to train."""

    def __init__(self, run_source: Path):
        self.run_source = run_source
        self.runs = 0

    def run(self, widget: str) -> dict[str, Any]:
        self.runs += 1
        names = ("cot-500", "direct-500", "cot-1500", "direct-1500", "per-chain", "vote")
        readouts = dict.fromkeys(names, 0.5)
        return {
            "widget": widget,
            "params": {},
            "seed": 1,
            "backend": "numpy",
            "readouts": readouts,
            "series": {},
            "digest": "0123456789abcdef" * 4,
            "explanation": "Un 50 %.",
            "outcome": "tie",
            "samples": {},
        }

    def draw(self, widget: str, record: dict[str, Any], *, dark: bool) -> list[bytes]:
        colour = "#fff" if dark else "#000"
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 72 36"><path stroke="{colour}" d="M0 0h9"/></svg>'
        return [svg.encode()] * 2

    def run_sources(self, widget: str) -> list[Path]:
        return [self.run_source]

    def draw_sources(self, widget: str) -> list[Path]:
        return [self.run_source]


def canned_runtime(folder: Path, pyodide_dir: Path | None, cache: Path, say: Any) -> dict[str, Any]:
    folder.mkdir(parents=True)
    (folder / "pyodide.js").write_text("export {};\n")
    return {
        "version": "0",
        "base": "pyodide/",
        "files": [{"name": "pyodide.js", "bytes": 11, "sha256": "00"}],
        "packages": [],
        "wheel": {"url": "pyodide/pyodide.js", "bytes": 11, "sha256": "00"},
    }


def write_course(folder: Path, **changes: str | None) -> Path:
    """Write the course; a change replaces a file's text (`None` leaves the file out). Names: see `files`."""
    files = {
        "course": (
            "course.toml",
            'id = "prova"\ntitle = "Prova"\ntagline = "Un curs"\ndescription = "Un curs petit."\n',
        ),
        "first": ("content/primera.md", FIRST),
        "second": ("content/segona.md", SECOND),
        "home": ("content/pages/inici.md", HOME),
        "glossary": ("content/glossari.md", GLOSSARY),
    }
    for name, (path, text) in files.items():
        chosen = changes.get(name, text)
        if chosen is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(chosen, encoding="utf-8")
    return folder


def sources(folder: Path, **changes: Any) -> Sources:
    given = {
        "course": folder / "course.toml",
        "content": folder / "content",
        "recorder": CannedRecorder(folder / "course.toml"),
        "runtime": canned_runtime,
    }
    return Sources(**{**given, **changes})


def build_course(folder: Path, out: Path, cache: Path, **changes: Any) -> Path:
    return build(out, cache=cache, sources=sources(folder, **changes), say=lambda text: None)


if __name__ == "__main__":
    build_course(*map(Path, sys.argv[1:4]))

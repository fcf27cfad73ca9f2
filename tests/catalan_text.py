"""Collects every Catalan text that a learner can see, stripped of what is not prose, for test_language.py.

Each collector returns (place, text) pairs: place says where a maintainer finds the text, such as "grpo.md:12".
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

Text = tuple[str, str]

# A word of Catalan keeps its middle dot (col·legi), apostrophes (l'obre) and hyphens (fer-ho).
WORD = re.compile(r"[^\W\d_]+(?:[·'’-][^\W\d_]+)*")

_MARKDOWN_NOISE = [
    re.compile(r"`[^`]*`"),  # code
    re.compile(r"\$\$.*?\$\$|\$[^$\n]*\$", re.DOTALL),  # formulas
    re.compile(r"\[[^\[\]]*\]\{(?:lang=\w+|\.authors)\}"),  # spans in another language, names of people
    re.compile(r"\]\([^)]*\)|<https?://[^>]*>"),  # addresses
    re.compile(r"\[@[^\]]*\]"),  # citations
    re.compile(r"\{[#.][^}]*\}"),  # ids
    re.compile(r"arXiv:\S+|doi:\S+"),
]
_PLACEHOLDER = re.compile(r"\{[\w.-]+(?::\w+)?\}")
_DIRECTIVE = re.compile(r'^:{3,}\s*[\w-]*[^"]*("?)')


def prose(markdown: str) -> str:
    """Inline Markdown without code, formulas, addresses, keys and foreign spans."""
    for noise in _MARKDOWN_NOISE:
        markdown = noise.sub(lambda match: "]" if match[0].startswith("](") else " … ", markdown)
    return markdown


def from_markdown(path: Path) -> list[Text]:
    """Paragraph lines of a content file, its title and summary; bibliography lines only after the year."""
    lines = path.read_text(encoding="utf-8").split("\n")
    texts: list[Text] = []
    state = {"front": False, "code": False, "formula": False, "resources": False}
    for number, line in enumerate(lines, start=1):
        stripped = line.strip()
        if stripped == "---" and (number == 1 or state["front"]):
            state["front"] = number == 1
            continue
        if stripped.startswith("```"):
            state["code"] = not state["code"]
            continue
        if stripped.startswith("$$") and stripped.count("$$") == 1:
            state["formula"] = not state["formula"]
            continue
        if state["code"] or state["formula"]:
            continue
        if state["front"]:
            key, _, value = line.partition(":")
            line = value.strip().strip('"') if key in ("title", "summary", "level") else ""
        elif stripped.startswith(":::"):
            state["resources"] = stripped.startswith("::: resources")
            line = " ".join(re.findall(r'"([^"]*)"', line))
        elif state["resources"]:
            line = re.sub(r"^- \[[\w-]+\].*?\(\d{4}\)\.", "", line)
        if line.strip():
            texts.append((f"{path.relative_to(ROOT)}:{number}", prose(line)))
    return texts


_TOML_CODE_KEYS = {"colour", "format", "kind", "object", "value", "id", "series", "readout", "name", "parameter"}


def from_toml(path: Path) -> list[Text]:
    """Every text value of a labels or course file, except those that name things for the code."""
    texts: list[Text] = []

    def walk(value: object, place: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key not in _TOML_CODE_KEYS or isinstance(inner, dict):
                    walk(inner, f"{place} {key}")
        elif isinstance(value, list):
            for inner in value:
                walk(inner, place)
        elif isinstance(value, str):
            texts.append((place, _PLACEHOLDER.sub("…", value)))

    walk(tomllib.loads(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT)))
    return texts


def from_json(path: Path) -> list[Text]:
    """Every text value of an interface strings file."""
    texts: list[Text] = []

    def walk(value: object, place: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{place} {key}")
        elif isinstance(value, list):
            for inner in value:
                walk(inner, place)
        elif isinstance(value, str):
            texts.append((place, re.sub(r"\{[^}]*\}", "…", value)))

    walk(json.loads(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT)))
    return texts


_TYPESCRIPT_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`|\'((?:[^\'\\\n]|\\.)*)\'')


def from_typescript_strings(path: Path) -> list[Text]:
    """String literals of a file that holds nothing but texts; comments, imports and type names are not texts."""
    source = path.read_text(encoding="utf-8")
    source = re.sub(r"/\*.*?\*/|(?<![:\w])//[^\n]*", lambda match: "\n" * match[0].count("\n"), source, flags=re.DOTALL)
    texts: list[Text] = []
    for match in _TYPESCRIPT_STRING.finditer(source):
        literal = match[1] or match[2] or match[3] or ""
        start = source.rfind("\n", 0, match.start()) + 1
        before = source[start : match.start()]
        if re.match(r"\s*(import|export \*|case)\b", before) or re.search(r"\b(typeof|===|!==)\s*$|[|<]\s*$", before):
            continue
        if " " not in literal and not re.search(r"[A-ZÀ-Ý].*|[à-ÿ·]", literal):
            continue  # a key or a unit, not a text
        number = source.count("\n", 0, match.start()) + 1
        texts.append((f"{path.relative_to(ROOT)}:{number}", re.sub(r"\$\{[^}]*\}", "…", literal)))
    return texts


SPOKEN = frozenset({"aria-label", "title", "alt", "placeholder", "aria-description", "aria-valuetext"})
HIDDEN = frozenset({"script", "style", "code", "svg"})


class _TemplateText(HTMLParser):
    """Visible text and spoken attributes of a Jinja template, one (line, text) each."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, str]] = []
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        spoken = dict(attrs)
        if spoken.get("lang", "ca") == "ca":
            for name, value in attrs:
                wanted = name in SPOKEN or (tag == "meta" and name == "content" and spoken.get("name") == "description")
                if value and wanted:
                    self.found.append((self.getpos()[0], value))
        if tag in HIDDEN or spoken.get("lang", "ca") != "ca":
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.stack and self.stack[-1] == tag:
            self.stack.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() and not self.stack:
            self.found.append((self.getpos()[0], data))


def from_template(path: Path) -> list[Text]:
    """Catalan of a Jinja template: its own texts and the texts quoted inside its expressions."""
    source = path.read_text(encoding="utf-8")
    source = re.sub(r"\{#.*?#\}", lambda match: "\n" * match[0].count("\n"), source, flags=re.DOTALL)
    source = re.sub(r"\{% block \w*(?:class|attributes) %\}.*?\{% endblock %\}", "", source)  # in a tag, not text
    texts: list[Text] = []
    for match in re.finditer(r"\{\{.*?\}\}|\{%.*?%\}", source, re.DOTALL):
        number = source.count("\n", 0, match.start()) + 1
        for literal in re.findall(r"\"([^\"\n]*)\"|'([^'\n]*)'", match[0]):
            text = literal[0] or literal[1]
            if re.search(r"[A-ZÀ-Ýà-ÿ·]|\w \w", text) and not re.search(r"[/<>=_]", text):
                texts.append((f"{path.relative_to(ROOT)}:{number}", text))
    plain = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", lambda match: " " + "\n" * match[0].count("\n"), source, flags=re.DOTALL)
    parser = _TemplateText()
    parser.feed(plain)
    parser.close()
    texts += [(f"{path.relative_to(ROOT)}:{number}", text) for number, text in parser.found]
    return texts


_TAG = re.compile(r"(?<!\?P)</?(?!id>)[a-z]+[\d\s>]")  # neither a named group nor widgets/<id>


def from_python_html(path: Path) -> list[Text]:
    """Catalan that the builder writes itself: texts inside HTML literals, and literals with Catalan letters."""
    texts: list[Text] = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or id(node) in docstrings:
            continue
        place = f"{path.relative_to(ROOT)}:{node.lineno}"
        if _TAG.search(node.value) and "`" not in node.value:
            parser = _TemplateText()
            parser.feed(re.sub(r"^[^<>]*>", "", node.value))
            texts += [(place, text) for _, text in parser.found]
        elif re.search(r"[àèéíïòóúüç]|l·l", node.value) and len(node.value) < 400 and "«" not in node.value:
            texts.append((place, node.value))
    return texts


def words(texts: list[Text]) -> list[tuple[str, str]]:
    """(place, word) of every word, apostrophes made straight."""
    return [
        (place, match[0].replace("’", "'"))
        for place, text in texts
        for match in WORD.finditer(text.replace("\u00ad", ""))
    ]

"""Self-hosted fonts, cut down to the characters that the course uses; the same bytes at every build.

Text is Source Serif 4, the interface Source Sans 3, formulas STIX Two Math, all from Fontsource's npm packages, with
the SIL Open Font License, which is published beside them. Since "Source" is a reserved name, the cut fonts are called
Raona.

In the text fonts the apostrophe key's character (') is drawn as the typographic ’: in Catalan it never means anything
else, and so texts, labels and generated paragraphs look alike without a rewriting step in three languages.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import fontTools
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

from builder.errors import BuildError
from builder.files import write_whole

BASE = (
    "".join(map(chr, range(0x20, 0x7F)))
    + "ÀÈÉÍÏÒÓÚÜÇàèéíïòóúüç·«»‘’“”–—…ªº°№\u00a0\u202f"
    + "×÷−±≈≠≤≥→←↑↓⁰¹²³⁴⁵⁶⁷⁸⁹⁻½✓"
)
"""Always included: what scripts may write although no page holds it yet."""

APOSTROPHE, TYPOGRAPHIC = 0x27, 0x2019
SUBSETS = ("latin", "latin-ext", "greek")


@dataclass(frozen=True)
class Face:
    """One cut font. axes: variation axis -> value to fix it at, or range to keep."""

    family: str
    package: str
    stem: str
    style: str = "normal"
    weight: str = "400"
    axes: dict[str, float | tuple[float, float]] = field(default_factory=dict)
    preload: bool = False
    headings_only: bool = False


FACES = (
    Face(
        "Raona Serif",
        "source-serif-4",
        "source-serif-4-{subset}-opsz-normal",
        "normal",
        "400 700",
        {"opsz": 16, "wght": (400, 700)},
        preload=True,
    ),
    Face(
        "Raona Serif",
        "source-serif-4",
        "source-serif-4-{subset}-opsz-italic",
        "italic",
        "400",
        {"opsz": 16, "wght": 400},
    ),
    Face(
        "Raona Display",
        "source-serif-4",
        "source-serif-4-{subset}-opsz-normal",
        "normal",
        "600",
        {"opsz": 48, "wght": 560},
        headings_only=True,
    ),
    Face(
        "Raona Sans",
        "source-sans-3",
        "source-sans-3-{subset}-wght-normal",
        "normal",
        "400 700",
        {"wght": (400, 700)},
        preload=True,
    ),
)


@dataclass
class Cut:
    """A published font file: its name, its CSS rule, whether pages should fetch it early."""

    name: str
    rule: str
    preload: bool


def cut_fonts(
    characters: set[str], headings: set[str], math: set[str], out: Path, node_modules: Path, cache: Path
) -> list[Cut]:
    """Write the fonts into `out`. Characters that no source has fall back to the reader's own fonts."""
    cuts: list[Cut] = []
    uncovered: set[int] = set()
    for face in FACES:
        wanted = (headings | set("0123456789")) if face.headings_only else characters | set(BASE)
        codes = {ord(character) for character in wanted}
        for subset in SUBSETS:
            stem = face.stem.format(subset=subset)
            source = _source(node_modules / f"@fontsource-variable/{face.package}/files/{stem}.woff2")
            here = _coverage(source) & codes
            codes -= here
            if here:
                data = _cached(cache, source, here, face, lambda s=source, c=here, f=face: _cut(s, c, f))
                cuts.append(_publish(data, face, here, out))
        uncovered |= codes
    # Superscripts, arrows and relations that the text fonts lack come from the mathematics font, which follows them.
    source = _source(node_modules / "@fontsource/stix-two-math/files/stix-two-math-latin-400-normal.woff2")
    here = (_math_codes(math) | uncovered) & _coverage(source)
    face = Face("Raona Math", "stix-two-math", "stix-two-math")
    data = _cached(cache, source, here, face, lambda: _cut(source, here, face, math=True))
    cuts.append(_publish(data, face, here, out))
    _publish_licences(out, node_modules)
    return cuts


def drawing_font(node_modules: Path, cache: Path) -> Path:
    """The interface's font as a TrueType file for matplotlib, so that recorded figures look like the page."""
    source = _source(node_modules / "@fontsource-variable/source-sans-3/files/source-sans-3-latin-wght-normal.woff2")
    codes = _coverage(source)
    face = Face("Raona Sans", "source-sans-3", "drawing", axes={"wght": 400})
    data = _cached(cache, source, codes, face, lambda: _cut(source, codes, face, flavor=None))
    path = cache / "fonts" / f"raona-sans-{hashlib.sha256(data).hexdigest()[:16]}.ttf"
    if not path.is_file():
        write_whole(path, data)
    return path


def _source(file: Path) -> bytes:
    if not file.is_file():
        raise BuildError(f"The font {file.name} is missing.", "Install the npm packages: `npm ci`.", path=file)
    return file.read_bytes()


def _coverage(data: bytes) -> set[int]:
    with TTFont(io.BytesIO(data), lazy=True) as font:
        return set(font.getBestCmap() or ())


def _cached(cache: Path, source: bytes, codes: set[int], face: Face, make) -> bytes:
    key = json.dumps([fontTools.version, repr(face), sorted(codes), _SELF]).encode()
    path = cache / "fonts" / (hashlib.sha256(source + key).hexdigest()[:32] + ".woff2")
    if not path.is_file():
        write_whole(path, make())
    return path.read_bytes()


_SELF = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _cut(source: bytes, codes: set[int], face: Face, *, math: bool = False, flavor: str | None = "woff2") -> bytes:
    font = TTFont(io.BytesIO(source), recalcTimestamp=False)
    if not math:
        for table in font["cmap"].tables:
            if table.isUnicode() and TYPOGRAPHIC in table.cmap:
                table.cmap[APOSTROPHE] = table.cmap[TYPOGRAPHIC]
    options = Options()
    options.hinting = False
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]
    options.layout_features = (
        ["ssty", "math", "dtls", "flac", "rtlm", "ccmp"]
        if math
        else ["kern", "liga", "ccmp", "locl", "mark", "mkmk", "tnum", "lnum", "pnum", "onum", "calt", "sups"]
    )
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    if face.axes:
        font = instancer.instantiateVariableFont(font, face.axes, inplace=True, updateFontNames=False)
    _rename(font, face)
    font.flavor = flavor
    buffer = io.BytesIO()
    font.save(buffer, reorderTables=None)
    return buffer.getvalue()


def _rename(font: TTFont, face: Face) -> None:
    plain = face.family.replace(" ", "")
    for record in list(font["name"].names):
        if record.nameID in (1, 4):
            font["name"].setName(face.family, record.nameID, record.platformID, record.platEncID, record.langID)
        elif record.nameID in (3, 6):
            name = f"{plain}-{face.style}"
            font["name"].setName(name, record.nameID, record.platformID, record.platEncID, record.langID)


def _publish(data: bytes, face: Face, codes: set[int], out: Path) -> Cut:
    name = f"{face.family.lower().replace(' ', '-')}-{face.style}-{hashlib.sha256(data).hexdigest()[:8]}.woff2"
    out.mkdir(parents=True, exist_ok=True)
    (out / name).write_bytes(data)
    ranges = f"unicode-range:{_ranges(codes)};" if codes else ""
    rule = (
        f'@font-face{{font-family:"{face.family}";font-style:{face.style};font-weight:{face.weight};'
        f'font-display:swap;src:url("{name}") format("woff2");{ranges}}}'
    )
    latin = not codes or ord("a") in codes
    return Cut(name, rule, face.preload and latin)


def _ranges(codes: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for code in sorted(codes):
        if parts and parts[-1][1] == code - 1:
            parts[-1][1] = code
        else:
            parts.append([code, code])
    return ",".join(f"U+{a:X}" if a == b else f"U+{a:X}-{b:X}" for a, b in parts)


def _math_codes(characters: set[str]) -> set[int]:
    """The characters of the formulas and the italic forms that browsers take for one-letter identifiers."""
    # The space counts: Chromium takes the MATH table of the first font that has one.
    codes = (
        {ord(character) for character in characters} | set(range(0x30, 0x3A)) | {0x20, 0x2212, 0x2061, 0x2062, 0x2063}
    )
    for code in list(codes):
        if 0x41 <= code <= 0x5A:
            codes.add(0x1D434 + code - 0x41)
        elif 0x61 <= code <= 0x7A:
            codes.add(0x210E if code == 0x68 else 0x1D44E + code - 0x61)
        elif 0x391 <= code <= 0x3A9:
            codes.add(0x1D6E2 + code - 0x391)
        elif 0x3B1 <= code <= 0x3C9:
            codes.add(0x1D6FC + code - 0x3B1)
    return codes


def _publish_licences(out: Path, node_modules: Path) -> None:
    packages = [f"@fontsource-variable/{face.package}" for face in FACES]
    texts = []
    for package in dict.fromkeys([*packages, "@fontsource/stix-two-math"]):
        licence = (node_modules / package / "LICENSE").read_text(encoding="utf-8").strip()
        texts.append(f"{package.rpartition('/')[2]}\n\n{licence}\n")
    (out / "fonts-LICENSE.txt").write_text("\n\n".join(texts), encoding="utf-8")

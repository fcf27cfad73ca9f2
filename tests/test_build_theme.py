"""The palette: readable by WCAG 2.2 AA on every surface of both themes, its series told apart by the colour-blind."""

from __future__ import annotations

import itertools
import json

import pytest
from tiny_course import ROOT

PALETTE = json.loads((ROOT / "theme/palette.json").read_text(encoding="utf-8"))
THEMES = ("light", "dark")
SURFACES = ("paper", "surface", "sunken")
TEXTS = ("ink", "ink-soft", "ink-faint", "accent", "good", "bad", "warn")

# Severity 1.0 of Machado, Oliveira and Fernandes 2009, on linear RGB.
BLINDNESS = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
TOGETHER = (
    ("reasoned", "direct"),
    ("plurality", "majority", "binomial"),
    ("verifiable", "learned-reward", "learned-accuracy"),
)


def linear(colour):
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour):
    r, g, b = linear(colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def lab(colour, blindness):
    rgb = [min(1, max(0, sum(m * c for m, c in zip(row, linear(colour), strict=True)))) for row in BLINDNESS[blindness]]
    matrix = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [sum(m * c for m, c in zip(row, rgb, strict=True)) for row in matrix]
    f = [v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (xyz[0] / 0.95047, xyz[1], xyz[2] / 1.08883)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


@pytest.mark.parametrize("theme", THEMES)
def test_text_has_enough_contrast_on_every_surface(theme):
    colours = PALETTE[theme]["interface"]
    for text, surface in itertools.product(TEXTS, SURFACES):
        assert contrast(colours[text], colours[surface]) >= 4.5, (theme, text, surface)
    for kind in ("good", "bad", "warn", "accent"):
        assert contrast(colours[kind], colours[f"{kind}-soft"]) >= 4.5, (theme, kind)
        assert contrast(colours["ink"], colours[f"{kind}-soft"]) >= 4.5, (theme, kind)
        assert contrast(colours["ink-soft"], colours[f"{kind}-soft"]) >= 4.5, (theme, kind)
    assert contrast(colours["accent"], colours["accent-ink"]) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_borders_of_controls_and_the_focus_ring_are_seen(theme):
    colours = PALETTE[theme]["interface"]
    for name, surface in itertools.product(("line-strong", "focus"), SURFACES):
        assert contrast(colours[name], colours[surface]) >= 3, (theme, name, surface)


@pytest.mark.parametrize("theme", THEMES)
def test_direct_labels_of_series_are_readable(theme):
    colours = PALETTE[theme]
    for name, surface in itertools.product(colours["series"], ("paper", "surface")):
        assert contrast(colours["series"][name], colours["interface"][surface]) >= 4.5, (theme, name, surface)


@pytest.mark.parametrize("theme", THEMES)
def test_code_is_readable(theme):
    for name, colour in PALETTE[theme]["code"].items():
        assert contrast(colour, PALETTE[theme]["interface"]["sunken"]) >= 4.5, (theme, name)


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("theme", THEMES)
def test_series_of_one_chart_are_told_apart(theme, blindness):
    """Distance of 12 in CIELAB at least; curves also carry their name at their end."""
    series = PALETTE[theme]["series"]
    for group in TOGETHER:
        for one, two in itertools.combinations(group, 2):
            distance = sum(
                (a - b) ** 2 for a, b in zip(lab(series[one], blindness), lab(series[two], blindness), strict=True)
            )
            assert distance**0.5 >= 12, (theme, blindness, one, two, distance**0.5)


def test_both_themes_name_the_same_colours():
    assert {group: set(PALETTE["light"][group]) for group in PALETTE["light"]} == {
        group: set(PALETTE["dark"][group]) for group in PALETTE["dark"]
    }

"""Claims about recorded figures and the notebook's door."""

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from matplotlib.text import Text

from builder.fonts import drawing_font
from minigpt.lab import ParameterError
from widgets import cot
from widgets._runtime import figure, notebook
from widgets._runtime.registry import find

STEPS = (250, 500, 750, 1000, 1250, 1500)
RECORD = {
    "readouts": {"cot-500": 0.625, "vote": 0.5},
    "series": {
        "reasoned": [[x, x / 1500] for x in STEPS],
        "direct": [[x, x / 1500 - 0.01] for x in STEPS],
        "plurality": [[k, 0.5] for k in range(1, 16)],
        "majority": [[k, 0.5] for k in range(1, 16)],
        "binomial": [[k, 0.5] for k in range(1, 16)],
    },
    "samples": {},
    "explanation": "Explicació.",
}


def annotations(drawn):
    return [[text for text in axes.texts if text.get_text()] for axes in drawn.axes]


def test_the_same_record_gives_the_same_bytes_and_the_themes_differ():
    light, again = (figure.svg(figure.draw(find("cot"), RECORD)) for _ in range(2))
    dark = figure.svg(figure.draw(find("cot"), RECORD, dark=True))
    assert light == again
    assert light != dark
    assert ElementTree.fromstring(light).tag.endswith("svg")
    assert b"<text" not in light, "an image cannot use the page's fonts: text must be outlines"


def test_a_typeface_reaches_every_text_even_those_made_while_drawing(tmp_path):
    font = drawing_font(Path(__file__).parents[1] / "node_modules", tmp_path)
    drawn = figure.draw(find("cot"), RECORD, font=font)
    drawn.axes[0].set_xticks([50.0 * step for step in range(31)])
    light = figure.svg(drawn)
    texts = [text for text in drawn.findobj(Text) if text.get_text()]
    assert {text.get_fontfamily()[0] for text in texts} == {"Raona Sans"}
    assert min(text.get_fontsize() for text in texts) > 10
    assert light != figure.svg(figure.draw(find("cot"), RECORD))


def test_every_series_is_labelled_at_its_end_without_overlap():
    drawn = figure.draw(find("cot"), RECORD)
    labels = [[text.get_text() for text in texts] for texts in annotations(drawn)]
    assert sorted(labels[0]) == ["amb raonament", "resposta directa"]
    assert len(labels[1]) == 3
    for texts in annotations(drawn):
        heights = sorted(text.xy[1] for text in texts)
        assert all(b - a >= figure.LABEL_GAP - 1e-9 for a, b in itertools.pairwise(heights))


def test_numbers_on_the_axes_are_catalan():
    drawn = figure.draw(find("cot"), RECORD)
    drawn.canvas.draw()
    assert "1.000" in [tick.get_text() for tick in drawn.axes[0].get_xticklabels()]
    assert "60\u00a0%" in [tick.get_text() for tick in drawn.axes[0].get_yticklabels()]


def test_a_stopped_run_is_drawn_with_what_it_has():
    drawn = figure.draw(find("cot"), {**RECORD, "series": {"reasoned": [[250, 0.3]]}})
    assert [len(texts) for texts in annotations(drawn)] == [1, 0]


def test_a_notebook_runs_and_plots_a_widget_by_name(monkeypatch):
    seen = {}

    def fake(widget, given, *, backend):
        seen.update(widget=widget, given=given, backend=backend)
        return RECORD

    monkeypatch.setattr(notebook, "run_to_end", fake)
    result = cot.run(seed=7, k=3)
    assert seen["widget"] == "cot"
    assert seen["given"] == {"seed": 7, "k": 3}
    assert "Amb raonament, pas 500: 62,5\u00a0%" in str(result)
    assert str(result).endswith("Explicació.")
    assert len(result.plot().axes) == 2


def test_a_notebook_is_told_of_a_bad_parameter():
    with pytest.raises(ParameterError, match="k must be a whole number from 1 to 15"):
        cot.run(k=0)

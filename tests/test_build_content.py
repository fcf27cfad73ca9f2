"""Faults in the content: each is found, with its file and line, what was expected and what to do."""

from __future__ import annotations

import json

import pytest
from tiny_course import FIRST, GLOSSARY, HOME, SECOND, sources, write_course

from builder import content as reading
from builder import site
from builder.dialect import slug
from builder.directives import citation_label, parameter
from builder.errors import BuildError, Problems
from builder.site import _read, _widgets
from minigpt.lab import SEED, Parameter


def problems_of(folder):
    """What reading the course complains of, as one text; nothing is bundled, drawn or written."""
    given = sources(folder)
    problems = Problems()

    def read():
        course = reading.read_course(given.course, given.content, problems)
        _read(course, _widgets(given), given, problems)

    with pytest.raises(BuildError) as caught:
        read()
    return str(caught.value).replace(str(folder) + "/", "")


@pytest.fixture(autouse=True)
def no_node(request, monkeypatch):
    """Half a second less for each test that is not about formulas."""
    if not any(word in request.node.name for word in ("frca", "whole_course")):
        monkeypatch.setattr(site, "render_formulas", lambda formulas, *_: ["<math></math>"] * len(formulas))


def line_of(text, wanted):
    return next(number for number, line in enumerate(text.split("\n"), 1) if wanted in line)


FAULTS = [
    # (what is replaced, by what, words that the message must hold)
    ("::: widget cot k=5", "::: widget rlrv", ["unknown widget 'rlrv'", "Expected one of: ", "cot"]),
    ("::: widget cot k=5", "::: widget cot kk=5", ["widget cot has no parameter 'kk'", "Did you mean k?"]),
    ("::: widget cot k=5", "::: widget cot k=99", ["k=99", "k must be a whole number from 1 to 15"]),
    ("::: widget cot k=5", "::: widget cot k=nan", ["k=nan", "k must be a whole number from 1 to 15"]),
    ("::: widget cot k=5", "::: widget cot checkpoint=7", ["checkpoint=7", "must be one of 500, 1000, 1500"]),
    ("[la segona](segona#final)", "[la segona](segna)", ["no page 'segna'", "Did you mean segona?"]),
    ("[la segona](segona#final)", "[la segona](segona#fnal)", ["segona has no #fnal", "Did you mean final?"]),
    ("[el final](#recursos)", "[el final](#no)", ["dangling link", "#no"]),
    ("[el final](#recursos)", "[el final](/grpo/)", ["neither a page of the course nor an https address"]),
    ("[[pluralitat]]", "[[plurality]]", ["the glossary has no term 'plurality'", "glossari.md"]),
    ("[@wei2022]", "[@wei2023]", ["no reference [@wei2023]", "Did you mean wei2022?"]),
    ("::: excerpt minigpt.task:verify", "::: excerpt minigpt.task:verfy", ["missing excerpt", "defines no 'verfy'"]),
    ("::: excerpt minigpt.task:verify", "::: excerpt minigpt.tusk", ["missing excerpt", "no module minigpt.tusk"]),
    ("::: pitfall", "::: pitfal", ["unknown directive `::: pitfal`", "Did you mean pitfall?"]),
    ("::: level practice", "::: level practica", ["unknown reading level 'practica'"]),
    ("## Primera secció {#primera}", "## Primera secció {#recursos}", ["the id 'recursos' is already used"]),
    ("Un passatge que es plega.", "$$x$$", ["a displayed formula outside `::: formal`"]),
    ("La meitat i una mica més de tres.", "És $p$.", ["a formula ($p$) in a plain-language passage"]),
    ("  > Et falta un.\n", "", ["an answer without an explanation"]),
    ("- [x] Quatre.", "- [ ] Quatre.", ["has no right answer", "- [x]"]),
    ("Si $k$ és senar,", "Si $\\frca{1}$ és senar,", ["Temml rejects the formula"]),
    ("::: plain\n", "::: plan\n", ["outside its two readings"]),
]


@pytest.mark.parametrize("old, new, words", FAULTS, ids=[new.strip()[:40] or old for old, new, _ in FAULTS])
def test_a_fault_is_named_with_its_place_and_remedy(tmp_path, old, new, words):
    text = FIRST.replace(old, new)
    assert text != FIRST
    message = problems_of(write_course(tmp_path, first=text))
    assert "content/primera.md:" in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "wanted, old, new",
    [
        ("[la segona]", "[la segona](segona#final)", "[la segona](segna)"),
        ("[[plurality]]", "[[pluralitat]]", "[[plurality]]"),
        ("frca", "p = \\frac{1}{2}", "p = \\frca{1}{2}"),
        ("::: widget", "::: widget cot", "::: widget tot"),
        (
            "Un segon paràgraf",
            "Un passatge que es plega.",
            "Una línia.\n\nUn segon paràgraf,\nque segueix [aquí](enlloc).",
        ),
    ],
)
def test_the_line_is_that_of_the_fault(tmp_path, wanted, old, new):
    text = FIRST.replace(old, new)
    line = line_of(text, wanted) + (wanted == "Un segon paràgraf")
    message = problems_of(write_course(tmp_path, first=text))
    found = int(message.split("primera.md:")[1].split(":")[0])
    assert found == (line if wanted != "frca" else pytest.approx(line, abs=1))


def test_every_fault_is_told_at_once(tmp_path):
    text = FIRST.replace("[[pluralitat]]", "[[res]]").replace("[@wei2022]", "[@res]").replace("(#recursos)", "(#res)")
    message = problems_of(write_course(tmp_path, first=text))
    assert message.count("content/primera.md:") == 3


@pytest.mark.parametrize(
    "key, old, new, words",
    [
        (
            "needs",
            "needs: [primera]",
            "needs: [primra]",
            ["the prerequisite 'primra' is no lesson", "Did you mean primera?"],
        ),
        ("needs", "needs: [primera]", "needs: [segona]", ["circular prerequisites: segona → segona"]),
        ("level", "level: avançat", "level: difícil", ["level is 'difícil'", "avançat"]),
        ("status", "status: planned", "status: done", ["status is 'done'", "planned"]),
        ("block", "block: 1", "block: u", ["block is 'u'"]),
        ("time", 'time: "2 h"', "tme: 2", ["unknown key 'tme'", "Did you mean time?"]),
        ("title", 'title: "Segona lliçó"', "title: Segona: lliçó", ["not valid YAML"]),
    ],
)
def test_front_matter_is_checked(tmp_path, key, old, new, words):
    text = SECOND.replace(old, new)
    assert text != SECOND
    message = problems_of(write_course(tmp_path, second=text))
    assert "content/segona.md:" in message
    for word in words:
        assert word in message


def test_no_lessons_is_an_error(tmp_path):
    message = problems_of(write_course(tmp_path, first=None, second=None))
    assert "no lessons found" in message


def test_no_home_page_is_an_error(tmp_path):
    assert "there is no home page" in problems_of(write_course(tmp_path, home=None))


def test_no_course_file_is_an_error(tmp_path):
    assert "no course.toml" in problems_of(write_course(tmp_path, course=None))


def test_no_widgets_is_an_error(tmp_path):
    folder = write_course(tmp_path)
    with pytest.raises(BuildError, match=r"no widgets found.*widgets/<id>/experiment\.py"):
        _widgets(sources(folder, widgets={}))


def test_a_missing_listing_of_a_widget_is_named_with_its_line(tmp_path):
    widgets = _widgets(sources(tmp_path))
    changed = {**widgets["cot"]["labels"], "code": [{"object": "minigpt.model:forward", "title": "x"}]}
    given = sources(write_course(tmp_path), widgets={"cot": {**widgets["cot"], "labels": changed}})
    problems = Problems()
    course = reading.read_course(given.course, given.content, problems)
    with pytest.raises(BuildError, match=r"labels\.toml: missing excerpt 'minigpt\.model:forward'.*Mend `object`"):
        _read(course, given.widgets, given, problems)


def test_a_link_to_a_widget_without_page_dangles(tmp_path):
    message = problems_of(write_course(tmp_path, home=HOME.replace("(primera)", "(widget/none)")))
    assert "there is no page 'widget/none'" in message


@pytest.mark.parametrize("closing", ["::::", ""])
def test_unbalanced_fences_are_told(tmp_path, closing):
    message = problems_of(write_course(tmp_path, glossary=GLOSSARY + f"\n::: note\nText.\n{closing}\n"))
    assert "content/glossari.md:" in message
    assert "colons" in message or "never closed" in message


def test_the_whole_course_is_rendered_without_a_problem():
    given = site.Sources()
    problems = Problems()
    course = reading.read_course(given.course, given.content, problems)
    rendered, made = _read(course, _widgets(given), given, problems)
    assert len(course.lessons) >= 4
    links = [link for page in rendered.values() for link in page.links]
    assert len([link for link in links if link.term]) >= 5
    assert len([link for link in links if not link.term]) >= 1
    assert sum(map(len, made.mathml.values())) >= 20
    assert all(formula.startswith("<math") for formulas in made.mathml.values() for formula in formulas)
    assert sum(len(page.references) for page in rendered.values()) >= 5


def test_citations_are_labelled_by_authors_and_year():
    assert citation_label("Wei, J.; Wang, X.; Zhou, D. (2022). *A*") == "Wei\u00a0et\u00a0al., 2022"
    assert citation_label("Wei et al. (2022). *A*. arXiv:2201.11903") == "Wei\u00a0et\u00a0al., 2022"
    assert citation_label("Merrill, W.; Sabharwal, A. (2023). *A*") == "Merrill i Sabharwal, 2023"
    assert citation_label("Merrill i Sabharwal (2023). *A*") == "Merrill i Sabharwal, 2023"
    assert citation_label("DeepSeek-AI (2025). *A*") == "DeepSeek-AI, 2025"
    assert citation_label("Sense any") == ""


def test_slugs_are_ascii():
    assert slug("L·l, què és?") == "ll-que-es"


@pytest.mark.parametrize("made", [SEED, Parameter("pace", "choice", 2, options=(1, 2)), Parameter("p", "number", 0.5)])
def test_a_described_parameter_is_the_parameter(made):
    assert parameter(json.loads(json.dumps(made.describe()))) == made

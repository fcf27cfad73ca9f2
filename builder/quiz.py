"""`::: quiz`: questions as `### …`, answers as `- [ ]` / `- [x]`, each with its explanation as a `>` quotation."""

from __future__ import annotations

import hashlib
import re
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builder.markup import Directive

if TYPE_CHECKING:
    from builder.dialect import PageRenderer

OPTION = re.compile(r"^- \[([ xX])\] ?(.*)$")


@dataclass
class Option:
    right: bool
    line: int
    lines: list[str]

    @property
    def text(self) -> str:
        return " ".join(line.strip() for line in self.lines if not line.lstrip().startswith(">")).strip()

    @property
    def explanation(self) -> str:
        body = textwrap.dedent("\n".join(self.lines[1:]))
        return "\n".join(re.sub(r"^\s*> ?", "", line) for line in body.split("\n") if line.lstrip().startswith(">"))

    @property
    def explanation_line(self) -> int:
        quoted = (number for number, line in enumerate(self.lines) if line.lstrip().startswith(">"))
        return self.line + next(quoted, 0)


@dataclass
class Question:
    title: str
    line: int
    preamble: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


def parse(text: str, line: int) -> list[Question]:
    """Questions of a quiz whose first line is line `line` of the file; text before the first one is dropped."""
    questions: list[Question] = []
    for number, content in enumerate(text.split("\n"), line):
        if content.startswith("### "):
            questions.append(Question(content[4:].strip(), number))
        elif not questions:
            continue
        elif match := OPTION.match(content):
            questions[-1].options.append(Option(match[1] != " ", number, [match[2]]))
        elif questions[-1].options:
            questions[-1].options[-1].lines.append(content)
        else:
            questions[-1].preamble.append(content)
    return questions


def render(page: PageRenderer, directive: Directive, line: int) -> str:
    questions = parse(directive.text, line + 1)
    if not questions:
        page.problem("a quiz without questions.", "Start each one with `### …`.", line)
        return ""
    identifier = directive.id or "quiz"
    html = [_question(page, f"{identifier}-{number}", number, question) for number, question in enumerate(questions, 1)]
    return (
        f'<div class="quiz" data-quiz="{identifier}">'
        f'<p class="quiz-counter js-only"><span data-quiz-counter>0 de {len(questions)} resoltes</span></p>\n'
        + "".join(html)
        + "</div>\n"
    )


def _question(page: PageRenderer, element: str, number: int, question: Question) -> str:
    _check(page, question)
    # Progress is kept under this key: it survives reordering, and a reworded question is asked again.
    key = "q-" + hashlib.sha256(question.title.encode()).hexdigest()[:10]
    if key in page.out.questions:
        page.problem("the same question twice.", "Reword one of them.", question.line)
    page.out.questions.append(key)
    several = sum(option.right for option in question.options) > 1
    kind = "checkbox" if several else "radio"
    options, solutions = [], []
    for position, option in enumerate(question.options):
        text = page.inline(option.text, option.line)
        explanation = page.blocks(option.explanation, option.explanation_line)
        options.append(
            f'<li><label><input type="{kind}" name="{element}" value="{position}"> <span>{text}</span></label></li>\n'
        )
        verdict = "Sí" if option.right else "No"
        solutions.append(
            f'<li data-right="{str(option.right).lower()}"><div class="solution-answer"><strong class="verdict '
            f'verdict-{"right" if option.right else "wrong"}">{verdict}.</strong> {text}</div>\n'
            f'<div class="solution-why">{explanation}</div></li>\n'
        )
    preamble = page.blocks("\n".join(question.preamble), question.line + 1) if any(question.preamble) else ""
    hint = '<p class="question-hint">Pot haver-hi més d\'una resposta bona.</p>' if several else ""
    title = page.inline(question.title, question.line)
    return (
        f'<fieldset class="question" data-question="{key}" id="{element}">'
        f'<legend><span class="question-number">{number}.</span> {title}</legend>\n'
        f'{preamble}{hint}<ol class="answers">\n{"".join(options)}</ol>\n'
        '<div class="question-foot js-only">'
        '<button type="button" class="button" data-check>Comprova la resposta</button></div>\n'
        '<div class="feedback js-only" data-feedback role="status"></div>\n'
        f'<details class="solution"><summary>Respostes explicades</summary><ol>\n{"".join(solutions)}</ol></details>'
        "</fieldset>\n"
    )


def _check(page: PageRenderer, question: Question) -> None:
    if len(question.options) < 2:
        page.problem(
            f"the question «{question.title}» has fewer than two answers.",
            "Write them as `- [ ]` and `- [x]`.",
            question.line,
        )
    elif not any(option.right for option in question.options):
        page.problem(f"the question «{question.title}» has no right answer.", "Mark it with `- [x]`.", question.line)
    for option in question.options:
        if not option.explanation.strip():
            page.problem(
                "an answer without an explanation.", "Add it under the answer, indented, after `>`.", option.line
            )

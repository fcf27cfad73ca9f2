"""Where do written columns help, and what does voting add?

The direct and the reasoned model learn in lock-step from the same sums. Then the reasoned one, at each of its
checkpoints, answers the first 100 held-out sums 15 times at temperature 1, and the answers vote.
"""

from __future__ import annotations

import numpy as np

from minigpt import recipes
from minigpt.lab import SEED, Aside, Experiment, Lab, ModelKey, Need, Parameter, point, progress, readout, sample
from minigpt.task import (
    PROMPT_LENGTH,
    RESPONSE_LENGTH,
    TOKEN_OF,
    VOCABULARY,
    check_sum,
    parse_answer,
    prompt,
    prompts,
    response_texts,
    split,
    verify,
)
from minigpt.voting import binomial_majority, majority, plurality

FORMATS = ("reasoned", "direct")
CHECKPOINTS = recipes.KEPT_STEPS
CHAINS = 15
QUESTIONS = 100
QUESTIONS_PER_SLICE = 5
SLICE_COST = 7.0
"""Time of one slice of sampling, in training steps of one model."""

CHECKPOINT = Parameter("checkpoint", "choice", default=500, options=CHECKPOINTS, rereads=True)
PARAMETERS = (CHECKPOINT, Parameter("k", "integer", default=9, minimum=1, maximum=CHAINS, rereads=True), SEED)
SERIES = ("reasoned", "direct", "plurality", "majority", "binomial")
READOUTS = ("cot-500", "direct-500", "cot-1500", "direct-1500", "per-chain", "vote")

EVALUATION_READOUTS = {
    ("reasoned", 500): "cot-500",
    ("direct", 500): "direct-500",
    ("reasoned", 1500): "cot-1500",
    ("direct", 1500): "direct-1500",
}
TIE = 0.05
"""Accuracies closer than this are called a tie, in the prediction and in the explanation."""


def produces(parameters: dict) -> list[ModelKey]:
    """The checkpoints this run will give: whoever needs one of them waits for it instead of training it again."""
    return list(recipes.trained_keys(FORMATS, parameters["seed"]))


def experiment(parameters: dict, lab: Lab) -> Experiment:
    """Train both models, then sample the chains of all three checkpoints and let them vote."""
    seed = parameters["seed"]
    training = recipes.training_cost(len(FORMATS), recipes.SCHEDULE.end, evaluated=True)
    sampling = len(CHECKPOINTS) * QUESTIONS / QUESTIONS_PER_SLICE * SLICE_COST
    total = training + sampling
    accuracies = yield from recipes.train(lab, FORMATS, seed, evaluated=True, readouts=EVALUATION_READOUTS, total=total)
    yield sample("accuracies", {name: accuracies[at] for at, name in EVALUATION_READOUTS.items()})

    questions = split()[1][:QUESTIONS]
    chains: dict[str, list] = {"truth": [question.total for question in questions]}
    done = training
    for steps in CHECKPOINTS:
        model = yield Need(ModelKey("reasoned", steps, seed))
        uniforms = lab.uniforms("cot-chains", (QUESTIONS, CHAINS, RESPONSE_LENGTH["reasoned"]))
        answers: list[list[int | None]] = []
        for start in range(0, QUESTIONS, QUESTIONS_PER_SLICE):
            part = slice(start, start + QUESTIONS_PER_SLICE)
            answers += sample_answers(lab, model, questions[part], uniforms[part])
            done += SLICE_COST
            yield progress("sample", done, total)
        chains[str(steps)] = answers
    yield sample("chains", chains)
    readouts, series = reread({"chains": chains, "accuracies": {}}, parameters)
    for name, points in series.items():
        for x, y in points:
            yield point(name, x, y)
    for name, value in readouts.items():
        yield readout(name, value)


def sample_answers(lab: Lab, model: np.ndarray, questions, uniforms: np.ndarray) -> list[list[int | None]]:
    """Answers of C chains to each of Q questions at temperature 1, from uniforms (Q, C, R). None is malformed."""
    Q, C, R = uniforms.shape
    repeated = np.repeat(prompts(questions), C, axis=0)
    decoded = lab.backend.decode(model, repeated, R, lab.shape, uniforms=uniforms.reshape(Q * C, R))
    answers = [parse_answer(text, "reasoned") for text in response_texts(decoded.tokens)]
    return [answers[start : start + C] for start in range(0, Q * C, C)]


def reread(samples: dict, parameters: dict) -> tuple[dict[str, float], dict[str, list]]:
    """Readouts, and the series that only read the chains: what the controls `checkpoint` and `k` change at once.

    Share right by plurality (of tied answers, the first seen), by absolute majority (strictly more than half of the
    chains right), and by the binomial formula, which departs from what is measured: the sums differ in difficulty.
    """
    chains = samples["chains"]
    truth, answers = chains["truth"], chains[str(parameters["checkpoint"])]
    right = [answer == total for row, total in zip(answers, truth, strict=True) for answer in row]
    per_chain = right.count(True) / len(right)
    series: dict[str, list] = {"plurality": [], "majority": [], "binomial": []}
    for k in range(1, CHAINS + 1):
        votes = [plurality(row[:k]) == total for row, total in zip(answers, truth, strict=True)]
        majorities = [majority(row[:k], total) for row, total in zip(answers, truth, strict=True)]
        series["plurality"].append([k, votes.count(True) / len(votes)])
        series["majority"].append([k, majorities.count(True) / len(majorities)])
        series["binomial"].append([k, binomial_majority(k, per_chain)])
    vote = series["plurality"][parameters["k"] - 1][1]
    return {**samples["accuracies"], "per-chain": per_chain, "vote": vote}, series


def explain(parameters: dict, readouts: dict, series: dict) -> list[tuple[str, dict[str, float]]]:
    """Which texts of the labels explain this run, and the measured numbers that go in them."""
    gap = readouts["cot-500"] - readouts["direct-500"]
    learned = "learned-tie" if abs(gap) < TIE else "learned-gap" if gap > 0 else "learned-reversed"
    closed = readouts["cot-1500"] - readouts["direct-1500"] < TIE
    gain = readouts["vote"] - readouts["per-chain"]
    voted = "vote-idle" if abs(gain) < 0.01 else "vote-helps" if gain > 0 else "vote-hurts"
    if parameters["k"] == 1:
        voted = "vote-single"
    binomial = series["binomial"][parameters["k"] - 1][1]
    agrees = abs(binomial - readouts["vote"]) < 0.02
    values = {**readouts, "binomial": binomial, "k": parameters["k"], "checkpoint": parameters["checkpoint"]}
    names = [learned, "direct-caught-up" if closed else "direct-lost", voted]
    if parameters["k"] > 1:
        names.append("binomial-close" if agrees else "binomial-off")
    return [(name, values) for name in names]


def outcome(readouts: dict) -> str:
    """The option of the prediction that came true."""
    gap = readouts["cot-500"] - readouts["direct-500"]
    if abs(gap) < TIE:
        return "tie"
    return "reasoned" if gap > 0 else "direct"


def try_sum(parameters: dict, lab: Lab) -> Experiment:
    """One sum, answered greedily by both models, token by token with the probabilities they gave."""
    question = check_sum(parameters["first"], parameters["second"])
    held_out = question in split()[1]
    for format in FORMATS:
        model = yield Need(ModelKey(format, parameters["checkpoint"], parameters["seed"]))
        decoded = lab.backend.decode(model, prompts([question]), RESPONSE_LENGTH[format], lab.shape)
        text = response_texts(decoded.tokens)[0]
        yield sample(
            f"trace-{format}",
            {
                "model": format,
                "prompt": prompt(question),
                "total": question.total,
                "held-out": held_out,
                "answer": parse_answer(text, format),
                "correct": verify(text, question, format),
                "tokens": token_probabilities(lab, model, question, text),
            },
        )


def token_probabilities(lab: Lab, model: np.ndarray, question, text: str, alternatives: int = 3) -> list[dict]:
    """For each character of a response: its probability, and the likeliest characters that could have stood there."""
    tokens = np.array([[*prompts([question])[0], *(TOKEN_OF[character] for character in text)]], dtype=np.int32)
    logits = lab.backend.forward(model, np.ascontiguousarray(tokens[:, :-1]), lab.shape).logits[0, PROMPT_LENGTH - 1 :]
    probabilities = lab.backend.probabilities(np.ascontiguousarray(logits))
    rows = []
    for character, row, order in zip(
        text, probabilities, np.argsort(-probabilities, axis=1, kind="stable"), strict=True
    ):
        others = [token for token in order if VOCABULARY[token] != character][:alternatives]
        rows.append(
            {
                "token": character,
                "p": float(row[TOKEN_OF[character]]),
                "alternatives": [{"token": VOCABULARY[token], "p": float(row[token])} for token in others],
            }
        )
    return rows


ASIDES = {
    "sum": Aside(
        parameters=(
            Parameter("first", "integer", default=74, minimum=10, maximum=99),
            Parameter("second", "integer", default=46, minimum=10, maximum=99),
            CHECKPOINT,
            SEED,
        ),
        experiment=try_sum,
    )
}

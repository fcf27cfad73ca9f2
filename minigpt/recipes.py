"""How the course's models are made: the one place of the recipe, and the producers of what `Need` asks for."""

from __future__ import annotations

from collections.abc import Iterator

from minigpt.lab import Experiment, Lab, ModelKey, point, progress, readout
from minigpt.supervised import Schedule, SupervisedTraining, held_out_accuracy

SCHEDULE = Schedule()
KEPT_STEPS = (500, 1000, 1500)
"""Checkpoints that every training keeps on its way."""

EVALUATE_EVERY = 250
EVALUATION_COST = 12.0
"""Time of one evaluation, in training steps of one model: what the progress bar counts in."""


def training_cost(formats: int, steps: int, evaluated: bool) -> float:
    """Progress units of a training: steps of all models, plus their evaluations."""
    evaluations = 1 + steps // EVALUATE_EVERY if evaluated else 0
    return formats * (steps + evaluations * EVALUATION_COST)


def train(
    lab: Lab,
    formats: tuple[str, ...],
    seed: int,
    *,
    steps: int = SCHEDULE.end,
    evaluated: bool = False,
    readouts: dict[tuple[str, int], str] | None = None,
    total: float | None = None,
) -> Experiment:
    """Train one model per format in lock-step, one SFT step of each per iteration.

    Keeps a checkpoint of each at 500, 1,000 and 1,500 steps (and at the last one). If evaluated, every 250 steps, from
    0 on, gives a point of the series named after the format; `readouts` names those that are also readouts. `total` is
    the whole run's cost in progress units, if there is more to it than this training. Returns the accuracies by
    (format, step).
    """
    trainings = [SupervisedTraining(lab.backend, format, seed, SCHEDULE, lab.shape) for format in formats]
    total = total or training_cost(len(formats), steps, evaluated)
    accuracies: dict[tuple[str, int], float] = {}
    done = 0.0
    yield progress("train", done, total)
    for step in range(steps + 1):
        if step > 0:
            for training in trainings:
                training.step()
                yield None
            done += len(trainings)
        if step % EVALUATE_EVERY == 0 and evaluated:
            for training in trainings:
                accuracy = yield from held_out_accuracy(lab.backend, training.parameters, training.format, lab.shape)
                accuracies[training.format, step] = accuracy
                yield point(training.format, step, accuracy)
                done += EVALUATION_COST
                name = (readouts or {}).get((training.format, step))
                if name:
                    yield readout(name, accuracy)
        if step in KEPT_STEPS or step == steps:
            for training in trainings:
                yield lab.checkpoint(ModelKey(training.format, step, seed), training.parameters)
        if step % 10 == 0:
            yield progress("train", done, total)
    return accuracies


def trained_keys(formats: tuple[str, ...], seed: int, steps: int = SCHEDULE.end) -> Iterator[ModelKey]:
    """The checkpoints that `train` will give, in order."""
    for step in sorted({*(kept for kept in KEPT_STEPS if kept <= steps), steps}):
        for format in formats:
            yield ModelKey(format, step, seed)


def producer(lab: Lab, key: ModelKey) -> Experiment:
    """The experiment that makes one model, for whoever needs it and finds it neither stored nor on its way."""
    return train(lab, (key.format,), key.seed, steps=key.steps)

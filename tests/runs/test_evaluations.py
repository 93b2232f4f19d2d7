"""Advice at the end of a run follows from the history of its evaluations, where that is sure."""

import random

import pytest

from regard.runs.evaluations import advise, read_trend
from regard.runs.new_run import create_run

OVER, FALLS = "overfitted", "still falling"
FALLING = [2.0, 1.6, 1.35, 1.2, 1.1, 1.0, 0.94, 0.9]
UPTURN = [2.0, 1.2, 1.0, 1.05, 1.15, 1.25, 1.35, 1.5]
FLAT = [2.0, 1.5, 1.2, 1.101, 1.1, 1.1, 1.099, 1.1]
WOBBLY = [2.0, 1.3, 1.12, 1.0, 1.14, 1.05, 1.16, 1.07]
ONE_UP = [2.0, 1.6, 1.35, 1.2, 1.1, 1.0, 0.94, 1.3]
LUCKY = [2.0, 1.5, 1.2, 1.1, 1.12, 1.09, 1.13, 1.05]  # the lowest by chance
NAN = float("nan")
BETTER = [0.5, 0.6, 0.7, 0.8, 0.81, 0.82, 0.83, 0.84]
WORSE = [0.5, 0.7, 0.8, 0.79, 0.78, 0.76, 0.75, 0.7]
EARLY = [0.5, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]


def events(losses, accuracies=None, training="falls"):
    """What metrics.jsonl has of a run that was evaluated every ten steps."""
    found = []
    for k, loss in enumerate(losses):
        steps = range(10 * k + 1, 10 * k + 11)
        found += [{"event": "step", "step": n, "loss": 3 / n if training == "falls" else n} for n in steps]
        more = {} if accuracies is None else {"accuracy": accuracies[k]}
        found.append({"event": "validation", "step": 10 * (k + 1), "loss": loss, **more})
    return found


HISTORIES = [
    # losses, accuracies, kept by, advice
    (FALLING, None, "loss", FALLS),
    (UPTURN, None, "loss", OVER),
    (FLAT, None, "loss", None),
    (WOBBLY, None, "loss", None),  # 7 % above the best, by noise
    (ONE_UP, None, "loss", None),  # one bad evaluation
    (LUCKY, None, "loss", None),
    (UPTURN, None, "last", None),  # such evaluations cannot be compared
    (FALLING, None, "last", None),
    (ONE_UP, None, "last", None),
    (FALLING[:1], None, "loss", None),
    (FALLING[:5], None, "loss", None),  # too few
    (UPTURN[:5], None, "loss", None),
    ([], None, "loss", None),
    ([], None, None, None),
    (UPTURN, None, None, OVER),
    ([NAN] * 8, None, "loss", None),
    ([*UPTURN[:4], NAN, *UPTURN[4:]], None, "loss", OVER),
    ([*FALLING, NAN], None, "loss", FALLS),
    ([2.0, 2.0, NAN, NAN, NAN, NAN, 1.9, 1.8], None, "loss", None),
    (FALLING, BETTER, "accuracy", FALLS),
    (FALLING, EARLY, "accuracy", None),  # the loss falls, but no more are right
    (UPTURN, WORSE, "accuracy", OVER),
    (UPTURN, BETTER, "accuracy", None),  # the loss rises, but more are right
    (UPTURN, BETTER, "loss", None),
    (UPTURN, [NAN] * 8, "accuracy", None),
    (UPTURN, EARLY, "loss", None),  # as many are right
    (UPTURN, WORSE, "loss", OVER),
    ([-1.0, -1.4, -1.6, -1.5, -1.3, -1.1, -0.9, -0.7], None, "loss", OVER),  # of log densities
    ([0.4, 0.1, 0.0, 0.02, 0.06, 0.1, 0.14, 0.2], None, "loss", OVER),
    ([1.0] * 8, None, "loss", None),
    ([2.0, 1.5, 1.2, 1.1, 1.05, 1.049, 1.048, 1.047], None, "loss", None),  # it falls, but hardly
]


@pytest.mark.parametrize("losses, accuracies, keep, expected", HISTORIES)
def test_the_trend_of_a_planted_history(losses, accuracies, keep, expected):
    assert read_trend(events(losses, accuracies), keep) == expected


def test_who_gets_worse_in_training_too_has_not_overfitted():
    assert read_trend(events(UPTURN, training="rises"), "loss") is None


@pytest.mark.parametrize("count", [6, 8, 10, 20, 40])
@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
def test_noise_alone_is_hardly_ever_taken_for_a_trend(count, noise):
    chance = random.Random(0)
    made = ([2 + noise * chance.gauss(0, 1) for _ in range(count)] for _ in range(300))
    found = [read_trend(events(losses), "loss") for losses in made]
    assert sum(each is not None for each in found) <= 0.03 * len(found)


def planted(folder, losses, train, steps=80):
    run = create_run(folder / "run", {"train": train, "steps": steps, "keep": "loss"})
    run.append(events(losses))
    return run


@pytest.mark.parametrize(
    "losses, how, said",
    [
        (FALLING, {"minutes": 2.0}, ["0.9400", "0.9000", "--train.minutes 6"]),
        (FALLING, {"minutes": 2.0, "steps": 80}, ["--train.steps 240"]),  # steps replace minutes
        (UPTURN, {}, ["step 30,", "1.0000", "1.5000", "--train.patience 3"]),
    ],
)
def test_the_sentence_has_the_figures_and_the_option(tmp_path, losses, how, said):
    found = advise(planted(tmp_path, losses, how))
    assert all(each in found for each in said)


def test_a_run_that_was_stopped_needs_no_longer_training_and_one_with_patience_has_it(tmp_path):
    assert advise(planted(tmp_path / "a", FALLING, {}, steps=200)) is None
    found = advise(planted(tmp_path / "b", UPTURN, {"patience": 5}))
    assert "overfitted" in found and "patience" not in found

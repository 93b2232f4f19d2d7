"""A budget in minutes: plans, threads, evaluations by time. The clock is a made one, which a step moves on."""

import io
import itertools
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from regard.training import budget, loop
from regard.training.budget import Plan
from regard.training.checkpoint import Checkpoints
from regard.training.config import TrainConfig
from regard.training.optimisers import schedule
from regard.training.progress import Lines, Observer
from regard.training.threads import ThreadTrial
from tests.training.cases import At, Pairs, interrupt, losses, says, train


class Clock:
    """Stands in for `time`: only what the test says takes time."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for module in (loop, budget):
        monkeypatch.setattr(module, "time", made)
    return made


class Slow(Pairs):
    """Pairs whose batches take cost(seconds since the start, threads) seconds, and their evaluation as many as it says."""

    def __init__(self, clock, cost, evaluation=0.0):
        super().__init__()
        self.clock, self.cost, self.evaluation, self.began = clock, cost, evaluation, clock.now

    def batch(self, step):
        if step < 10**6:
            self.clock.now += self.cost(self.clock.now - self.began, torch.get_num_threads())
        return super().batch(step)

    def validation(self):
        for batch in super().validation():
            yield SimpleNamespace(to=partial(self._evaluate, batch))

    def _evaluate(self, batch, device):
        self.clock.now += self.evaluation / self.evaluations
        return batch


class Rates(Observer):
    """Remembers the learning rate of each step, as a share of the highest, and all plans."""

    def __init__(self):
        self.plans, self.evaluated_at, self.notes = [], [], []

    def decided(self, steps, before=None):
        self.plans.append((steps, before))

    def evaluated(self, step, measures):
        self.evaluated_at.append(step)

    def noted(self, text):
        self.notes.append(text)


def spend(tmp_path, clock, cost, minutes=1.0, evaluation=0.0, name="run", **options):
    """Train for some minutes; returns the run, the result, the share of the budget that it took, and what was
    told."""
    seen, began = Rates(), clock.now
    options = {"steps": None, "minutes": minutes, "evaluate_every": None, "warmup": 0, **options}
    observers = [seen, *options.pop("observers", ())]
    run, result = train(tmp_path / name, source=Slow(clock, cost, evaluation), observers=observers, **options)
    return run, result, (clock.now - began) / (60 * minutes), seen


PACES = {
    "steady": lambda now, threads: 0.5,
    "slower": lambda now, threads: 0.4 if now < 20 else 1.4,
    "faster": lambda now, threads: 3.0 if now < 15 else 0.5,
    "noisy": lambda now, threads: 0.6 + 0.5 * math.sin(now),
    "a hole": lambda now, threads: 0.5 if not 20 < now < 25 else 2.5,
}


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("evaluation", [0.0, 1.0])
def test_minutes_are_minutes(tmp_path, clock, pace, evaluation):
    run, result, share, seen = spend(tmp_path, clock, PACES[pace], evaluation=evaluation, threads=1)
    assert 0.9 <= share <= 1.1
    assert result.step == result.steps == run.config.steps
    assert len(seen.evaluated_at) >= 10
    assert len(seen.plans) >= (2 if pace in ("slower", "faster") else 1)


def test_a_run_of_many_steps_without_time_ends(tmp_path, clock):
    """A twentieth of its steps takes longer than the time between two plans: it must not be given again and again."""

    def cost(now, threads):
        assert now < 24, "the run has twice its budget, and goes on"
        return 0.01 if now < 11 else 0.025

    share = spend(tmp_path, clock, cost, minutes=0.2, threads=1)[2]
    assert (
        0.9 <= share <= 1.25
    )  # a twentieth of the steps is left for the learning rate to fall, at 2.5 times the price


def test_a_plan_made_once_would_miss_the_budget(tmp_path, clock, monkeypatch):
    """The test above can fail."""
    monkeypatch.setattr(budget, "OFF", math.inf)
    assert spend(tmp_path, clock, PACES["slower"], threads=1)[2] > 2


def test_evaluations_that_take_long_are_fewer(tmp_path, clock):
    _, _, share, seen = spend(tmp_path, clock, PACES["steady"], evaluation=5.0, threads=1)
    assert len(seen.evaluated_at) == 3 and share <= 1.1


def test_evaluations_of_many_batches_take_a_part_of_them(tmp_path, clock):
    """Ten of them in a minute, where three of the whole split would fit."""
    stride = budget.find_stride(60.0, whole=5.0, extra=0.5, batches=40)
    assert stride == 5 and 10 * (5.0 / stride + 0.5) <= 15.0
    source = Slow(clock, PACES["steady"], evaluation=5.0)
    source.evaluations, seen = 40, Rates()
    began = clock.now
    options = {"steps": None, "minutes": 1.0, "evaluate_every": None, "warmup": 0, "threads": 1}
    run, _ = train(tmp_path / "run", source=source, observers=[seen], **options)
    assert len(seen.evaluated_at) >= 10 and clock.now - began < 66
    assert any("validation batches" in note for note in seen.notes)
    assert Checkpoints(run.state).load()[0].facts["plan"]["stride"] == 4


@pytest.mark.parametrize("batches, extra, stride", [(15, 0.0, 1), (16, 0.0, 2), (160, 9.0, 20), (10**4, 0.5, 6)])
def test_a_part_of_the_validation_split_has_eight_batches_at_least(batches, extra, stride):
    assert budget.find_stride(60.0, whole=6.0, extra=extra, batches=batches) == stride


def test_the_learning_rate_never_jumps_and_ends_near_zero(tmp_path, clock, monkeypatch):
    rates = []

    def keep(*arguments, **options):
        rates.append(schedule(*arguments, **options))
        return rates[-1]

    monkeypatch.setattr("regard.training.step.schedule", keep)
    for name in ("slower", "faster", "a hole"):
        rates.clear()
        spend(tmp_path, clock, PACES[name], threads=1, decay=0.6, name=name)
        assert rates[0] == 1.0 and rates[-1] < 0.15
        falls = [before - after for before, after in itertools.pairwise(rates)]
        assert min(falls) >= 0 and max(falls) < 0.15


# ── threads


@pytest.fixture
def two_threads(monkeypatch):
    """torch has two threads, it says."""
    now = [2]
    monkeypatch.setattr(torch, "get_num_threads", lambda: now[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: now.__setitem__(0, count))
    yield
    assert now == [2]  # a training leaves them as they were


@pytest.mark.parametrize(
    "cost, chosen",
    [
        (lambda now, threads: 1.0 / threads, 2),
        (lambda now, threads: 0.5 * (1 if threads == 1 else 5), 1),
        (lambda now, threads: 0.6, 2),  # equal
    ],
)
def test_the_faster_number_of_threads_is_chosen_and_said(tmp_path, clock, two_threads, cost, chosen):
    run, _, share, seen = spend(tmp_path, clock, cost)
    kept = Checkpoints(run.state).load()[0]
    assert kept.facts["threads"] == chosen and 0.9 < share < 1.25
    assert any(("one thread:" if chosen == 1 else "2 threads:") in note for note in seen.notes)


def test_threads_are_tried_again_when_steps_become_slow(tmp_path, clock, two_threads):
    def busy(now, threads):
        return 0.4 if now < 20 else 0.7 * (1 if threads == 1 else 4)

    run, _, share, seen = spend(tmp_path, clock, busy)
    assert Checkpoints(run.state).load()[0].facts["threads"] == 1 and share < 1.3
    assert len([note for note in seen.notes if "a step" in note]) == 2


def test_threads_as_asked_are_not_tried(tmp_path, clock, two_threads):
    run, _, _, seen = spend(tmp_path, clock, lambda now, threads: 0.5 * threads, threads=2)
    assert Checkpoints(run.state).load()[0].facts["threads"] == 2 and not seen.notes


def test_a_trial_needs_steps_of_each_number():
    trial = ThreadTrial((4, 1))
    numbers = []
    for seconds in (9.0, 1.0, 3.0, 0.5, 1.0, 1.0, 0.5):
        assert not trial.enough(0.1, 1.0)
        numbers.append(trial.current)
        trial.add(seconds)
    assert numbers == [4, 4, 1, 1, 4, 4, 1] and trial.enough(0.04, 1.0) and not trial.enough(0.03, 1.0)
    assert trial.choose() == 1 and trial.step(4) == 1.0
    assert ThreadTrial((4,)).say() is None


# ── going on


def test_a_killed_run_goes_on_with_its_plan_and_the_same_losses(tmp_path, clock):
    cost = PACES["slower"]
    whole, _, _, _ = spend(tmp_path, clock, cost, threads=1, name="whole", save_minutes=0.05)
    stops = At(50, interrupt)
    _, result, _, _ = spend(tmp_path, clock, cost, threads=1, name="killed", observers=[stops], save_minutes=0.05)
    assert (result.reason, result.step) == ("stopped", 50)
    source = Slow(clock, lambda now, threads: cost(now + 20, threads))
    again, result = train(
        tmp_path / "killed", resume=True, source=source, steps=None, minutes=1.0, warmup=0, evaluate_every=None,
        threads=1, save_minutes=0.05,
    )  # fmt: skip
    assert result.reason == "done" and losses(again)[:50] == losses(whole)[:50]
    assert 50 <= result.seconds <= 66


def test_more_minutes_make_more_steps_until_the_run_is_done(tmp_path, clock):
    spend(tmp_path, clock, PACES["steady"], threads=1, observers=[At(20, interrupt)])
    again = {"resume": True, "steps": None, "evaluate_every": None, "warmup": 0, "threads": 1}
    run, result = train(tmp_path / "run", source=Slow(clock, PACES["steady"]), minutes=2.0, **again)
    assert 225 <= result.step <= 250 and run.config.train["minutes"] == 2.0
    with pytest.raises(ValueError, match=says("is done", "2 minutes", f"load_weights('{tmp_path / 'run'}'")):
        train(tmp_path / "run", source=Slow(clock, PACES["steady"]), minutes=3.0, **again)


def test_steps_instead_of_minutes_before_the_learning_rate_falls(tmp_path, clock):
    spend(tmp_path, clock, PACES["steady"], threads=1, observers=[At(20, interrupt)], decay=0.5)
    again = {"resume": True, "warmup": 0, "evaluate_every": None, "threads": 1, "decay": 0.5}
    with pytest.raises(ValueError, match=says("cannot become a run of 30", "step 20")):
        train(tmp_path / "run", steps=30, **again)
    _, result = train(tmp_path / "run", steps=60, **again)
    assert result.step == result.steps == 60


# ── plans


@pytest.mark.parametrize(
    "spent, done, step, evaluation, expected",
    [
        (0.0, 0, 0.1, 0.0, (1000, 10)),
        (0.0, 0, 0.1, 1.0, (900, 10)),  # ten evaluations take ten seconds
        (0.0, 0, 0.1, 10.0, (800, 2)),  # two fit into a quarter of the time
        (0.0, 0, 0.1, 60.0, (400, 1)),  # one at least
        (50.0, 100, 0.1, 1.0, (100 + 450, 10)),
        (105.0, 100, 0.1, 0.1, (105, 10)),  # time is up: a few steps more, so that the learning rate can fall
        (100.0, 1, 9.0, 1.0, (2, 10)),
    ],
)
def test_plans(spent, done, step, evaluation, expected):
    plan = budget.by_time(100.0, spent, done, step=step, evaluation=evaluation, decay=0.6)
    assert (plan.steps, plan.evaluations) == expected
    assert plan.share_done(done) == plan.share == min(0.4, spent / 100) and plan.share_done(plan.steps) == 1


def test_a_plan_goes_on_from_the_share_of_the_one_before():
    old = Plan(100, None, 0, 0.0)
    plan = budget.by_time(100.0, 90.0, 70, step=1.0, evaluation=0.0, decay=0.6, old=old)
    assert plan.share_done(70) == 0.7 and plan.steps == 80
    held = budget.by_time(100.0, 30.0, 10, step=1.0, evaluation=0.0, decay=0.6, old=old)
    assert held.share_done(10) == 0.3  # the learning rate does not fall yet: the share is that of the time


def test_a_plan_with_evaluations_as_asked():
    plan = budget.by_time(110.0, 0.0, 0, step=0.9, evaluation=10.0, decay=0.6, evaluate_every=100)
    assert (plan.steps, plan.evaluate_every) == (100, 100)
    assert budget.by_steps(95, None) == Plan(95, 10) and budget.by_steps(95, 7) == Plan(95, 7)
    steps = (5, 30, 100, 101, 5000)
    assert [budget.by_steps(each, None).evaluate_every for each in steps] == [10, 10, 10, 11, 500]


# ── words


def test_a_plan_that_changes_much_is_told(tmp_path, clock):
    stream = io.StringIO()
    spend(tmp_path, clock, PACES["slower"], threads=1, observers=[Lines(stream)])
    assert "steps take longer than at first" in stream.getvalue()
    quiet = io.StringIO()
    spend(tmp_path, clock, PACES["steady"], threads=1, observers=[Lines(quiet)], name="quiet")
    assert "than at first" not in quiet.getvalue()


def test_a_config_has_threads():
    with pytest.raises(ValueError, match=says("threads", "0")):
        TrainConfig(threads=0)

"""The budget of a training: the plan of its steps and evaluations, and who keeps it in the minutes it was given."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace

import torch

from regard.config import to_dict
from regard.errors import RegardError
from regard.runs.run import Run
from regard.training.checkpoint import TrainState
from regard.training.config import TrainConfig
from regard.training.optimisers import ROUNDING, last_before_decay
from regard.training.step import Stepper
from regard.training.threads import ThreadTrial, use_threads

EVALUATIONS = 10  # in a run, if time allows
STEPS_APART = 10  # fewest steps between two evaluations, if the budget is in steps
SHARE = 0.25  # largest share of the time for evaluations
FEWEST = 8  # batches of the validation split in an evaluation, if only a part of them is evaluated
LEAST = 0.05  # fewest steps that a plan still adds, as a share of those done: so the learning rate can fall
OFF = 0.04  # a plan that misses the budget by more than this share of it is made again
PLANS_APART = 0.03  # shortest time between two plans, as a share of the budget
SAVES = 10  # and as a number of checkpoints, because each plan is saved in one
HORIZON = 0.05  # steps of about this share of the budget count for the pace
SLOWER = 1.5  # when a step takes this many times as long as planned, threads are tried again


# ── the plan


@dataclass(frozen=True)
class Plan:
    """The number of steps, when to evaluate, and the share of the training that is done at each step.

    A plan that was made after `since` steps, when the share `share` was done, spreads the rest evenly over the
    steps that are left. Schedules follow the share, so they go on from where they were.
    """

    steps: int
    evaluate_every: int | None = None  # steps between two evaluations; None: `evaluations` decides
    since: int = 0
    share: float = 0.0
    evaluations: int = EVALUATIONS  # in the whole time, evenly apart, where `evaluate_every` is None
    stride: int = 1  # every so many batches of the validation split are evaluated

    def share_done(self, step: int) -> float:
        """The share of the training that is done after so many steps."""
        if step >= self.steps:
            return 1.0
        return self.share + (1 - self.share) * (step - self.since) / (self.steps - self.since)


def by_steps(steps: int, evaluate_every: int | None) -> Plan:
    """The plan of a budget in steps. It never changes."""
    if evaluate_every is None:
        evaluate_every = max(STEPS_APART, math.ceil(steps / EVALUATIONS))
    return Plan(steps, evaluate_every)


def by_time(
    budget: float,
    spent: float,
    done: int,
    *,
    step: float,
    evaluation: float,
    decay: float,
    evaluate_every: int | None = None,
    old: Plan | None = None,
) -> Plan:
    """The plan of a budget in seconds, of which `spent` have passed after `done` steps, where a step takes
    `step` seconds, an evaluation `evaluation`. old: the plan before this one

    Until the learning rate begins to fall, the share that is done is that of the time. From then on it is the
    one of the plan before, so that the learning rate never jumps.
    """
    evaluations = count_evaluations(budget, evaluation)
    left = budget - spent
    if evaluate_every is None:
        more = (left - evaluations_left(spent, budget, evaluations) * evaluation) / step
    else:
        more = (left - evaluation) / (step + evaluation / evaluate_every)
    share = 0.0 if old is None else old.share_done(done)
    if share <= 1 - decay:
        share = min(spent / budget, 1 - decay)
    least = math.ceil(LEAST * done)
    if old is not None:
        least = min(least, old.steps - done)  # or a run without time would be given more steps at each plan
    steps = done + max(1, int(more), least)
    return Plan(steps, evaluate_every, done, share, evaluations, 1 if old is None else old.stride)


def count_evaluations(budget: float, evaluation: float) -> int:
    """Evaluations in `budget` seconds: `EVALUATIONS`, or what fits into its share of the time, but one at least."""
    if evaluation <= 0:
        return EVALUATIONS
    return max(1, min(EVALUATIONS, int(SHARE * budget / evaluation)))


def find_stride(budget: float, *, whole: float, extra: float, batches: int) -> int:
    """The stride with which `EVALUATIONS` evaluations fit into their share of the time, if at least `FEWEST` batches
    are evaluated then. whole: seconds for all batches, extra: for what else an evaluation does"""
    room = SHARE * budget / EVALUATIONS - extra
    if whole <= room or batches < 2 * FEWEST:
        return 1
    largest = batches // FEWEST
    return largest if room <= 0 else min(largest, math.ceil(whole / room))


def evaluations_left(spent: float, budget: float, evaluations: int) -> int:
    """Evaluations still to come after `spent` seconds, the one at the end included."""
    return max(1, evaluations - int(spent / budget * evaluations))


# ── a budget in minutes


class Timekeeper:
    """The pace of a run with a budget in minutes. All times are in seconds since the run began, whatever the
    number of processes."""

    def __init__(self, config: TrainConfig, device: torch.device) -> None:
        assert config.minutes is not None
        self.config, self.budget = config, 60 * config.minutes
        self.evaluation, self.save = 0.0, 0.0  # of an evaluation, of a checkpoint
        self.stride = 1  # of the batches of an evaluation
        self.total, self.count = 0.0, 0.0  # of recent steps
        self.planned: float | None = None  # seconds of a step that the plan counts on
        self.made = 0.0  # when the plan was made
        self.all = config.threads or torch.get_num_threads()
        chooses = device.type == "cpu" and config.threads is None and not config.compile
        self.choices = tuple(dict.fromkeys((self.all, 1))) if chooses else (self.all,)
        self.trial: ThreadTrial | None = ThreadTrial(self.choices)
        self.tried = 0.0  # seconds of steps in the trial
        self.compiles = config.compile

    # ── steps

    def begin_step(self) -> None:
        if self.trial is not None:
            self.trial.begin_step()

    def add_step(self, seconds: float) -> None:
        """A step was done. The first of a compiled model may take a minute that tells nothing about the
        others."""
        if self.compiles:
            self.compiles = False
            return
        if self.trial is not None:
            self.trial.add(seconds)
            self.tried += seconds
        fade = math.exp(-seconds / (HORIZON * self.budget))
        self.total, self.count = fade * self.total + seconds, fade * self.count + 1

    @property
    def pace(self) -> float:
        """Seconds of a step, as of late."""
        return max(1e-6, self.total / self.count) if self.count else 1e-6

    # ── plans

    def resume(self, plan: Plan | None, threads: int | None, seconds: float) -> None:
        """Go on with a plan and threads of an earlier process."""
        if plan is not None:
            self.trial, self.made = None, seconds
        if threads is not None and self.config.threads is None:
            use_threads(min(threads, self.all))

    def plan_from(self, step: int, seconds: float, old: Plan) -> Plan:
        """Plan again, with the pace of the whole run until now."""
        self.trial = None
        self.add_step(seconds / step)
        return self.decide(step, seconds, old)

    def due(self, plan: Plan | None, step: int, seconds: float) -> bool:
        """Is it time for a plan?"""
        if self.trial is not None:
            return self.trial.enough(self.tried, self.budget)
        if plan is None or not self.count or step >= plan.steps:
            return False
        if seconds - self.made < max(PLANS_APART * self.budget, SAVES * self.save):
            return False
        return abs(self._end(plan, step, seconds) - self.budget) > OFF * self.budget

    def retry_threads(self) -> bool:
        """Try the numbers of threads again, if steps take much longer than planned; the plan follows."""
        slower = self.planned is not None and self.pace > SLOWER * self.planned
        if not slower or len(self.choices) == 1:
            return False
        self.planned = None
        self.trial, self.tried = ThreadTrial(self.choices), 0.0
        return True

    def expect_evaluations(self, extra: float, whole: float, batches: int) -> None:
        """What an evaluation will take: `whole` seconds for all batches, and `extra` for what else it does."""
        if self.config.evaluate_every is None:
            self.stride = find_stride(self.budget, whole=whole, extra=extra, batches=batches)
        self.evaluation = extra + whole / self.stride

    def decide(self, step: int, seconds: float, old: Plan | None) -> Plan:
        """Choose threads if they were tried, and make a plan."""
        if self.trial is not None:
            threads = self.trial.choose()
            use_threads(threads)
            if self.trial.steps:
                self.total, self.count = self.trial.step(threads), 1.0
            self.trial = None
        self.planned, self.made = self.pace, seconds
        plan = by_time(
            self.budget,
            seconds,
            step,
            step=self.pace,
            evaluation=self.evaluation,
            decay=self.config.decay,
            evaluate_every=self.config.evaluate_every,
            old=old,
        )
        return replace(plan, stride=self.stride) if old is None else plan

    def eval_due(self, plan: Plan, last_eval: float, seconds: float) -> bool:
        """Has the time for another evaluation come? last_eval: when the last one ended"""
        each = self.budget / plan.evaluations
        return int(seconds / each) > int(last_eval / each)

    def _end(self, plan: Plan, step: int, seconds: float) -> float:
        """When the plan would end, at the pace of late."""
        left = plan.steps - step
        if plan.evaluate_every is None:
            evaluations = evaluations_left(seconds, self.budget, plan.evaluations)
        else:
            evaluations = math.ceil(left / plan.evaluate_every)
        return seconds + left * self.pace + evaluations * self.evaluation


def time_evaluation(stepper: Stepper, limit: float) -> tuple[float, int]:
    """Seconds to measure the whole validation split, from as much of it as takes `limit` seconds; and its
    batches."""
    seen, began, batches = 0, time.perf_counter(), stepper.source.validation()
    for batch in batches:
        stepper.task.measure(stepper.model, [batch.to(stepper.device)])
        seen += 1
        if time.perf_counter() - began > limit:
            break
    seconds = time.perf_counter() - began
    count = seen + sum(1 for _ in batches)
    return seconds / max(seen, 1) * count, count


# ── at the start, and when a run goes on


def settle_budget(
    run: Run, config: TrainConfig, state: TrainState, device: torch.device
) -> tuple[Plan | None, Timekeeper | None]:
    """The plan, as far as it is known, and who keeps the time of a budget in minutes. Changes `state` and the
    run's config.json where the budget changed."""
    before = config if run.config.train is None else run.section(type(config), "train")
    if config.threads is not None:
        use_threads(config.threads)
    old = _old_plan(run, state)
    keeper = None
    if before.steps is not None and (config.steps is None or config.minutes != before.minutes):
        raise RegardError(
            f"{run.path} was started with a budget of {before.steps:,} steps, so it cannot go on for "
            f"minutes={config.minutes}; give train.steps, or {run.start_advice}"
        )
    if config.steps is not None:
        plan: Plan | None = _plan_steps(run, config, state, old)
    else:
        keeper = Timekeeper(config, device)
        plan = _plan_minutes(run, keeper, state, old, before.minutes)
    if plan != old or run.config.train != to_dict(config):
        known = {} if plan is None else {"steps": plan.steps, "evaluate_every": plan.evaluate_every}
        run.update(train=config, **known)
    return plan, keeper


def _old_plan(run: Run, state: TrainState) -> Plan | None:
    """The plan of an earlier process."""
    if state.plan is not None:
        return Plan(**state.plan)
    if run.config.steps is None:
        return None
    return Plan(run.config.steps, run.config.evaluate_every)


def _plan_steps(run: Run, config: TrainConfig, state: TrainState, old: Plan | None) -> Plan:
    """The plan of a budget in steps."""
    assert config.steps is not None
    if old is not None and old.steps == config.steps and state.plan is None:
        return old
    if old is not None:
        _refuse_other_steps(run, config, state, old)
    state.plan = state.threads = None
    return by_steps(config.steps, config.evaluate_every)


def _refuse_other_steps(run: Run, config: TrainConfig, state: TrainState, old: Plan) -> None:
    """Allow another number of steps as long as the learning rate has not begun to fall: the result is then
    exact."""
    wanted = config.steps
    assert wanted is not None
    holds = last_before_decay(min(old.steps, wanted), config.decay)
    fell = state.step > 0 and old.share_done(state.step - 1) > 1 - config.decay + ROUNDING
    if state.step > holds + 1 or fell:
        raise RegardError(
            f"{run.path} has {old.steps} steps and cannot become a run of {wanted}: step {state.step} is done, "
            f"and the learning rate falls from step {holds + 1} on, so the result would differ from a run of "
            f"{wanted} steps; start a new run, or, if you want its weights, {run.start_advice}"
        )


def _plan_minutes(
    run: Run, keeper: Timekeeper, state: TrainState, old: Plan | None, before: float | None
) -> Plan | None:
    """The plan of before, or one made anew if the minutes changed. before: the minutes of then"""
    plan = old
    if old is not None and state.step and before != keeper.config.minutes:
        if state.step == old.steps:
            raise RegardError(
                f"{run.path} is done: its {old.steps:,} steps filled the {before:g} minutes it had, and its learning "
                f"rate fell to zero; to train more, {run.start_advice}"
            )
        plan = keeper.plan_from(state.step, state.seconds, old)
        state.plan = asdict(plan)
    keeper.resume(plan, state.threads, state.seconds)
    return plan

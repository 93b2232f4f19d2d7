"""Keeps a run in the minutes it was given: times its steps, makes the plan, and says when to make it again."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch

from regard.training.budget import Plan, by_time, evaluations_left, find_stride
from regard.training.config import TrainConfig
from regard.training.step import Stepper
from regard.training.threads import ThreadTrial, use_threads

OFF = 0.04  # a plan that misses the budget by more than this share of it is made again
APART = 0.03  # shortest time between two plans, as a share of the budget
SAVES = 10  # and as a number of checkpoints, because each plan is saved in one
HORIZON = 0.05  # steps of about this share of the budget count for the pace
SLOWER = 1.5  # when a step takes this many times as long as planned, threads are tried again


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
        if seconds - self.made < max(APART * self.budget, SAVES * self.save):
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

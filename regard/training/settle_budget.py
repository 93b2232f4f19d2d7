"""The budget of a run, when it starts or goes on: what is known of its plan, and what may still change."""

from __future__ import annotations

from dataclasses import asdict

import torch

from regard.config import to_dict
from regard.errors import RegardError
from regard.runs.run import Run
from regard.training.budget import Plan, by_steps
from regard.training.checkpoint import TrainState
from regard.training.config import TrainConfig
from regard.training.schedule import ROUNDING, last_before_decay
from regard.training.threads import use_threads
from regard.training.timekeeper import Timekeeper


def settle_budget(
    run: Run, config: TrainConfig, state: TrainState, device: torch.device
) -> tuple[Plan | None, Timekeeper | None]:
    """The plan, as far as it is known, and who keeps the time of a budget in minutes. Changes `state` and the
    run's config.json where the budget changed."""
    if run.config.train is not None:
        before = run.section(type(config), "train")
    else:
        before = config
    if config.threads is not None:
        use_threads(config.threads)
    old = _old_plan(run, state)
    keeper = None
    if before.steps is not None and (config.steps is None or config.minutes != before.minutes):
        raise RegardError(
            f"{run.path} was started with a budget of {before.steps:,} steps, so it cannot go on for "
            f"minutes={config.minutes}; give train.steps, or start a new run with --from {run.quoted}"
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
            f"{wanted} steps; start a new run, with --from {run.quoted} if you want its weights"
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
                f"rate fell to zero; to train more, start a new run with --from {run.quoted}"
            )
        plan = keeper.plan_from(state.step, state.seconds, old)
        state.plan = asdict(plan)
    keeper.resume(plan, state.threads, state.seconds)
    return plan

"""The loop: steps, evaluations, checkpoints. Any model, any task, any source of batches.

Everything random is drawn from (seed, step), and batches come by number, so a run that was killed at any
moment goes on to the same losses, bit for bit on the same processor and threads, as one that never stopped.
Several processes run the same loop. Rank 0 writes the run and is observed; what time or signals decide, it decides.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.data.batch import Source
from regard.errors import RegardError
from regard.runs.environment import environment
from regard.runs.evaluations import LAST, advise, find_measure, rank
from regard.runs.lock import Lock, exclusive_lock
from regard.runs.number_format import say_measures
from regard.runs.run import Run
from regard.training.budget import Plan, Timekeeper, settle_budget, time_evaluation
from regard.training.checkpoint import Checkpoint, CheckpointWriter, PartWriter, TrainState
from regard.training.config import TrainConfig
from regard.training.memory import recompute_activations
from regard.training.progress import Board, Metrics, Result, how_to_go_on, tell
from regard.training.step import Stepper, compile_steps
from regard.training.stop import Stop, Stopped
from regard.training.tasks import Task, as_task, keep_finite
from regard.training.threads import own_threads, use_threads

MAY_CHANGE = (
    "minutes",
    "steps",
    "save_minutes",
    "save_every",
    "threads",
    "processes",
    "parallel",
    "timeout",
    "save_beside",
    "tensorboard",
    "provenance",
    "examples",
)  # of a TrainConfig, when a run goes on
READ_EVERY = 16  # steps between two readings of losses from a device that would have to be waited for


class NotANumber(RegardError):
    """The loss, or a weight, is NaN or infinite."""


def fit(
    run: Run,
    model: nn.Module,
    task: Any,
    source: Source,
    config: TrainConfig,
    *,
    resume: bool = False,
    observers: Sequence[Any] = (),
    sample: Callable[[nn.Module], str] | None = None,
    notes: Sequence[str] = (),
    stepper: Callable[[nn.Module, Task, Source, TrainConfig], Stepper] = Stepper,
) -> Result:
    """Train a model in a run directory: to the end of its budget, until it is asked to stop, or until
    patience runs out.

    task: a Task, its name, or a function (model, batch) -> mean loss. sample: model -> text, shown and kept
    after each evaluation. notes: what the user should know about the data. stepper: makes what
    does a step, where that is more than one batch and its gradients. The best weights are in the run's
    model.safetensors; the model itself ends with the last ones.
    To resume, give a model made as the first time (with the same seed), which is what a run without
    checkpoint starts from.
    """
    with ExitStack() as after:
        after.enter_context(own_threads())
        made = stepper(model, as_task(task), source, config)
        lock = after.enter_context(exclusive_lock(run.state) if made.ranks.leads else nullcontext())
        stop = after.enter_context(Stop())
        run.sweep()
        training = Training(run, made, config, observers, sample, stop, lock)
        try:
            training.prepare(resume, notes)
            after.enter_context(training.stepper.balance.listening())
            if config.recompute:
                after.enter_context(recompute_activations(model))
            if config.compile:
                after.enter_context(compile_steps(model))
            return training.go()
        except BaseException as error:
            with suppress(Exception):  # the first error is the one to tell
                training.writer.wait()
            training.tell("failed", error)
            raise


class Training:
    """One call of `fit`."""

    def __init__(
        self,
        run: Run,
        stepper: Stepper,
        config: TrainConfig,
        observers: Sequence[Any],
        sample: Callable[[nn.Module], str] | None,
        stop: Stop,
        lock: Lock | None,
    ) -> None:
        self.run, self.stepper, self.config, self.sample, self.stop = run, stepper, config, sample, stop
        self.lock, self.ranks = lock, stepper.ranks
        self.metrics = Metrics(run)
        self.observers: list[Any] = []
        if self.ranks.leads:
            self.observers = [self.metrics, *observers, *([Board()] if config.tensorboard else [])]
        self.writer = (CheckpointWriter if self.ranks.leads else PartWriter)(run, beside=config.save_beside)
        self.checkpoints = self.writer.checkpoints
        self.state = TrainState()
        self.plan: Plan | None = None
        self.timekeeper: Timekeeper | None = None  # of a budget in minutes
        self.notes: list[str] = []
        self.unread: list[tuple[int, Tensor, int, float]] = []  # steps whose loss was not read from the device yet
        self.loss: float | None = None
        self.keep = find_measure(config.keep, stepper.task)
        self.saved = self.counted = time.perf_counter()

    @property
    def steps(self) -> int | None:
        return None if self.plan is None else self.plan.steps

    # ── before

    def prepare(self, resume: bool, notes: Sequence[str] = ()) -> None:
        """Everything up to the first step."""
        found = self._find(resume) if self.ranks.leads else None
        self.notes += notes
        facts = self.ranks.agree(None if found is None else found.facts)
        if facts is not None:
            self.stepper.load(found)
            self.state = TrainState(**facts)
            self.writer.written = self.state.step
        device = self.stepper.device
        self.plan, self.timekeeper = settle_budget(self.run, self.config, self.state, device)
        if self.run.config.keep != self.keep:
            self.run.update(keep=self.keep)
        if resume and (lost := self.run.cut(-1 if found is None else found.step)):
            self.notes.append(f"{lost} lines of {self.run.metrics_file} could not be read and were dropped")
        self.metrics.start(self.state.step, self.state.seconds)
        self.tell("started", self.run, self.steps, self.state.step)
        for note in self.notes:
            self.tell("noted", note)
        if found is not None and self.state.best_step == found.step:
            self.writer.publish(found)  # it may have been killed just before that

    def _find(self, resume: bool) -> Checkpoint | None:
        """The checkpoint to resume from, if there is one and `resume` is set."""
        if not resume:
            if self.checkpoints.latest.exists() or self.run.metrics_file.exists():
                raise FileExistsError(
                    f"{self.run.path} was trained already; go on with --resume, or choose another --out"
                )
            return None
        if self.run.config.train is not None:
            self.run.agree("train", self.config, but=MAY_CHANGE)
        found, self.notes = self.checkpoints.load()
        then, now = self.run.environment(), environment()
        changed = [
            f"{key} {then[key]}, now {now[key]}"
            for key in ("threads", "torch", "processor")
            if key in then and then[key] != now[key]
        ]
        if changed and found is not None:
            self.notes.append(f"the run was started with {'; '.join(changed)}: losses may differ in their last digits")
        return found

    # ── the loop

    def go(self) -> Result:
        self.stepper.model.train()
        if self.state.step == 0 and self.run.config.origin is not None:
            self._measure_start()
        while True:
            if self._eval_due():
                self._evaluate()
            done = self.state.step == self.steps
            tired = self.config.patience is not None and self.state.worse >= self.config.patience
            if self.lock is not None and not self.lock.is_ours():
                self.metrics.given_up = True  # what is there now is not ours
                raise RegardError(f"{self.run.path} was deleted during the training; start it again")
            stop, save = self.ranks.same(self.stop.wished, self._save_due())
            if done or tired or stop or save:
                self._save()
            if done or tired or stop:
                if done:
                    return self._end("done")
                return self._end("patience" if tired else "stopped")
            self._timed_step()

    def _measure_start(self) -> None:
        """Tell how good the weights of the earlier run are, before the first step changes them."""
        with self.stepper.judging():
            stride = 1
            if self.timekeeper is not None and self.ranks.leads:
                limit = 0.01 * self.timekeeper.budget
                stride = max(1, math.ceil(time_evaluation(self.stepper, limit)[0] / limit))
            stride = int(self.ranks.agree(stride))
            try:
                measures = keep_finite(self.stepper.evaluate(stride, self._check_stop))
            except Stopped:
                return
        if measures:
            part = "" if stride == 1 else f" (of one of {stride} batches)"
            self.tell("noted", f"before the first step: validation {say_measures(measures, loss='')}{part}")

    def _timed_step(self) -> None:
        """One step, and a new plan if its time says so."""
        if self.timekeeper is None:
            self._step()
            return
        self.timekeeper.begin_step()
        use_threads(int(self.ranks.same(torch.get_num_threads())[0]))
        began = time.perf_counter()
        self._step()
        self.timekeeper.add_step(time.perf_counter() - began)
        due = self.timekeeper.due(self.plan, self.state.step, self._seconds())
        if self.ranks.same(due and not self.timekeeper.retry_threads())[0]:
            self._make_plan(self.timekeeper)

    def _step(self) -> None:
        """One step."""
        began, step = time.perf_counter(), self.state.step
        done = 0.0 if self.plan is None else self.plan.share_done(step)
        loss, size = self.stepper.gradients(step, done)
        near = self.stepper.device.type == "cpu"
        if near:
            self._check(float(loss), step + 1)  # before it can spoil the weights
        self.stepper.move(step, done)
        self.state.step = step + 1
        seconds = time.perf_counter() - began
        self.unread.append((step + 1, loss, size, seconds))
        if near or len(self.unread) == READ_EVERY:
            self._read()

    def _read(self) -> None:
        """Read losses that the device has computed, and tell them."""
        unread, self.unread = self.unread, []
        for step, loss, size, seconds in unread:
            self.loss = float(loss)
            self._check(self.loss, step)
            self.tell("stepped", step, self.loss, size, seconds)

    def _check(self, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            raise NotANumber(f"the loss is not a number ({loss}) at step {step}; {self._advice()}")

    def _advice(self) -> str:
        kept = self.checkpoints.kept
        left = f"the state of step {kept[0].step} is kept in {kept[0].folder}" if kept else "nothing was saved before"
        return (
            f"{left}; start again with a smaller --train.lr (it was {self.config.peak_lr:g}) "
            f"or a longer --train.warmup (it was {self.config.warmup})"
        )

    # ── now and then

    def _eval_due(self) -> bool:
        """Is it time for an evaluation, and was there none at this step before a stop?"""
        step = self.state.step
        if step in (0, self.state.evaluated):
            return False
        every = self.config.evaluate_every if self.plan is None else self.plan.evaluate_every
        if step == self.steps:
            return True
        if every is not None:
            return step % every == 0
        if self.plan is None or self.timekeeper is None:
            return False
        return bool(self.ranks.same(self.timekeeper.eval_due(self.plan, self.state.last_eval, self._seconds()))[0])

    def _evaluate(self) -> None:
        """Evaluate; save and publish a new best. A signal to stop ends it early, and the resumed run
        evaluates instead."""
        self._read()
        began = time.perf_counter()
        try:
            with self.stepper.judging():
                stride = 1 if self.plan is None else self.plan.stride
                measures = keep_finite(self.stepper.evaluate(stride, self._check_stop))
        except Stopped:
            return
        now = self.state
        now.evaluated, now.last_eval = now.step, self._seconds()
        if not measures:  # no validation split: the last weights are the best
            return
        if self.keep not in (*measures, LAST):
            raise RegardError(
                f"weights cannot be kept by {self.keep}: the measures of this task are {', '.join(measures)}; "
                "use --train.keep loss"
            )
        if not math.isfinite(measures["loss"]):
            raise NotANumber(
                f"the validation loss is not a number ({measures['loss']}) at step {now.step}; {self._advice()}"
            )
        now.measures, now.worse = measures, now.worse + 1
        last = self.keep == LAST or now.best_step is None
        if last or rank(measures, self.keep) > rank(now.best, self.keep):
            now.best, now.best_step, now.worse = measures, now.step, 0
        self.tell("evaluated", now.step, measures)
        if self.stepper.load_of_experts:
            self.tell("routed", now.step, self.stepper.load_of_experts)
        if self.sample is not None:
            with self.stepper.judging():
                text = self.sample(self.stepper.model) if self.ranks.leads else ""
            self.run.write_sample(now.step, text)
            self.tell("sampled", now.step, text)
        if now.best_step == now.step:
            self._save()
        if self.timekeeper is not None:
            self.timekeeper.evaluation = time.perf_counter() - began

    def _check_stop(self) -> None:
        if self.ranks.same(self.stop.wished)[0]:
            raise Stopped

    def _make_plan(self, keeper: Timekeeper) -> None:
        """Turn the minutes that are left into steps, and save the plan."""
        old, trial = self.plan, keeper.trial
        if old is None:
            self._time_extras(keeper)
        plan = keeper.decide(self.state.step, self._seconds(), old)
        self.state.plan, self.state.threads = self.ranks.agree([asdict(plan), torch.get_num_threads()])
        self.plan = Plan(**self.state.plan)
        use_threads(self.state.threads)
        began = time.perf_counter()
        self._save()
        keeper.save = time.perf_counter() - began
        self.run.update(steps=self.plan.steps, evaluate_every=self.plan.evaluate_every)
        if trial is not None and (line := trial.say()) is not None:
            self.tell("noted", line)
        self.tell("decided", self.plan.steps, None if old is None else old.steps)

    def _time_extras(self, keeper: Timekeeper) -> None:
        """Time a checkpoint, a sample and a part of an evaluation, before the first plan."""
        began = time.perf_counter()
        self._save()
        keeper.save = time.perf_counter() - began
        with self.stepper.judging():
            if self.ranks.leads:
                if self.sample is not None:
                    self.sample(self.stepper.model)
                self.stepper.judge()
                extra = time.perf_counter() - began
                keeper.expect_evaluations(extra, *time_evaluation(self.stepper, 0.01 * keeper.budget))
        if keeper.stride > 1:
            self.tell("noted", f"evaluations take one of {keeper.stride} validation batches, to spare time")

    def _save_due(self) -> bool:
        if self._is_saved():
            return False
        if self.config.save_every is not None:
            return self.state.step % self.config.save_every == 0
        return time.perf_counter() - self.saved >= 60 * self.config.save_minutes

    def _is_saved(self) -> bool:
        """Is the last checkpoint up to date?"""
        return self.state.step == 0 or self.writer.has(self.state)

    def _save(self) -> None:
        """Save a checkpoint of this step."""
        self._read()
        if self.ranks.same(self._is_saved())[0]:
            return
        if not self.stepper.finite():
            raise NotANumber(f"a weight is not a number after step {self.state.step}; {self._advice()}")
        self.metrics.flush(sync=True)
        self._seconds()
        self.writer.save(self.state, self.stepper.write_state, self.stepper.copy_state)
        self.saved = time.perf_counter()
        self.tell("saved", self.state.step)

    def _end(self, reason: Literal["done", "stopped", "patience"]) -> Result:
        self.writer.wait()
        self.metrics.flush()
        now = self.state
        result = Result(
            step=now.step,
            steps=self.steps,
            reason=reason,
            loss=self.loss,
            measures=now.measures,
            best=now.best,
            best_step=now.best_step,
            seconds=self._seconds(),
            notes=tuple(self.notes),
            again=how_to_go_on(self.run),
            keep=self.keep,
            averaged=self.stepper.average is not None,
            advice=advise(self.run),
            stride=1 if self.plan is None else self.plan.stride,
        )
        self.tell("ended", result)
        return result

    def _seconds(self) -> float:
        now = time.perf_counter()
        self.state.seconds, self.counted = self.state.seconds + now - self.counted, now
        return self.state.seconds

    def tell(self, what: str, *facts: Any) -> None:
        """Tell all observers."""
        tell(self.observers, what, *facts)

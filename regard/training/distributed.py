"""Training by several processes: each computes the gradients of its slice of the global batch.

Models know nothing of it: DistributedDataParallel is put around the loss from outside. Rank 0 runs the loop as
one process would. Before each part of a step it tells the others what it does, and they do the same
(`follow`). So budgets in minutes, evaluations, patience and stops are decided in one place.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.data.batch import Batch, Source
from regard.data.slices import Slice, check_sliceable, read_slice
from regard.errors import RegardError
from regard.training import optimisers
from regard.training.balance import busiest
from regard.training.checkpoint import Checkpoint
from regard.training.compiled import compiled
from regard.training.config import TrainConfig
from regard.training.ranks import Ranks, choose_device
from regard.training.recompute import recomputing
from regard.training.shared_muon import SharedMuon
from regard.training.step import Stepper, seed_all
from regard.training.stop import Stopped
from regard.training.sums import Numbered, Numbers, summing_over_ranks
from regard.training.table_gradients import TableGradients
from regard.training.tasks import Task, as_task
from regard.training.threads import use_threads

# what rank 0 may tell the others to do
END, GRADIENTS, MOVE, EVALUATE, SPREAD, GATHER, FINITE, SAVE, FULL, LOAD, COPY = range(11)


class LossOf(nn.Module):
    """The loss of a batch as a module, so that DistributedDataParallel can be put around it."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Batch) -> Any:
        return self.task.loss(self.model, batch)


class DistributedStepper(Stepper):
    """A Stepper of which every process has one, for its slice of each batch.

    The loss is the sum over all targets of the global batch, divided by their number: ranks may have different
    numbers of real tokens.
    """

    def __init__(
        self, model: nn.Module, task: Task, source: Source, config: TrainConfig, ranks: Ranks
    ) -> None:
        check_sliceable(source)
        refuse_carried(task)
        super().__init__(model, task, source, replace(config, device=choose_device(config.device, ranks)))
        self.ranks = ranks
        self._spread_due = True
        self.tables: TableGradients | None = None
        self.loss_of: nn.Module = self._wrap()

    def make_optimiser(self) -> optimisers.Optimiser:
        return optimisers.make(self.model, self.config, muon=SharedMuon)

    def _wrap(self) -> nn.Module:
        loss_of = LossOf(self.model, self.task)
        if self.device.type == "cpu":
            # (GPUs would wait to learn which rows changed, and a sum of whole tables hides behind the backward pass)
            self.tables = TableGradients(self.model, self.ranks)
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
                loss_of, [f"model.{name}" for name in self.tables.tables]
            )
        devices = [self.device.index or 0] if self.device.type == "cuda" else None
        with self.ranks.noticing(), warnings.catch_warnings():
            # (broadcast_buffers has a new name, since torch 2.13)
            warnings.simplefilter("ignore", FutureWarning)
            return DistributedDataParallel(
                loss_of,
                device_ids=devices,
                broadcast_buffers=False,
                find_unused_parameters=True,
                gradient_as_bucket_view=True,
            )

    # ── what rank 0 does, after it has told the others

    def gradients(self, step: int, done: float = 0.0) -> tuple[Tensor, int]:
        self.spread()
        self.ranks.tell((GRADIENTS, step, 0, torch.get_num_threads()))
        return self.own_gradients(step)

    def move(self, step: int, done: float) -> None:
        self.ranks.tell((MOVE, step, done))
        self.own_move(step, done)

    def evaluate(self, stride: int, check: Callable[[], None]) -> dict[str, float]:
        self.spread()
        self.ranks.tell((EVALUATE, 0, 0, torch.get_num_threads(), stride))
        return self.own_evaluation(stride, check)

    def spread(self) -> None:
        """Give the others the state that rank 0 has, if they may have another one."""
        if self._spread_due:
            self.ranks.tell((SPREAD,))
            self.own_spread()

    def end(self) -> None:
        self.ranks.tell((END,))

    def load(self, checkpoint: Checkpoint) -> None:
        super().load(checkpoint)
        self._spread_due = True

    # ── what all do

    def own_judging(self) -> AbstractContextManager[None]:
        return Stepper.judging(self)

    def finish(self) -> None:
        """Nothing more is told."""

    def release(self) -> None:
        """Give up what only evaluations need."""

    def obey(self, what: int) -> None:
        """Do what only some kinds of steppers are told to."""
        raise RegardError(f"rank 0 told rank {self.ranks.rank} to do {what}, which is unknown here")

    def own_spread(self) -> None:
        self._spread_due = False
        state = {**dict(self.model.state_dict()), **self.optimiser.tensors()}
        average = [] if self.average is None else self.average.values
        self.ranks.spread([*state.values(), *average])

    def own_gradients(self, step: int) -> tuple[Tensor, int]:
        seed_all(self.config.seed, step, self.device, self.ranks.rank)
        begin_step = getattr(self.task, "begin_step", None)
        if begin_step is not None:
            begin_step(step)
        count = self.config.accumulate
        sums: list[Tensor] = []  # Σ loss·weight and Σ weight of each batch, over all ranks
        size = 0
        for number in range(step * count, (step + 1) * count):
            mine = read_slice(self.source, number, self.ranks.rank, self.ranks.world)
            last = number == (step + 1) * count - 1
            with self._without_sync() if not last else nullcontext():
                sums.append(self._backward(mine, sums))
            size += mine.size
        if self.tables is not None:
            self.tables.average()
        total = sum(sums[1:], sums[0])
        if count > 1:
            torch._foreach_mul_(
                self.optimiser.gradients(), (_above_zero(sums[0][1]) / _above_zero(total[1])).float()
            )
        return (total[0] / _above_zero(total[1])).float(), size

    def own_move(self, step: int, done: float) -> None:
        with self.ranks.noticing():
            Stepper.move(self, step, done)

    def _backward(self, mine: Slice, before: list[Tensor]) -> Tensor:
        """Gradients of Σ loss·weight over all ranks, divided by the weight of the first batch."""
        batch = mine.batch.to(self.device)
        self.balance.begin()
        # weights may be gathered in there
        with self.ranks.noticing(), self.precision():
            loss, weight = self.loss_of(batch)
        balance = self.balance.take_part(self.ranks.sum, mine.counts)
        weight = torch.as_tensor(weight, device=loss.device) * float(mine.counts)
        found = self.ranks.sum(torch.stack((loss.detach().double() * weight, weight.double())))
        first = before[0] if before else found
        scale = self.ranks.world / _above_zero(first[1])  # DistributedDataParallel takes the mean
        scaled = loss * (weight * scale).to(loss.device, loss.dtype)
        if balance is not None:
            scaled = scaled + balance * (found[1] * scale).to(loss.device, loss.dtype)
        with self.ranks.noticing():
            scaled.backward()
        return found

    def _without_sync(self) -> AbstractContextManager[None]:
        found: AbstractContextManager[None] = self.loss_of.no_sync()  # type: ignore[operator]
        return found

    def own_evaluation(self, stride: int, check: Callable[[], None]) -> dict[str, float]:
        """Every rank measures some batches of the validation split; what they found is added up. Running means of
        batch norm are those of rank 0, which are saved."""
        self.ranks.spread(list(self.model.buffers()))
        with summing_over_ranks(self._sum_numbers):
            try:
                self.balance.take_load()
                found = self.task.measure(self.model, self._own_batches(stride, check))
                if self.balance.present:
                    self.load_of_experts = self.balance.take_load(self._sum_numbers)
                return self._with_judge(found)
            except Stopped:
                if self.ranks.leads:
                    self.ranks.gather(None)
                raise

    def _own_batches(self, stride: int, check: Callable[[], None]) -> Numbered:
        def pairs() -> Iterator[tuple[int, Batch]]:
            for number, batch in enumerate(islice(self.source.validation(), 0, None, stride)):
                check()
                if number % self.ranks.world == self.ranks.rank:
                    yield number, batch.to(self.device)

        return Numbered(pairs())

    def _with_judge(self, found: dict[str, float]) -> dict[str, float]:
        if not found or not self.ranks.leads:
            return found
        return found | busiest(self.load_of_experts) | self.judge()

    def _sum_numbers(self, mine: Numbers) -> dict[str, list[float]]:
        total: dict[str, list[float]] = {}
        for each in self.ranks.gather(dict(mine)):
            if each is None:
                raise Stopped  # rank 0 was asked to stop
            for name, numbers in each.items():
                before = total.get(name, [0.0] * len(numbers))
                total[name] = [a + b for a, b in zip(before, numbers, strict=True)]
        return total


def follow(
    model: nn.Module,
    task: Any,
    source: Source,
    config: TrainConfig,
    make: Callable[[nn.Module, Task, Source, TrainConfig], Stepper],
) -> None:
    """What every rank but 0 does: what rank 0 says, until the end."""
    with ExitStack() as after, _unstoppable():
        stepper = make(model, as_task(task), source, config)
        assert isinstance(stepper, DistributedStepper)
        after.enter_context(stepper.balance.listening())
        if config.recompute:
            after.enter_context(recomputing(model))
        if config.compile:
            after.enter_context(compiled(model))
        if config.threads is not None:
            use_threads(config.threads)
        model.train()
        while True:
            what, step, done, threads, stride = stepper.ranks.hear()
            if threads:
                use_threads(int(threads))
            if what == END:
                stepper.finish()
                return
            if what == GRADIENTS:
                stepper.release()
                stepper.own_gradients(int(step))
            elif what == MOVE:
                stepper.own_move(int(step), done)
            elif what == SPREAD:
                stepper.own_spread()
            elif what == EVALUATE:
                with stepper.own_judging(), _quietly():
                    stepper.own_evaluation(int(stride), lambda: None)
            else:
                stepper.obey(int(what))


def refuse_carried(task: Task) -> None:
    if getattr(task, "tensors", None) is not None:
        raise RegardError(
            "several processes cannot share streams that are read in order with a memory; train with one process, "
            "or with --data.memory 0"
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """A stopped evaluation is no error."""
    with suppress(Stopped):
        yield


@contextmanager
def _unstoppable() -> Iterator[None]:
    """Rank 0 hears the signals to stop; the others stop when it says so."""
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _above_zero(count: Tensor) -> Tensor:
    return torch.where(count > 0, count, torch.ones_like(count))

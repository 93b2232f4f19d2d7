"""A step and an evaluation by several processes, each on its rows of the global batch; and what they exchange for it.

Models know nothing of it. DistributedDataParallel is put around the loss from outside, where every process has all
weights. With FSDP2 each has a part of every weight, gradient and moment, and gathers a block when it is computed.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.data.batch import Batch, Source
from regard.data.slices import Slice, check_sliceable, read_slice
from regard.errors import RegardError
from regard.training import optimisers
from regard.training.checkpoint import Checkpoint, write_shards
from regard.training.config import TrainConfig
from regard.training.memory import blocks, return_large_blocks
from regard.training.muon import ShardedMuon, SharedMuon
from regard.training.ranks import Ranks, choose_device, memory_of_rank
from regard.training.rules import local
from regard.training.scores import Numbered, Numbers, summing_over_ranks
from regard.training.step import Stepper, all_finite, busiest, seed_all
from regard.training.tasks import Task

BYTES = 16  # of a parameter in training: weight, gradient and two moments in float32
SHARE = 0.8  # of the memory that they may take
LARGE = 2**18  # numbers in a table whose rows are exchanged
FEW = 0.5  # where the rows of all processes together are at most this share of it


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

    def __init__(self, model: nn.Module, task: Task, source: Source, config: TrainConfig, ranks: Ranks) -> None:
        check_sliceable(source)
        if getattr(task, "tensors", None) is not None:
            raise RegardError(
                "several processes cannot share streams that are read in order with a memory; train with one "
                "process, or with --data.memory 0"
            )
        super().__init__(model, task, source, replace(config, device=choose_device(config.device, ranks)))
        self.ranks = ranks
        self.tables: dict[str, Tensor] = {}
        self.loss_of: nn.Module = self._wrap()

    def make_optimiser(self) -> optimisers.Optimiser:
        return optimisers.make(self.model, self.config, muon=SharedMuon)

    def _wrap(self) -> nn.Module:
        loss_of = LossOf(self.model, self.task)
        if self.device.type == "cpu":
            # (GPUs would wait to learn which rows changed, and a sum of whole tables hides behind the backward pass)
            self.tables = find_tables(self.model)
            self.ranks.spread(list(self.tables.values()))
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
                loss_of, [f"model.{name}" for name in self.tables]
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

    # ── a step

    def gradients(self, step: int, done: float = 0.0) -> tuple[Tensor, int]:
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
            with nullcontext() if last else self._without_sync():
                sums.append(self._backward(mine, sums))
            size += mine.size
        average_tables(list(self.tables.values()), self.ranks)
        total = sum(sums[1:], sums[0])
        if count > 1:
            torch._foreach_mul_(self.optimiser.gradients(), (sums[0][1].clamp(min=1) / total[1].clamp(min=1)).float())
        return (total[0] / total[1].clamp(min=1)).float(), size

    def _backward(self, mine: Slice, before: list[Tensor]) -> Tensor:
        """Gradients of Σ loss·weight over all ranks, divided by the weight of the first batch."""
        batch = mine.batch.to(self.device)
        self.balance.begin()
        # weights may be gathered in there
        with self.ranks.noticing(), self.precision():
            loss, weight = self.loss_of(batch)
        balance = self.balance.take_loss(lambda hits: self.ranks.sum(hits * int(mine.counts)))
        weight = torch.as_tensor(weight, device=loss.device) * float(mine.counts)
        found = self.ranks.sum(torch.stack((loss.detach().double() * weight, weight.double())))
        first = before[0] if before else found
        scale = self.ranks.world / first[1].clamp(min=1)  # DistributedDataParallel takes the mean
        whole = loss if balance is None else loss + balance
        with self.ranks.noticing():
            (whole * (weight * scale).to(loss.device, loss.dtype)).backward()
        return found

    def _without_sync(self) -> AbstractContextManager[None]:
        found: AbstractContextManager[None] = self.loss_of.no_sync()  # type: ignore[operator]
        return found

    def move(self, step: int, done: float) -> None:
        with self.ranks.noticing():
            super().move(step, done)

    # ── an evaluation

    def evaluate(self, stride: int, check: Callable[[], None]) -> dict[str, float]:
        """Every rank measures some batches of the validation split; what they found is added up. Running means of
        batch norm are those of rank 0, which are saved."""
        self.ranks.spread(list(self.model.buffers()))
        with summing_over_ranks(self._sum_numbers):
            self.balance.take_load()
            found = self.task.measure(self.model, Numbered(self._own_batches(stride, check)))
            if self.balance.present:
                self.load_of_experts = self.balance.take_load(self._sum_numbers)
        if found and self.ranks.leads:
            found = self.judge() | found | busiest(self.load_of_experts)
        return dict(self.ranks.agree(found))

    def _own_batches(self, stride: int, check: Callable[[], None]) -> Iterator[tuple[int, Batch]]:
        for number, batch in enumerate(islice(self.source.validation(), 0, None, stride)):
            if number % self.ranks.world == 0:
                check()  # on all ranks, before the same batch
            if number % self.ranks.world == self.ranks.rank:
                yield number, batch.to(self.device)

    def _sum_numbers(self, mine: Numbers) -> dict[str, list[float]]:
        total: dict[str, list[float]] = {}
        for each in self.ranks.gather(dict(mine)):
            for name, numbers in each.items():
                before = total.get(name, [0.0] * len(numbers))
                total[name] = [a + b for a, b in zip(before, numbers, strict=True)]
        return total

    # ── keeping and going on

    def write_state(self, folder: Path) -> None:
        if self.ranks.leads:
            super().write_state(folder)

    def copy_state(self) -> Callable[[Path], None]:
        return super().copy_state() if self.ranks.leads else lambda place: None

    def load(self, checkpoint: Checkpoint | None) -> None:
        """Rank 0 reads the state, and the others get it."""
        if checkpoint is not None:
            super().load(checkpoint)
        state = {**dict(self.model.state_dict()), **self.optimiser.tensors()}
        average = [] if self.average is None else self.average.values
        self.ranks.spread([*state.values(), *average])


# ── tables


def find_tables(model: nn.Module) -> dict[str, Tensor]:
    """Large tables of vectors by name. What a head shares with an embedding has a gradient in all rows, so it
    is not among them."""
    shared = {
        id(p)
        for each in model.modules()
        if isinstance(each, optimisers.MATRICES)
        for p in each.parameters(recurse=False)
    }
    rest = optimisers.split(model).rest.items()
    return {name: p for name, p in rest if p.dim() == 2 and p.numel() >= LARGE and id(p) not in shared}


@torch.no_grad()
def average_tables(tables: Sequence[Tensor], ranks: Ranks) -> None:
    """Gradients of tables become their mean over all processes, the same on all to the last bit.

    A step looks up few rows, and the gradients of all others are 0: so the processes send each other these rows
    instead of whole tables, which would take longer than all else of a step."""
    if not tables:
        return
    rows = [_changed_rows(table) for table in tables]
    own = [-1 if table.grad is None else len(each) for table, each in zip(tables, rows, strict=True)]
    counts = ranks.stack(torch.tensor(own))  # ranks tables
    for table, mine, each in zip(tables, rows, counts.T, strict=True):
        if int(each.max()) < 0:  # no rank has a gradient
            continue
        if table.grad is None:
            table.grad = torch.zeros_like(table)
        each = each.clamp(min=0)
        if int(each.sum()) > FEW * len(table):
            ranks.sum(table.grad).div_(ranks.world)
            continue
        more = int(each.max()) - len(mine)
        places = ranks.stack(F.pad(mine, (0, more)))
        values = ranks.stack(F.pad(table.grad[mine] / ranks.world, (0, 0, 0, more)))
        table.grad[mine] = 0
        for where, part, count in zip(places, values, each.tolist(), strict=True):
            table.grad.index_add_(0, where[:count], part[:count])


def _changed_rows(table: Tensor) -> Tensor:
    """The rows whose gradient is not 0."""
    if table.grad is None:
        return torch.empty(0, dtype=torch.long)
    return ((table.grad.amax(1) != 0) | (table.grad.amin(1) != 0)).nonzero()[:, 0]


# ── FSDP2


class ShardedStepper(DistributedStepper):
    """A DistributedStepper whose process has a part of each weight. Evaluations and samples use the whole weights,
    which each process gathers for as long as they take."""

    def __init__(self, model: nn.Module, task: Task, source: Source, config: TrainConfig, ranks: Ranks) -> None:
        if config.average is not None:
            raise RegardError(
                f"--train.average {config.average} needs all weights in each process; leave it out (None), or use "
                "--train.parallel ddp"
            )
        if config.compile:
            raise RegardError("--train.compile goes with --train.parallel ddp, not with fsdp; leave one of them out")
        # for evaluations; its weights are empty between them
        empty = {id(p): nn.Parameter(p.new_empty(0), p.requires_grad) for p in model.parameters()}
        self.whole = copy.deepcopy(model, dict(empty))
        super().__init__(model, task, source, config, ranks)
        return_large_blocks()
        self.beside: Any = None  # the group of processes for checkpoints beside the training

    def place(self, model: nn.Module) -> nn.Module:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        self.whole.to(self.device)
        if self.half:
            policy = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
            )
        else:
            policy = MixedPrecisionPolicy()
        for block in blocks(model):
            if isinstance(block, nn.ModuleList | nn.ModuleDict):
                continue  # they have no forward; the rest takes them
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        return model

    def make_optimiser(self) -> optimisers.Optimiser:
        return optimisers.make(self.model, self.config, muon=ShardedMuon)

    def _wrap(self) -> nn.Module:
        return LossOf(self.model, self.task)

    @contextmanager
    def _without_sync(self) -> Iterator[None]:
        sharded: Any = self.model
        sharded.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            sharded.set_requires_gradient_sync(True)

    @contextmanager
    def judging(self) -> Iterator[None]:
        sharded = self.model
        theirs: dict[str, Any] = dict(sharded.named_parameters())
        with torch.no_grad(), self.ranks.noticing():
            for name, p in self.whole.named_parameters():
                p.data = theirs[name].full_tensor()
            for mine, other in zip(self.whole.buffers(), sharded.buffers(), strict=True):
                mine.copy_(other)
        self.model = self.whole
        try:
            with super().judging(), self.balance.listening(self.whole):
                yield
        finally:
            self.model = sharded
            for p in self.whole.parameters():
                p.data = p.data.new_empty(0)

    def finite(self) -> bool:
        good = all_finite([local(p) for p in self.model.parameters()])
        return int(self.ranks.sum(torch.tensor([int(not good)]))[0]) == 0

    def write_state(self, folder: Path) -> None:
        self._write(folder, self.tensors(), None)

    def copy_state(self) -> Callable[[Path], None]:
        """A function that writes what this process has now. The processes talk about it in a group of their own, so
        that it does not get between their other words."""
        if self.beside is None:
            self.beside = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.ranks.timeout))
        copies = self.snapshot.take(self.tensors())
        return lambda place: self._write(place, copies, self.beside)

    def _write(self, folder: Path, state: Mapping[str, Mapping[str, Tensor]], group: Any) -> None:
        """Each process writes its rows."""
        with self.ranks.noticing():
            dist.barrier(group)  # rank 0 has made the folder
            for name, part in state.items():
                write_shards(folder / name, part, group)
            dist.barrier(group)

    def load(self, checkpoint: Checkpoint | None) -> None:
        """Rank 0 reads the whole state and sends it; each process keeps its rows."""
        for name, part in self.tensors().items():
            found = {} if checkpoint is None else checkpoint.tensors(name)
            for key in sorted(part):
                self._take(part[key], found.get(key), key)

    def _take(self, mine: Any, given: Tensor | None, key: str) -> None:
        whole = torch.empty(mine.shape, dtype=mine.dtype)
        if self.ranks.leads:
            if given is None or given.shape != mine.shape:
                raise RegardError(f"the saved state is of another optimiser or model: '{key}' does not fit")
            whole.copy_(given)
        with torch.no_grad():
            whole = whole.to(self.device)
            self.ranks.spread([whole])
            own = local(mine)
            if own is mine or mine.dim() == 0:
                own.copy_(whole)
                return
            most = -(-mine.shape[0] // self.ranks.world)
            own.copy_(whole[self.ranks.rank * most :][: len(own)])


def choose_parallel(config: TrainConfig, parameters: int, memory: int) -> str:
    """ddp or fsdp; auto: fsdp if the weights of a model and what belongs to them fill a rank's memory (bytes)."""
    if config.parallel != "auto":
        return config.parallel
    if BYTES * parameters > SHARE * memory and config.average is None:
        return "fsdp"
    return "ddp"


def choose_stepper(own: Any, recipe: str, ranks: Ranks) -> Callable[..., Stepper]:
    """What does a step: that of the recipe, or one that shares its work with other processes."""
    if ranks.world == 1:
        made: Callable[..., Stepper] = own
        return made
    if own is not Stepper:
        raise RegardError(
            f"{recipe} has steps of its own, which several processes cannot share; train with one process"
        )

    def make(model: nn.Module, task: Task, source: Source, config: TrainConfig) -> Stepper:
        size = sum(parameter.numel() for parameter in model.parameters())
        sharded = choose_parallel(config, size, memory_of_rank(ranks)) == "fsdp"
        return (ShardedStepper if sharded else DistributedStepper)(model, task, source, config, ranks)

    return make

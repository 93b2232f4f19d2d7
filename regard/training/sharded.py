"""FSDP2: each process holds a part of every weight, gradient and moment, and gathers a block when it is computed.

`fully_shard` is applied from outside, to each block and to the rest; the model knows nothing of it. Evaluations and
samples use the whole weights, which each process gathers for as long as they take.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.data.batch import Source
from regard.errors import RegardError
from regard.training import optimisers
from regard.training.checkpoint import Checkpoint
from regard.training.config import TrainConfig
from regard.training.distributed import COPY, FINITE, FULL, GATHER, LOAD, SAVE, DistributedStepper, LossOf
from regard.training.keep_memory import return_large_blocks
from regard.training.ranks import Ranks
from regard.training.recompute import blocks
from regard.training.rules import local
from regard.training.sharded_muon import ShardedMuon
from regard.training.sharded_state import write_shards
from regard.training.step import Stepper, all_finite
from regard.training.tasks import Task

BYTES = 16  # of a parameter in training: weight, gradient and two moments in float32
SHARE = 0.8  # of the memory that they may take


def choose_parallel(config: TrainConfig, parameters: int, memory: int) -> str:
    """ddp or fsdp; auto: fsdp if the weights of a model and what belongs to them fill a rank's memory (bytes)."""
    if config.parallel != "auto":
        return config.parallel
    if BYTES * parameters > SHARE * memory and config.average is None:
        return "fsdp"
    return "ddp"


class ShardedStepper(DistributedStepper):
    """A DistributedStepper whose process has a part of each weight."""

    def __init__(
        self, model: nn.Module, task: Task, source: Source, config: TrainConfig, ranks: Ranks
    ) -> None:
        if config.average is not None:
            raise RegardError(
                f"--train.average {config.average} needs all weights in each process; leave it out (None), or use "
                "--train.parallel ddp"
            )
        if config.compile:
            raise RegardError(
                "--train.compile goes with --train.parallel ddp, not with fsdp; leave one of them out"
            )
        # for evaluations; its weights are empty between them
        empty = {id(p): nn.Parameter(p.new_empty(0), p.requires_grad) for p in model.parameters()}
        self.whole = copy.deepcopy(model, dict(empty))
        super().__init__(model, task, source, config, ranks)
        return_large_blocks()
        self.beside: Any = None  # the group of processes for checkpoints beside the training
        self.thread: threading.Thread | None = None
        self.error: BaseException | None = None
        self._spread_due = False  # each process has made the same weights by the seed

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

    def obey(self, what: int) -> None:
        if what == GATHER:
            self.own_gather()
        elif what == FINITE:
            self.own_finite()
        elif what == SAVE:
            self.own_write()
        elif what == COPY:
            self._follow_copy()
        elif what == FULL:
            self.own_tensors()
        elif what == LOAD:
            self.own_load(None)
        else:
            super().obey(what)

    # ── evaluations, with the whole weights

    @contextmanager
    def judging(self) -> Iterator[None]:
        self.ranks.tell((GATHER,))
        self.own_gather()
        try:
            with self.own_judging():
                yield
        finally:
            self.release()

    @contextmanager
    def own_judging(self) -> Iterator[None]:
        sharded, self.model = self.model, self.whole
        try:
            with Stepper.judging(self), self.balance.listening(self.whole):
                yield
        finally:
            self.model = sharded

    def own_gather(self) -> None:
        """Put the whole weights into the model for evaluations."""
        theirs: dict[str, Any] = dict(self.model.named_parameters())
        with torch.no_grad(), self.ranks.noticing():
            for name, p in self.whole.named_parameters():
                p.data = theirs[name].full_tensor()
            for mine, other in zip(self.whole.buffers(), self.model.buffers(), strict=True):
                mine.copy_(other)

    def release(self) -> None:
        for p in self.whole.parameters():
            p.data = p.data.new_empty(0)

    # ── checkpoints

    def finite(self) -> bool:
        self.ranks.tell((FINITE,))
        return self.own_finite()

    def own_finite(self) -> bool:
        good = all_finite([local(p) for p in self.model.parameters()])
        return int(self.ranks.sum(torch.tensor([int(not good)]))[0]) == 0

    def write_state(self, folder: Path) -> None:
        """Every process writes what it has."""
        self.ranks.store.set("folder", str(folder.absolute()))
        self.ranks.tell((SAVE,))
        self.own_write()

    def own_write(self) -> None:
        folder = Path(self.ranks.store.get("folder").decode())
        with self.ranks.noticing():
            write_shards(folder / "model", dict(self.model.state_dict()))
            write_shards(folder / "optimiser", self.optimiser.tensors())
            dist.barrier()

    def copy_state(self, folder: Path) -> Callable[[Path], None]:
        self.ranks.store.set("folder", str(folder.absolute()))
        self.ranks.tell((COPY,))
        return self.own_copy()

    def own_copy(self) -> Callable[[Path], None]:
        """A function that writes what this process has now. The processes talk about it in a group of their own, so
        that it does not get between their other words."""
        if self.beside is None:
            self.beside = dist.new_group(backend="gloo")
        parts = {"model": dict(self.model.state_dict()), "optimiser": self.optimiser.tensors()}
        copies = self.snapshot.take(parts)

        def write(place: Path) -> None:
            with self.ranks.noticing():  # a lost process is no error of the checkpoint: all are started again
                for name, part in copies.items():
                    write_shards(place / name, part, self.beside)
                dist.barrier(self.beside)

        return write

    def _follow_copy(self) -> None:
        """Write beside the training what rank 0 writes, too."""
        self.finish()
        folder, write = Path(self.ranks.store.get("folder").decode()), self.own_copy()

        def try_to_write() -> None:
            try:
                write(folder)
            except BaseException as error:
                self.error = error  # told by the thread that trains

        self.thread = threading.Thread(target=try_to_write, name="checkpoint", daemon=True)
        self.thread.start()

    def finish(self) -> None:
        """Wait for what is written beside the training; raises what went wrong there."""
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Everything, gathered."""
        self.ranks.tell((FULL,))
        return self.own_tensors()

    def own_tensors(self) -> dict[str, dict[str, Tensor]]:
        state = {"model": dict(self.model.state_dict()), "optimiser": self.optimiser.tensors()}
        with self.ranks.noticing():
            return {name: {key: _full(x) for key, x in part.items()} for name, part in state.items()}

    def load(self, checkpoint: Checkpoint) -> None:
        """Rank 0 reads the whole state and sends it; each process keeps its rows."""
        self.ranks.tell((LOAD,))
        self.own_load({"model": checkpoint.tensors("model"), "optimiser": checkpoint.tensors("optimiser")})

    def own_load(self, found: Mapping[str, Mapping[str, Tensor]] | None) -> None:
        state = {"model": dict(self.model.state_dict()), "optimiser": self.optimiser.tensors()}
        for name, part in state.items():
            for key in sorted(part):
                given = None if found is None else found[name].get(key)
                self._take(part[key], given, key, sends=found is not None)

    def _take(self, mine: Any, given: Tensor | None, key: str, sends: bool) -> None:
        whole = torch.empty(mine.shape, dtype=mine.dtype)
        if sends:
            if given is None or given.shape != mine.shape:
                raise RegardError(f"the saved state is of another optimiser or model: '{key}' does not fit")
            whole.copy_(given)
        with self.ranks.noticing(), torch.no_grad():
            whole = whole.to(self.device)
            dist.broadcast(whole, 0)
            own = local(mine)
            if own is mine or mine.dim() == 0:
                own.copy_(whole)
                return
            most = -(-mine.shape[0] // self.ranks.world)
            own.copy_(whole[self.ranks.rank * most :][: len(own)])


def _full(x: Any) -> Tensor:
    gather = getattr(x, "full_tensor", None)
    found: Tensor = x if gather is None else gather()
    return found

"""One step: batches, loss, gradients, optimiser. Its random numbers depend on (seed, step) alone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.kernels.precision import CPU_MULTIPLIES
from regard.data.batch import Batch, Source
from regard.errors import RegardError
from regard.nn.moe import Experts, Routing, find_experts, hear_routes
from regard.training import optimisers
from regard.training.checkpoint import Checkpoint, Snapshot, write_files
from regard.training.config import TrainConfig
from regard.training.optimisers import Average, schedule
from regard.training.ranks import ALONE, Ranks
from regard.training.scores import Numbers
from regard.training.tasks import Task

OTHER_NAMES = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps", "apple": "mps"}  # of devices, as people type them


class Stepper:
    """A model on its device, with its optimiser and the average of its weights: everything that a step
    changes."""

    ranks: Ranks = ALONE  # the processes that share a step

    def __init__(self, model: nn.Module, task: Task, source: Source, config: TrainConfig) -> None:
        self.device = pick_device(config.device)
        self.half = pick_half(config.precision, self.device)
        self.task, self.source, self.config = task, source, config
        self.model = self.place(model.to(self.device))
        self.optimiser = self.make_optimiser()
        self.balance = Balance(model)
        self.snapshot = Snapshot()
        self.load_of_experts: dict[str, list[float]] = {}  # in the last evaluation, by layer
        self.average = None if config.average is None else Average(model, config.average)

    def place(self, model: nn.Module) -> nn.Module:
        """The model as it is trained: as it is."""
        return model

    def make_optimiser(self) -> optimisers.Optimiser:
        return optimisers.make(self.model, self.config)

    def gradients(self, step: int, done: float = 0.0) -> tuple[Tensor, int]:
        """Compute the gradients of a step; returns its mean loss and the number of tokens. done: the share of the
        training that is done"""
        seed_all(self.config.seed, step, self.device)
        begin_step = getattr(self.task, "begin_step", None)  # of a loss that changes with the steps
        if begin_step is not None:
            begin_step(step)
        count = self.config.accumulate
        losses: list[Tensor] = []
        weights: list[Any] = []
        size = 0
        for number in range(step * count, (step + 1) * count):
            batch = self.source.batch(number).to(self.device)
            self.balance.begin()
            with self.precision():
                loss, weight = self.task.loss(self.model, batch)
            losses.append(loss.detach())
            weights.append(weight)
            balance = self.balance.take_loss()  # not part of the loss that is told: that is the task's
            whole = loss if balance is None else loss + balance
            (whole if count == 1 else whole * (weight / _above_zero(weights[0]))).backward()
            size += batch.size
        if count == 1:
            return losses[0], size
        total = _above_zero(sum(weights))  # now each target counts the same, as it would in one large batch
        torch._foreach_mul_(self.optimiser.gradients(), _above_zero(weights[0]) / total)
        mean = (
            sum((loss * weight for loss, weight in zip(losses, weights, strict=True)), torch.zeros_like(losses[0]))
            / total
        )
        return mean, size

    def move(self, step: int, done: float) -> None:
        """Change the weights by the gradients of a step. done: the share of the training that is done"""
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.optimiser.parameters, self.config.clip)
        self.optimiser.step(schedule(step, done, warmup=self.config.warmup, decay=self.config.decay))
        if self.average is not None:
            self.average.add(step)

    @contextmanager
    def judging(self) -> Iterator[None]:
        """The model for evaluation: in eval mode, without gradients, with averaged weights if there are any,
        and not compiled, because each new length of a sample or of a last batch would be compiled anew."""
        eager = torch.compiler.set_stance("force_eager") if self.config.compile else nullcontext()
        averaged = nullcontext() if self.average is None else self.average.in_place()
        self.model.eval()
        try:
            with torch.no_grad(), self.precision(), eager, averaged:
                yield
        finally:
            self.model.train()

    def evaluate(self, stride: int, check: Callable[[], None]) -> dict[str, float]:
        """All measures on one of `stride` batches of the validation split, those of whole answers first; none without
        batches. check: called before each batch, and may raise"""
        self.balance.take_load()
        found = self.task.measure(self.model, self._validation(stride, check))
        self.load_of_experts = self.balance.take_load()
        if not found:
            return found
        return self.judge() | found | busiest(self.load_of_experts)

    def _validation(self, stride: int, check: Callable[[], None]) -> Iterator[Batch]:
        for batch in islice(self.source.validation(), 0, None, stride):
            check()
            yield batch.to(self.device)

    def judge(self) -> dict[str, float]:
        """Measures of whole answers, of a task that has them."""
        judge = getattr(self.task, "judge", None)
        if judge is None:
            return {}
        answers: dict[str, float] = judge(self.model)
        return answers

    def precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.half else nullcontext()

    # ── keeping and going on

    def finite(self) -> bool:
        """Are all weights numbers?"""
        return all_finite(list(self.model.parameters()))

    def write_state(self, folder: Path) -> None:
        """Write everything that a step changes into a new folder."""
        write_files(folder, self.tensors())

    def copy_state(self) -> Callable[[Path], None]:
        """A function that writes the state as it is now, later."""
        copies = self.snapshot.take(self.tensors())
        return lambda place: write_files(place, copies)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Everything that a step changes, by the name of its file."""
        found = {"model": dict(self.model.state_dict()), "optimiser": self.optimiser.tensors()}
        if self.average is not None:
            with self.average.in_place():
                found["average"] = dict(self.model.state_dict())
        carried: dict[str, Tensor] = getattr(self.task, "tensors", dict)()
        return found | ({"task": carried} if carried else {})

    def load(self, checkpoint: Checkpoint | None) -> None:
        """Restore what `tensors` returned. None: of processes that train together, another one reads it"""
        assert checkpoint is not None
        try:
            self.model.load_state_dict(checkpoint.tensors("model"))
        except RuntimeError as error:
            raise RegardError(
                f"{checkpoint.folder} is of another model: {' '.join(str(error).split())[:200]}"
            ) from error
        self.optimiser.load(checkpoint.tensors("optimiser"))
        if self.average is not None:
            self.average.load(self.model, checkpoint.tensors("average"))
        if checkpoint.has("task"):
            carried = {name: x.to(self.device) for name, x in checkpoint.tensors("task").items()}
            self.task.load(self.model, carried)  # type: ignore[attr-defined]


def all_finite(tensors: list[Tensor]) -> bool:
    """Are all numbers finite? Sums are read first: a sum is finite only if all its terms are."""
    sums = [x.detach().sum().double() for x in tensors if x.numel()]
    if not sums or bool(torch.stack(sums).isfinite().all()):
        return True
    return all(bool(x.detach().isfinite().all()) for x in tensors)


def step_seed(seed: int, step: int, rank: int = 0) -> int:
    """The number that a step's random numbers follow from. rank: of a process that draws its own"""
    words = f"{seed} {step} {rank}" if rank else f"{seed} {step}"
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little")


def seed_all(seed: int, step: int, device: torch.device, rank: int = 0) -> None:
    """Dropout, what a task hides, what a Dataset draws: everything random in a step follows from (seed,
    step)."""
    number = step_seed(seed, step, rank)
    # torch.manual_seed would tell absent GPUs, too, and remember it forever
    torch.default_generator.manual_seed(number)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


def pick_device(name: str) -> torch.device:
    """The device of this name; auto: an accelerator if there is one, else the CPU."""
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return torch.device("cpu") if found is None else found
    return open_device(name, advice="try auto or cpu")


def open_device(name: str, advice: str) -> torch.device:
    """The device of this name. An error says why it cannot be used, and what to do."""
    if name.lower() in OTHER_NAMES:
        raise RegardError(
            f"there is no device {name!r}; did you mean {OTHER_NAMES[name.lower()]!r}? otherwise {advice}"
        )
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise RegardError(f"device {name!r} cannot be used: {reason}; {advice}") from error


def pick_half(precision: str, device: torch.device) -> bool:
    """Work in bfloat16? auto: where the hardware multiplies it at full speed."""
    if precision != "auto":
        return precision == "bfloat16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and CPU_MULTIPLIES[torch.bfloat16]


def _above_zero(count: Any) -> Any:
    return count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1)


# ── balance of experts


BUSIEST = "busiest expert"  # the measure: its share of the tokens, as a multiple of an equal share


class Balance:
    """What the layers of experts of a model were asked in a step, or in an evaluation."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.present = bool(find_experts(model))
        self.heard: list[tuple[float, Routing]] = []  # of a training step
        self.counts: dict[str, Tensor] = {}  # of an evaluation: how often each expert of a layer was chosen

    @contextmanager
    def listening(self, copy: nn.Module | None = None) -> Iterator[None]:
        """Inside, every call is heard. copy: listen to this copy of the model instead"""
        with hear_routes(self.model if copy is None else copy, self._hear):
            yield

    def _hear(self, name: str, layer: Experts, routing: Routing) -> None:
        if torch.is_grad_enabled():
            self.heard.append((layer.balance, routing))
        elif name in self.counts:
            self.counts[name] = self.counts[name] + routing.hits()
        else:
            self.counts[name] = routing.hits()

    def begin(self) -> None:
        """Forget what was heard before, such as blocks that were computed again for their gradients."""
        self.heard = []

    def take_loss(self, add_up: Callable[[Tensor], Tensor] | None = None) -> Tensor | None:
        """Σ over layers of balance · e Σ f_i P_i, of what was heard since the last time; None: nothing to add.
        add_up: sums choices over the processes that have the other slices of the batch"""
        heard, self.heard = self.heard, []
        losses = [weight * routing.balance(add_up) for weight, routing in heard if weight]
        if not losses:
            return None
        return torch.stack(losses).sum()

    def take_load(self, add_up: Callable[[Numbers], Numbers] = dict) -> dict[str, list[float]]:
        """The share of all choices that fell on each expert, by the name of the layer, since the last time.
        add_up: sums over processes"""
        counts, self.counts = self.counts, {}
        found = add_up({name: [float(hits) for hits in each] for name, each in counts.items()})
        return {name: [hits / max(1.0, sum(each)) for hits in each] for name, each in found.items()}


def busiest(load: dict[str, list[float]]) -> dict[str, float]:
    """A measure of an evaluation: 1 if all experts have the same share of tokens; of several layers, the worst."""
    return {} if not load else {BUSIEST: max(len(shares) * max(shares) for shares in load.values())}


# ── torch.compile


@contextmanager
def compile_steps(model: nn.Module) -> Iterator[None]:
    """Inside, calls of the model are compiled. What the compiler cannot do is an error of one line."""
    model.compile()
    try:
        yield
    except RuntimeError as error:
        from torch._dynamo.exc import BackendCompilerFailed  # here: importing it takes a second

        if not isinstance(error, BackendCompilerFailed):
            raise
        raise RegardError(f"--train.compile cannot be used here: {_why(error.inner_exception)}") from error
    finally:
        model._compiled_call_impl = None


def _why(error: Exception) -> str:
    from torch._inductor.exc import InvalidCxxCompiler

    if isinstance(error, InvalidCxxCompiler):
        return "torch.compile found no C++ compiler; install g++ (or name yours in CXX), or train without it"
    words = str(error).strip().split("\n")[0]
    return f"torch.compile failed ({type(error).__name__}: {words}); train without it, or add --debug to see where"

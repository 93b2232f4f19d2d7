"""Tasks: a loss for training and measures over a whole split.

A task has `loss(model, batch) -> (mean loss, how many it is the mean of)` and `measure(model, batches) ->
{"loss": ...}`. Any function (model, batch) -> mean loss will do, too; `as_task` makes a task of it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch, Source
from regard.errors import RegardError, did_you_mean
from regard.nn.eval_mode import eval_mode
from regard.symmetry.output import main_tensor
from regard.training.cross_entropy import cross_entropy
from regard.training.scores import Count, ScoreList, Scores, Sums, number_batches


class Task(Protocol):
    """What a model learns. What a task may have beside these two:

    best_by        the measure by which weights are kept ("last": the last ones are); otherwise the loss decides
    measures       all that may decide
    score          the numbers of each example (training/scores.py)
    judge          model -> measures of whole answers, such as translations of some validation sentences: each
                   evaluation in training asks for it once
    tensors, load  what it carries from step to step, for checkpoints
    begin_step     is told the number of each step
    """

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        """The mean loss of a training batch, and the number of targets in the mean."""
        ...

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        """Means over all batches, each weighted by its count; "loss" is one of them."""
        ...


def keep_finite(measures: dict[str, float]) -> dict[str, float]:
    """Measures without those that are no numbers here, such as R² of one example. The loss stays, whatever
    it is: a loss that is no number has to be told."""
    return {name: value for name, value in measures.items() if name == "loss" or math.isfinite(value)}


def call(model: nn.Module, batch: Batch) -> Tensor:
    """The model's output for a batch. Models get the first input, and of the others those that they take."""
    inner: nn.Module = getattr(model, "_orig_mod", model)  # what torch.compile wraps has the signature
    known = _parameters(type(inner).forward)
    if "documents" in batch and "documents" not in known:
        raise RegardError(
            f"{type(inner).__name__} would mix the texts that are packed into one row, because its forward takes no "
            "documents; use a decoder with exact attention, or one text in each row"
        )
    first, *others = batch
    more = {name: batch[name] for name in others if name in known}
    if first in known and first != next(iter(known)):
        out = model(**{first: batch[first]}, **more)
    else:
        out = model(batch[first], **more)
    if isinstance(out, Tensor):
        return out
    found = main_tensor(out)  # of what models of Hugging Face return: the logits
    if found is None:
        raise RegardError(
            f"{type(inner).__name__} returned {type(out).__name__}, and none of it is a tensor of outputs"
        )
    return found


@lru_cache(maxsize=64)
def _parameters(forward: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What a forward method takes besides self, looked up once."""
    return dict(list(inspect.signature(forward).parameters.items())[1:])


# ── tasks


class Classify:
    """−log softmax(logits)[target], over all targets that are not IGNORE.   logits ... c, target ...

    smoothing: the share of each target that is given to all classes alike
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    # a loss may rise while more predictions are right: few wrong ones grow too sure
    best_by: ClassVar[str] = "accuracy"
    measures: tuple[str, ...] = ("loss", "accuracy")

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        logits, target = self._ask(model, batch)
        total, count = _cross_entropy(logits, target, self.smoothing)
        return total / count.clamp(min=1), count

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        return self._measure(model, batches, None)

    # what the cross-entropy of each example is called: without smoothing, it is not always the loss
    cross_entropy: ClassVar[str] = "log loss"

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        """The numbers of each example."""
        found = ScoreList(self.best_by)
        for number, batch in number_batches(batches):
            logits, target = self._ask(model, self._fixed(batch, number))
            found.add_classes(logits, target, self.cross_entropy)
        return found.scores()

    def measure_with_confusion(
        self, model: nn.Module, batches: Iterable[Batch], classes: int
    ) -> tuple[dict[str, float], Tensor]:
        """The same with the confusion matrix: one row for each true class.
        classes classes"""
        confusion = torch.zeros(classes, classes, dtype=torch.long)
        return self._measure(model, batches, confusion), confusion

    def _measure(self, model: nn.Module, batches: Iterable[Batch], confusion: Tensor | None) -> dict[str, float]:
        """Means over all batches, in one pass; predictions are counted in `confusion`."""
        sums = Sums()
        for number, batch in number_batches(batches):
            logits, target = self._ask(model, self._fixed(batch, number))
            total, count = self._judged(logits, target)
            taken, asked = logits.argmax(-1), target != IGNORE
            sums.add(count, loss=total, accuracy=((taken == target) & asked).sum())
            if confusion is not None:
                pairs = (target[asked] * len(confusion) + taken[asked]).cpu()
                confusion += torch.bincount(pairs, minlength=confusion.numel()).view_as(confusion)
        return sums.means()

    def _judged(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The loss that decides which weights are best, summed, and the number of targets. Labels are smoothed
        as in training: else weights from halfway, surer than they were taught to be, would win."""
        return _cross_entropy(logits, target, self.smoothing)

    def _ask(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        logits, target = call(model, batch), batch.target
        real = batch.get("real")
        if real is not None and target.shape == real.shape:
            target = target.masked_fill(~real, IGNORE)
        if logits.shape[:-1] != target.shape:
            raise RegardError(
                f"the model must return scores for every target: logits {tuple(target.shape)} + (classes,), "
                f"got {tuple(logits.shape)} for targets {tuple(target.shape)}"
            )
        return logits, target

    def _fixed(self, batch: Batch, number: int) -> Batch:
        """A batch of the validation split for evaluation, the same every time."""
        return batch


class NextToken(Classify):
    """−log p(target) at every place, where target is the token that follows.   logits b n v, target b n"""

    best_by = "loss"  # the probabilities are used, not only the most likely token
    cross_entropy = "loss"


class MaskedToken(Classify):
    """Predict masked tokens from all others, as BERT: a share of them is chosen; of these 80 % become `mask`,
    10 % another token, 10 % stay, and the loss asks for what was there.   tokens b n

    Training draws from torch's generator, which the loop seeds by (seed, step). What is hidden in validation
    is always the same. `never` are ids that are not chosen (padding, marks).
    """

    best_by = "loss"
    cross_entropy = "loss"

    def __init__(self, mask: int, vocab: int, *, share: float = 0.15, never: Iterable[int] = (), seed: int = 0) -> None:
        if not 0 < share <= 1:
            raise RegardError(f"share must be above 0 and at most 1, got {share}")
        super().__init__()
        self.mask, self.vocab, self.share, self.never, self.seed = mask, vocab, share, tuple(never), seed

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        return super().loss(model, self.hide(batch))

    def hide(self, batch: Batch, generator: torch.Generator | None = None) -> Batch:
        """The batch with some tokens masked; the target holds their ids, and IGNORE elsewhere."""
        tokens, real = batch["tokens"], batch.get("real")
        draw = torch.rand((2, *tokens.shape), generator=generator).to(tokens.device)
        other = torch.randint(self.vocab, tokens.shape, generator=generator).to(tokens.device)
        chosen = draw[0] < self.share
        for special in self.never:
            chosen &= tokens != special
        if real is not None:
            chosen &= real
        hidden = torch.where(draw[1] < 0.8, self.mask, torch.where(draw[1] < 0.9, other, tokens))
        return batch.replace(target=tokens.masked_fill(~chosen, IGNORE), tokens=torch.where(chosen, hidden, tokens))

    def _fixed(self, batch: Batch, number: int) -> Batch:
        return self.hide(batch, torch.Generator().manual_seed(self.seed * 1_000_003 + number))


class Regress:
    """(output − target)², the mean over all numbers that are no padding.   output b or b ..., target the same

    Targets may be standardised: `scale` is what they were divided by, so that mean absolute errors (MAE) are
    told in the units of the data; `names` are those of the numbers, if there are several. A single number also
    has R²: 1 is perfect, 0 no better than the mean of all targets.
    """

    def __init__(self, scale: Sequence[float] = (1.0,), names: Sequence[str] = ()) -> None:
        self.scale, self.names = tuple(scale), tuple(names)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        out, target = self._pair(model, batch)
        apart = out - target
        return apart.square().sum() / max(apart.numel(), 1), apart.numel()

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        sums = Sums()
        for batch in batches:
            out, target = self._pair(model, batch)
            apart = out - target
            off = apart.abs() * apart.new_tensor(self.scale)
            if len(self.names) > 1:  # each is the mean of its own share of all numbers
                named = {f"MAE {name}": off[..., i].sum() * len(self.names) for i, name in enumerate(self.names)}
            else:
                exact = target.double()
                named = {"MAE": off.sum(), "target": exact.sum(), "square": exact.square().sum()}
            sums.add(apart.numel(), loss=apart.square().sum(), **named)
        return explain_variance(sums.means())

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        """The numbers of each example: errors in the units of the data."""
        several = len(self.names) > 1
        found = ScoreList(f"MAE {self.names[0]}" if several else "MAE")
        for batch in batches:
            out, target, known = self._all_pairs(model, batch)
            off = (out - target).abs() * out.new_tensor(self.scale)
            known = torch.ones_like(target, dtype=torch.bool) if known is None else _widen(known, target)
            if several:  # each is the mean of its own share of all numbers
                share = torch.eye(len(self.names), device=off.device) * len(self.names)
                sums = {f"MAE {name}": off * share[i] for i, name in enumerate(self.names)}
            else:
                sums = {"MAE": off}
            found.add_numbers(sums, known, target, out)
        return found.scores()

    def _pair(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Output and target, without padding."""
        out, target, known = self._all_pairs(model, batch)
        if known is None:
            return out, target
        return out[known], target[known]

    def _all_pairs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Output and target, and which of them count, by their first axes; None: all."""
        out, target = call(model, batch).float(), batch.target.float()
        real = batch.get("real")
        each = out.dim() == 3 and real is not None and out.shape[:2] == real.shape  # of every element of a set
        if out.shape == (*target.shape, 1):
            out = out.squeeze(-1)
        if out.shape != target.shape:  # torch would broadcast b 1 against b to b b, and learn nonsense
            raise RegardError(
                f"output and target must have one shape, got {tuple(out.shape)} and {tuple(target.shape)}"
            )
        return out, target, real if each else None


def explain_variance(means: dict[str, float]) -> dict[str, float]:
    """Measures with R² = 1 − mean squared error / variance of the targets, from their mean and mean square.
    Targets that are all the same have no R²."""
    found = dict(means)
    if "target" not in found:
        return found
    mean, square = found.pop("target"), found.pop("square")
    variance = square - mean**2
    if variance > 1e-12 * square:
        found["R²"] = 1 - found["loss"] / variance
    return found


class Custom:
    """A task from a function (model, batch) -> mean loss of the rows, or -> (mean loss, count)."""

    def __init__(self, function: Callable[[nn.Module, Batch], Any]) -> None:
        self.function = function

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        found = self.function(model, batch)
        loss, count = found if isinstance(found, tuple) else (found, batch.rows)
        if not isinstance(loss, Tensor) or loss.dim() != 0:
            given = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise RegardError(f"a task must return the mean loss as a scalar tensor, got {given}; try loss.mean()")
        return loss, count

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        sums = Sums()
        for batch in batches:
            loss, count = self.loss(model, batch)
            sums.add(count, loss=loss * count)
        return sums.means()


TASKS: dict[str, Callable[[], Task]] = {"next token": NextToken, "classify": Classify, "regress": Regress}


def as_task(task: Any) -> Task:
    """A task from a name, a function (model, batch) -> loss, or a task."""
    if isinstance(task, str):
        if task not in TASKS:
            raise RegardError(
                f"there is no task '{task}'; "
                + did_you_mean(task, TASKS)
                + f"known: {', '.join(TASKS)}, or a function (model, batch) -> loss"
            )
        return TASKS[task]()
    if hasattr(task, "loss") and hasattr(task, "measure"):
        made: Task = task
        return made
    if callable(task):
        return Custom(task)
    raise RegardError(
        f"a task must be a name ({', '.join(TASKS)}) or a function (model, batch) -> loss, got {type(task).__name__}"
    )


def _widen(known: Tensor, target: Tensor) -> Tensor:
    """The same for each number of a target.   b n -> b n ..."""
    return known.view(*known.shape, *(1,) * (target.dim() - known.dim())).expand_as(target)


# ── sums


def _cross_entropy(logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The sum over all targets that count, and how many they are."""
    flat = target.reshape(-1).long()
    total = cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, smoothing)
    return total, (flat != IGNORE).sum()


# ── a check of labels before the first step


def check_labels(model: nn.Module, task: Task, source: Source, data: Any) -> None:
    """Raise a ValueError if labels of a classifier are not whole numbers, or not among its classes.

    It checks all labels of a pair of tensors, but only the first batch of other sources, which may be slow.
    """
    if type(task) is not Classify:
        return
    batch = source.batch(0)
    target, real = batch.target, batch.get("real")
    if isinstance(data, tuple | list) and all(isinstance(each, Tensor) for each in data):
        target, real = data[1], data[2] if len(data) > 2 else None
    if target.is_floating_point() or target.is_complex():
        raise RegardError(
            "labels of task='classify' must be whole numbers, got "
            f"{str(target.dtype).removeprefix('torch.')}; use "
            f"labels.long(), or task='regress' for measured numbers"
        )
    if real is not None and real.shape == target.shape:
        target = target[real]
    classes = _scores(model, batch)
    wrong = target[((target < 0) | (target >= classes)) & (target != IGNORE)]
    if wrong.numel():
        raise RegardError(
            f"labels must be from 0 to {classes - 1}, because the model gives {classes} scores, got "
            f"{int(wrong[0])}; give the model one output for each class, and count classes from 0"
        )


def _scores(model: nn.Module, batch: Batch) -> int:
    """The number of scores that a model returns. The model and the random state stay as they were."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with torch.no_grad(), torch.random.fork_rng(devices=[]), eval_mode(model):
        return call(model, batch.to(device)).shape[-1]

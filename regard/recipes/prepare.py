"""Supervised data, ready for training. The order is the same for all kinds: what is predicted, then the splits, then what
is fitted on the train split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from regard.data.array import Array
from regard.data.splits import (
    NAMED,
    NOWHERE,
    TEST,
    TRAIN,
    VALIDATION,
    SplitConfig,
    draw_splits,
    note_missing,
    stratified_mask,
)
from regard.errors import RegardError
from regard.recipes.dataset import Dataset, Encodings, encode_targets
from regard.recipes.describe import singular
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, ShownExample, Split
from regard.recipes.predict import predict_split
from regard.recipes.processor import Processor
from regard.recipes.settings import Settings
from regard.recipes.target import Target
from regard.recipes.task import SupervisedTask

LEAST_JUDGED = 50  # targets by whose accuracy weights are chosen; of fewer one more right is luck, so the loss decides

if TYPE_CHECKING:
    from regard.recipes.supervised import Supervised


def prepare(problem: Supervised, settings: Settings, kind: str, context: DataContext) -> Job:
    """Read the data, then make the task, the source and a model config that fits it. kind: of model"""
    config = settings.data
    note = context.note or (lambda what, share: None)
    examples, reader = context.examples, problem.processor(config)
    if examples is None:
        note("reading", None)
        examples = problem.read(config, context.given)
    drawn = examples.draw is not None
    examples, target, raw, splits, on_splits = find_splits(problem, reader, examples, settings.train.seed)
    by, unit = reader.batches_of(examples), problem.unit_of(reader, examples)
    reader = reader.with_target(target)

    owners = examples.owners()
    start = problem.inherit(context.old, config)
    processor = reader.fit(examples, np.unique(owners[splits == TRAIN]), settings.model, start)
    encodings = Encodings(examples, processor, processor.keep(examples))
    encodings.prepare(context.cache, note)
    wrong = {**examples.errors, **encodings.errors}
    on_errors = processor.leave_out(wrong) if wrong else ()
    left = np.where(np.isin(owners, list(wrong)), NOWHERE, splits).astype(np.uint8)
    if wrong and target is not None:
        _check_left(examples, target, raw, splits, left, wrong)
    splits = left
    train = np.unique(owners[splits == TRAIN])

    codes = raw
    if target is not None and examples.target is None and target.numbers:
        exact = target.encode(examples.cells, examples.what)
        target = target.fitted(exact, splits == TRAIN)
        codes = target.standardise(exact).astype(np.float32)
    processor, on_measured = processor.with_target(target).measure(encodings, train, codes)
    encodings.processor = processor

    batch, train_seed = settings.train.batch, settings.train.seed
    dataset = Dataset(examples, processor, codes, splits, encodings, batch, train_seed, by, processor.most(examples))
    sizes = {name: len(dataset.order(name)) for name in ("train", "validation", "test")}
    if examples.more is not None:
        del sizes["train"]
    asks: tuple[str, ...] = ()
    if target is not None and examples.target is None:
        asks = target.explain(examples.cells, config.asks, examples.target_names[0])
    told = (*asks, *examples.notes, *on_splits, *on_errors, *processor.notes(examples, train), *on_measured)
    task = problem.make_task(processor, codes[splits == TRAIN])
    judged = codes[splits == VALIDATION]
    if isinstance(task, SupervisedTask) and target is not None and target.known(judged).sum() < LEAST_JUDGED:
        task.best_by = "loss"
    test = Split(name="test", count=sizes["test"], unit=unit, batches=lambda: dataset.of("test"))
    return Job(
        kind=kind,
        model=processor.model_config(settings.model),
        task=task,
        source=dataset,
        processor=processor,
        counts={**processor.counts(examples), **sizes},
        source_name=config.path or examples.what,
        unit=problem.speed or f"{examples.part}s",
        examples=unit,
        labels=None if target is None else target.labels,
        number=target.numbers[0] if _is_alone(target, by) and len(target.numbers) == 1 else None,
        keep=processor.save,
        fill=lambda model: processor.set_buffers(model, encodings, train),
        notes=told,
        validation=sizes["validation"],
        test=test if sizes["test"] else None,
        rows=None if drawn else dataset.order,
        predict=lambda split, model: predict_split(problem, model, dataset, split),
        show=lambda split, place: show_unit(dataset, int(dataset.order(split)[place])),
        own_splits=examples.splits is not None and not drawn,
    )


def show_unit(dataset: Dataset, unit: int) -> ShownExample:
    """An example, or a part of the only one, as a person reads it."""
    examples = dataset.examples
    if dataset.by == "examples":
        return dataset.processor.show(examples[unit])
    name = str(unit) if examples.part_names is None else examples.part_names(unit)
    return ShownExample(name=f"{examples.part} {name}")


# ── splits


def find_splits(
    problem: Supervised, reader: Processor[Any, Any], examples: Examples, train_seed: int
) -> tuple[Examples, Target | None, Array, Array, tuple[str, ...]]:
    """The examples (of synthetic data those of the seed), what is predicted, its codes, the split of each, and notes."""
    seed, drawn = reader.config.seed_of(train_seed), examples.draw is not None
    if examples.draw is not None:
        examples = examples.draw(seed)
    target = problem.find_target(examples, reader.config)
    codes = encode_targets(reader.with_target(target), examples)
    by, unit = reader.batches_of(examples), problem.unit_of(reader, examples)
    splits, notes = _choose_splits(reader, examples, target, codes, seed, by=by, unit=unit, drawn=drawn)
    return examples, target, codes, splits, notes


def _check_left(
    examples: Examples, target: Target, codes: Array, before: Array, after: Array, wrong: Mapping[int, str]
) -> None:
    """Raise if of a class nothing can be read that was to be learned from. before, after: splits"""
    strata = target.strata(codes)
    if strata is None:
        return
    for gone in np.setdiff1d(strata[before == TRAIN], strata[after == TRAIN]).tolist():
        why = next(why for i, why in wrong.items() if gone in strata[examples.parts(i)])
        raise RegardError(
            f"{examples.what} has nothing of '{target.classes[gone]}' to train on that can be read; {why}"
        )


def _choose_splits(
    reader: Processor[Any, Any],
    examples: Examples,
    target: Target | None,
    codes: Array,
    seed: int,
    *,
    by: str,
    unit: str,
    drawn: bool,
) -> tuple[Array, tuple[str, ...]]:
    """The split of what is asked, and notes on it. What has no target is in none."""
    config: SplitConfig = reader.config
    known = np.ones(len(codes), dtype=bool) if target is None else target.known(codes)
    strata = None if target is None else target.strata(codes)
    notes: tuple[str, ...] = ()
    own = None if target is None else reader.draw_splits(examples, target, codes, seed)
    if own is not None:
        found = own
    elif examples.splits is not None:
        found = examples.splits if drawn else _complete_splits(examples, config, strata, known, seed)
    elif by == "examples" and examples.starts is not None:
        found = draw_splits(len(examples), config, seed, unit=unit)[examples.owners()]
    else:
        rows = np.flatnonzero(known)
        found = np.full(len(codes), NOWHERE, dtype=np.uint8)
        how: dict[str, Any] = {"unit": unit}
        if strata is not None and target is not None:
            how |= {"classes": strata[rows], "names": target.classes}
        found[rows] = draw_splits(len(rows), config, seed, **how)
        if config.validation and not (found == VALIDATION).any():
            raise RegardError(
                f"{examples.what} has too few {unit} for a validation split, because training keeps one of each class; "
                f"give more, or use --data.validation 0"
            )
    found = np.where(known, found, NOWHERE).astype(np.uint8)
    if strata is not None and _is_alone(target, by) and not drawn:
        notes = note_missing(found, strata, target.classes, singular(unit))
        notes += _note_alone(strata[known], target.classes, singular(unit))
    return found, notes


def _is_alone(target: Target | None, by: str) -> TypeGuard[Target]:
    """Is everything that has a target in a split by itself, and not with an example that it is a part of?"""
    return target is not None and (target.each is None or by != "examples")


def _note_alone(codes: Array, classes: Sequence[str], unit: str) -> tuple[str, ...]:
    """A note on classes of one example each: no split but the train split has any."""
    alone = [classes[int(i)] for i in np.flatnonzero(np.bincount(codes, minlength=len(classes)) == 1)]
    if not alone:
        return ()
    said = ", ".join(f"'{each}'" for each in alone[:NAMED]) + " …" * (len(alone) > NAMED)
    return (f"there is one {unit} of {said}, to learn from: nothing tells how well it is recognised",)


def _complete_splits(examples: Examples, config: SplitConfig, strata: Array | None, known: Array, seed: int) -> Array:
    """The splits that the data says; without a validation split, a share of the rest validates."""
    if config.folds is not None:
        raise RegardError(f"{examples.what} has its own splits, so it cannot be cut into folds; leave --data.folds out")
    if config.test:
        raise RegardError(
            f"{examples.what} has its own splits, so no share can be cut for testing; leave --data.test out"
        )
    assert examples.splits is not None
    found = examples.splits.copy()
    rows = np.flatnonzero((found == TRAIN) & known)
    if config.validation and not (found == VALIDATION).any():
        classes = np.zeros(len(rows), dtype=np.int64) if strata is None else strata[rows]
        found[rows[stratified_mask(classes, config.validation, seed)]] = VALIDATION
    return found


def judge_splits(examples: Examples, known: Array) -> Array:
    """The splits of other data that a model is judged on: its own test split, or else all that is known."""
    given = examples.splits
    own = given is not None and bool((given == TEST).any())
    found = np.full(len(known), TEST) if not own else np.where(given == TEST, TEST, NOWHERE)
    return np.where(known, found, NOWHERE).astype(np.uint8)

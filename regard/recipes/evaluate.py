"""Other data with targets, read as a run reads its own, to judge the run on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.splits import NOWHERE
from regard.errors import RegardError
from regard.recipes.dataset import Dataset, Encodings, encode_targets
from regard.recipes.job import DataContext, Split
from regard.recipes.predict import predict_split
from regard.recipes.prepare import judge_splits
from regard.recipes.same_data import note_on_trained, read_trained
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Task

if TYPE_CHECKING:
    from regard.recipes.supervised import Supervised


def read_other(
    problem: Supervised, run: Run, data: Any, context: DataContext
) -> tuple[Task, Split, tuple[str, ...] | None]:
    """The task, the examples of other data as one split, and the classes."""
    note = context.note or (lambda what, share: None)
    processor = problem.open(run)
    note("reading", None)
    examples = processor.read(data, want="judge")
    target = processor.target
    if target is not None and examples.cells is None:
        names = ", ".join(f"'{name}'" for name in examples.target_names)
        raise RegardError(f"{examples.what} has no targets to compare with; add a column {names}")
    if target is not None and target.numbers:
        target.check_numbers(examples.cells, examples.what, "the model predicts numbers", examples.places)
    codes = encode_targets(processor, examples)
    known = np.ones(len(codes), dtype=bool) if target is None else target.known(codes)
    encodings = Encodings(examples, processor, processor.keep(examples))
    encodings.prepare(context.cache, note)
    wrong = {**examples.errors, **encodings.errors}
    notes = (*examples.notes, *(processor.leave_out(wrong) if wrong else ()))
    gone = np.isin(examples.owners(), list(wrong))
    splits = np.where(gone, NOWHERE, judge_splits(examples, known)).astype(np.uint8)
    by, size = processor.batches_of(examples), run.section(TrainConfig, "train").batch
    dataset = Dataset(examples, processor, codes, splits, encodings, size, 0, by, processor.most(examples))
    trained = read_trained(problem, run, processor, data)(examples)
    unit, judged = problem.unit_of(processor, examples), dataset.order("test")
    split = Split(
        name=os.fspath(data) if isinstance(data, str | os.PathLike) else examples.what,
        count=len(judged),
        unit=unit,
        batches=lambda: dataset.of("test"),
        rows=lambda: judged,
        predict=lambda model: predict_split(problem, model, dataset, "test"),
        notes=(*notes, *note_on_trained(None if trained is None else trained[judged], unit)),
    )
    labels = None if target is None else target.labels
    return problem.make_task(processor, codes[:0]), split, labels

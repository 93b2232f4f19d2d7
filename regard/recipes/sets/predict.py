"""Predictions for sets: classes, numbers or clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.array import Array
from regard.data.missing import is_missing
from regard.errors import RegardError
from regard.models.additive import Additive
from regard.recipes.answers import plain_cell
from regard.recipes.evidence import evidence_of
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.sets.dataset import SetsConfig, SetsForm, SetsInfo, padded_sets
from regard.recipes.sets.long_tables import LongTable, read_long, sets_with_errors
from regard.recipes.sets.made_sets import CLUSTERS
from regard.recipes.sets.read_sets import check_file, files_of, learned_from_tables, notes_on_missing, sets_in
from regard.recipes.sets.task import numbers_of, read_mixture
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.tasks import call

IN_ORDER = 512  # sets of a table that are read ahead, so that sets of similar size are predicted together
AT_ONCE = 32  # of them in one forward pass


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """One prediction for each point cloud, or for each set of each table."""
    form = run.section(SetsInfo, "corpus").form
    config, model = run.section(SetsConfig, "data"), load_model(run)
    if learned_from_tables(config, form):
        for path in inputs:
            yield from _predict_table(model, path, config, form)
        return
    files = [file for path in inputs for file in files_of(path, config, form)]

    def predict_file(path: str) -> list[Prediction]:
        return [_predict_set(model, form, points, name) for name, points in sets_in(path, config, form)]

    yield from predict_each(files, predict_file)


# ── tables


def _predict_table(model: nn.Module, path: str, config: SetsConfig, form: SetsForm) -> Iterator[Prediction]:
    """One prediction for each set of a table, in the order of their first rows."""
    try:
        check_file(path)
        table = read_long(
            path, config.id, None, form.features, config.missing, never=config.target, lenient=True
        )
        points = table.points if config.missing == "refuse" else form.filled(table.points)
    except (ValueError, OSError) as error:
        yield Prediction(input=path, error=str(error))
        return
    wrong = sets_with_errors(table)
    for first in range(0, len(table.sets), IN_ORDER):
        some = range(first, min(first + IN_ORDER, len(table.sets)))
        found = {i: _of_row(table, i, config, form) for i in some}
        found |= {i: replace(found[i], error=wrong[i]) for i in some if i in wrong}
        good = sorted(
            (i for i in some if i not in wrong), key=lambda i: table.starts[i + 1] - table.starts[i]
        )
        for start in range(0, len(good), AT_ONCE):
            together = good[start : start + AT_ONCE]
            sets = [points[table.starts[i] : table.starts[i + 1]] for i in together]
            for i, answer in zip(together, _predict_sets(model, form, sets), strict=True):
                found[i] = _with_answer(found[i], answer, table, i, config)
        if some.stop == len(table.sets):
            found[some.stop - 1] = replace(found[some.stop - 1], notes=notes_on_missing(table, form))
        yield from (found[i] for i in some)


def _of_row(table: LongTable, number: int, config: SetsConfig, form: SetsForm) -> Prediction:
    """The prediction for a set of a table, without its answer: with its id, and its target if that is known."""
    path, row = table.table.path, table.order[table.starts[number]]
    cells: dict[str, object] = {
        config.id: plain_cell(table.table.rows[row][table.table.names.index(config.id)])
    }
    truth = None
    if config.target in table.table.names and not form.each:
        rows = table.order[table.starts[number] : table.starts[number + 1]]
        truth = _truth(table, rows.tolist(), config, form)
        cells[config.target] = truth
    return Prediction(input=f"{path}: {table.sets[number]}", source=path, row=cells, truth=truth)


def _truth(table: LongTable, rows: Array, config: SetsConfig, form: SetsForm) -> str | float | None:
    """The target of some rows, where all that have one agree."""
    place = table.table.names.index(config.target)
    words = {str(cell).strip() for i in rows if not is_missing(cell := table.table.rows[i][place])}
    if len(words) != 1:
        return None
    (word,) = words
    if form.asks == "classes":
        return word
    try:
        return float(word)
    except ValueError:
        return None


def _with_answer(
    asked: Prediction, answer: Prediction, table: LongTable, number: int, config: SetsConfig
) -> Prediction:
    """The prediction with its answer; of a set with a target for each element, each with its own row."""
    if answer.error is not None:
        return replace(asked, error=f"{asked.input}: {answer.error}")
    parts = []
    for part, row in zip(answer.each, table.order[table.starts[number] :], strict=False):
        cells = dict(zip(table.table.names, map(plain_cell, table.table.rows[row]), strict=True))
        truth = cells.get(config.target)
        known = None if is_missing(truth) else truth
        if part.labels and known is not None:
            known = str(known).strip()
        parts.append(replace(part, row=cells, truth=known))
    return replace(
        asked,
        labels=answer.labels,
        values=answer.values,
        each=tuple(parts),
        evidence=answer.evidence,
    ).without_nan()


def _predict_sets(model: nn.Module, form: SetsForm, sets: Sequence[Array]) -> list[Prediction]:
    """Predictions for several sets in one forward pass; if it fails, one by one, to tell which is wrong."""
    try:
        read = [form.read(points) for points in sets]
        outputs = call(model, padded_sets(read, np.zeros(len(sets), dtype=np.int64)))
        found = [
            _format_set("", out[: len(points)] if form.each else out, form)
            for points, out in zip(sets, outputs, strict=True)
        ]
        return [_with_evidence(one, model, form, points) for one, points in zip(found, read, strict=True)]
    except RegardError as error:
        if len(sets) == 1:
            return [Prediction(input="", error=str(error))]
        return [found for points in sets for found in _predict_sets(model, form, [points])]


# ── point clouds


def _predict_set(model: nn.Module, form: SetsForm, points: Array, name: str) -> Prediction:
    try:
        x = torch.from_numpy(form.read(points))[None]
    except ValueError as error:
        return Prediction(input=name, error=f"{name}: {error}")
    out: Tensor = model(x)[0]
    if form.asks == "clusters":
        return Prediction(input=name, each=tuple(_clusters(out, points.shape[1])))
    return _with_evidence(_format_set(name, out, form), model, form, x[0].numpy())


def _with_evidence(found: Prediction, model: nn.Module, form: SetsForm, read: Array) -> Prediction:
    """The prediction for a set, of an additive model with what each element adds to it. read: n d"""
    if form.each or not isinstance(model, Additive):
        return found
    names = [f"{form.element} {i + 1}" for i in range(len(read))]
    x = torch.from_numpy(read)[None]
    return replace(found, evidence=evidence_of(model, x, names, form.answers, numbers_of(form)))


def _format_set(name: str, out: Tensor, form: SetsForm) -> Prediction:
    """The output for one set, or for each of its elements."""
    if not form.each:
        return _format_output(name, out, form)
    parts = (_format_output(f"{form.element} {i + 1}", row, form) for i, row in enumerate(out))
    return Prediction(input=name, each=tuple(parts))


def _format_output(name: str, out: Tensor, form: SetsForm) -> Prediction:
    """Probabilities of classes, the highest first, or numbers in the units of the data."""
    if form.asks == "classes":
        return Prediction.of_classes(name, out.softmax(-1), form.answers)
    numbers = out.double().numpy() * np.array(form.target_scale) + np.array(form.target_centre)
    return Prediction(input=name, values=dict(zip(form.answers, numbers.tolist(), strict=True)))


def _clusters(out: Tensor, d: int) -> Iterator[Prediction]:
    found = read_mixture(out[None], CLUSTERS, d)
    for i in found.share[0].argsort(descending=True).tolist():
        places = {f"middle {axis + 1}": found.middle[0, i, axis].item() for axis in range(d)}
        widths = {f"deviation {axis + 1}": found.deviation[0, i, axis].item() for axis in range(d)}
        yield Prediction(
            input=f"cluster {i + 1}", values={"share": found.share[0, i].exp().item(), **places, **widths}
        )

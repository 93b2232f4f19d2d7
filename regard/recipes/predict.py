"""Predictions of a supervised model: one for each example in its order, or the reason why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.machine import cores
from regard.nn.linear import prepacked
from regard.recipes.dataset import Dataset
from regard.recipes.example import Examples
from regard.recipes.prediction import Prediction
from regard.recipes.processor import Encoded, Processor
from regard.runs.load import load_model
from regard.runs.run import Run

AT_ONCE = 32  # examples in one forward pass
IN_ORDER = 512  # examples that are encoded ahead, so that those of like length are predicted together
PARTS_AT_ONCE = 1024  # of an example that is too large for one batch


class Decoder(Protocol):
    """A problem whose outputs for one example can be told as a prediction."""

    def open(self, run: Run) -> Processor[Any, Any]:
        """The processor of a run."""
        ...

    def decode(self, processor: Processor[Any, Any], name: str, out: Any, cell: Any) -> Prediction:
        """The output for one example as a prediction. cell: its target, as it was read"""
        ...


@torch.no_grad()
def predict(
    problem: Decoder,
    run: Run,
    inputs: Sequence[Any],
    explain: Callable[[Any, Examples], tuple[str, ...]] = lambda given, examples: (),
) -> Iterator[Prediction]:
    """Predictions for all examples in some paths, tables or objects. explain: what the user should know of the examples
    of one of them"""
    processor, model = problem.open(run), load_model(run)
    for given in gather_inputs(processor, inputs):
        parts = processor.read_parts(given)
        while True:
            try:
                examples = next(parts, None)
            except (ValueError, OSError) as error:
                if not isinstance(given, str):
                    advice = f"for inputs of your own call the model itself: regard.load({str(run.path)!r})"
                    raise RegardError(f"{error}; {advice}") from error
                yield Prediction(input=given, error=str(error))
                break
            if examples is None:
                break
            examples = replace(examples, notes=(*examples.notes, *explain(given, examples)))
            yield from predict_examples(problem, model, processor, examples)


def gather_inputs(processor: Processor[Any, Any], inputs: Iterable[Any]) -> Iterator[Any]:
    """The inputs as they are read: examples that stand beside each other are one list, and so predicted together."""
    for alone, some in groupby(inputs, processor.is_one):
        each = list(some)
        yield from [each] if alone and len(each) > 1 else each


@torch.no_grad()
def predict_split(problem: Decoder, model: nn.Module, dataset: Dataset, split: str) -> Iterator[Prediction]:
    """Predictions for the examples of a split, in their order, by their names alone: all are from one source; of a
    single example, for its parts in the split."""
    units = np.sort(dataset.order(split))
    if dataset.by == "examples":
        rows = units.tolist()
        predictions = predict_examples(problem, model, dataset.processor, dataset.examples, rows)
        for row, found in zip(rows, predictions, strict=True):
            yield replace(found, input=dataset.examples.names(row), source=None)
        return
    for found in predict_examples(problem, model, dataset.processor, dataset.examples):
        yield replace(found, each=tuple(found.each[unit] for unit in units))


def predict_examples(
    problem: Decoder,
    model: nn.Module,
    processor: Processor[Any, Any],
    examples: Examples,
    some: Sequence[int] | None = None,
) -> Iterator[Prediction]:
    """Predictions for examples that were read, in their order. some: the numbers of those; None: all"""
    if processor.batches_of(examples) == "drawn":
        large = _predict_large(problem, model, processor, examples).without_nan()
        yield replace(large, notes=(*large.notes, *examples.notes))
        return
    encode = partial(_try_encode, processor, examples)
    on_rows: Counter[str] = Counter()  # notes on rows of a table are told once, with how many rows they are on
    with ThreadPoolExecutor(cores()) as pool, prepacked(model):
        # decoding files is work that threads share; numbers of a table are encoded sooner than handed to a thread
        encode_all: Callable[..., Iterable[Encoded | Exception]] = map if processor.stacked is None else pool.map
        asked = range(len(examples)) if some is None else some
        for first in range(0, len(asked), IN_ORDER):
            rows = asked[first : first + IN_ORDER]
            found: dict[int, Prediction] = {}
            encoded: dict[int, Encoded] = {}
            for row, made in zip(rows, encode_all(encode, rows), strict=True):
                if isinstance(made, Exception):
                    found[row] = _failed(examples, row, made)
                else:
                    encoded[row] = made
            order = sorted(encoded, key=lambda row: processor.length_of(encoded[row]) or 0)
            for start in range(0, len(order), AT_ONCE):
                together = {row: encoded[row] for row in order[start : start + AT_ONCE]}
                found |= _predict_some(problem, model, processor, examples, together)
            if examples.source is not None:
                on_rows.update(note for one in encoded.values() for note in one.get("notes", ()))
            if first + IN_ORDER >= len(asked):
                counted = [f"{examples.source}: {n:,} of {len(examples):,} {note}" for note, n in on_rows.items()]
                last = found[rows[-1]]
                found[rows[-1]] = replace(last, notes=(*last.notes, *examples.notes, *counted))
            yield from (found[row].without_nan() for row in rows)


def _try_encode(processor: Processor[Any, Any], examples: Examples, row: int) -> Encoded | Exception:
    """An example as arrays, or why it cannot be read."""
    if row in examples.errors:
        return RegardError(examples.errors[row])
    try:
        return processor.sample(processor.encode(examples[row]), None)
    except (ValueError, OSError) as error:
        return error


def _predict_some(
    problem: Decoder, model: nn.Module, processor: Processor[Any, Any], examples: Examples, some: Mapping[int, Encoded]
) -> dict[int, Prediction]:
    """Predictions in one forward pass; if it fails, one by one, to tell which of them is wrong."""
    rows = list(some.values())
    try:
        batch = processor.finish(processor.collate(rows), training=False)
        outs = processor.answers(processor.forward(model, batch), batch, rows)
    except RegardError as error:
        if len(some) == 1:
            return {row: _failed(examples, row, error) for row in some}
        each = [_predict_some(problem, model, processor, examples, {row: one}) for row, one in some.items()]
        return {row: found for part in each for row, found in part.items()}
    return {
        row: answer(problem, model, processor, examples, row, out, one)
        for (row, one), out in zip(some.items(), outs, strict=True)
    }


def answer(
    problem: Decoder,
    model: nn.Module,
    processor: Processor[Any, Any],
    examples: Examples,
    row: int,
    out: Tensor,
    encoded: Encoded,
) -> Prediction:
    """The output for an example as a prediction, or as one for each of its parts."""
    target = processor.target
    if target is None or target.each is None:
        found = problem.decode(processor, examples.title(row), out, examples.target_of(row))
        evidence = processor.explain(model, encoded)
        notes = encoded.get("notes", ()) if examples.source is None else ()
        where: dict[str, Any] = {"row": examples.row_of(row), "source": examples.source, "kind": examples.kind}
        return replace(found, evidence=evidence, notes=notes, **where)
    first = examples.parts(row).start
    kept = encoded.get("kept")
    places = range(len(out)) if kept is None else np.asarray(kept).tolist()
    parts = []
    for place, one in zip(places, out, strict=True):
        asked = first + place
        name = f"{target.each} {place + 1}" if examples.part_names is None else examples.part_names(asked)
        cell = None if examples.cells is None else examples.plain[asked]
        parts.append(replace(target.decode(name, one, cell), row=examples.row_of(asked)))
    return Prediction(
        input=examples.title(row), each=tuple(parts), source=examples.source, notes=encoded.get("notes", ())
    )


def _predict_large(
    problem: Decoder, model: nn.Module, processor: Processor[Any, Any], examples: Examples
) -> Prediction:
    """All parts of one example that is too large for a batch, some at a time."""
    encoded, outs = processor.encode(examples[0]), []
    for start in range(0, examples.asked, PARTS_AT_ONCE):
        parts = np.arange(start, min(start + PARTS_AT_ONCE, examples.asked))
        batch = processor.finish(processor.collate([processor.sample(encoded, None, parts)]), training=False)
        outs.append(processor.forward(model, batch)[: len(parts)])
    return answer(problem, model, processor, examples, 0, torch.cat(outs), {})


def _failed(examples: Examples, row: int, error: Exception) -> Prediction:
    """What has no prediction, with its columns, and why."""
    cells, name, why = {}, examples.title(row), str(error)
    if examples.starts is None:
        cells = dict(examples.row_of(row))
    if examples.source is None and name not in why:
        why = f"{name}: {why}"
    return Prediction(input=name, kind=examples.kind, row=cells, source=examples.source, error=why)

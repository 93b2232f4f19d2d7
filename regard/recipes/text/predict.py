"""Predictions of a text classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.data import tokenizer as tokenizers
from regard.data.array import Array
from regard.data.batch import Batch, pad_rows
from regard.data.table_formats import is_table
from regard.data.tables import OpenTable, is_empty, is_missing, open_table
from regard.data.targets import read_numbers
from regard.errors import RegardError
from regard.recipes.answers import plain_cell
from regard.recipes.evidence import Evidence, evidence_of
from regard.recipes.prediction import Prediction
from regard.recipes.text.defaults import has_bag, is_classifier, is_language_model
from regard.recipes.text.given_text import is_given_file, read_given_text
from regard.recipes.text.labelled import LabelledConfig, LabelledInfo
from regard.recipes.text.labelled_rows import check_text, label_text
from regard.recipes.text.spelling import spell_text
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.tasks import call

IN_ORDER = 512  # rows of a table that are read ahead, so that texts of similar length are predicted together
AT_ONCE = 32  # of them in one forward pass


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """For each text, the text of each file, and each row of each table, the labels with their probabilities,
    the highest first."""
    if not is_classifier(run.config):
        raise RegardError(f"{run.path} is not a classifier; {_instead(run)}")
    data, info = run.section(LabelledConfig, "data"), run.section(LabelledInfo, "corpus")
    model, tokenizer = load_model(run), tokenizers.load(run.verify("tokenizer.json"))

    def answer(name: str, out: Tensor) -> Prediction:
        if info.numbers is None:
            return Prediction.of_classes(name, out.softmax(-1), info.labels)
        return Prediction(input=name, values={info.numbers.name: info.numbers.restore(out.item())})

    reader = _Reader(data, info, tokenizer, answer, has_bag(run.config))
    for given in inputs:
        try:
            if is_given_file(given) and is_table(given):
                yield from reader.predict_table(model, given)
            else:
                yield reader.predict_text(model, given)
        except (ValueError, OSError) as error:
            yield Prediction(input=given, error=str(error))


class _Given(NamedTuple):
    """A text to predict: its prediction without the answer, its words and its ids; None: the prediction has an error."""

    prediction: Prediction
    text: str = ""
    ids: Array | None = None


@dataclass(eq=False)
class _Reader:
    """How texts become ids, and outputs become predictions."""

    data: LabelledConfig
    info: LabelledInfo
    tokenizer: tokenizers.Tokenizer
    answer: Callable[[str, Tensor], Prediction]  # from the name of an input and the output of the model
    spelled: bool  # does the model read what tokens are made of?

    def predict_text(self, model: nn.Module, given: str) -> Prediction:
        """Of a text in quotes, or of a text file."""
        if not given.strip():
            raise RegardError("the text is empty, so there is nothing to predict from; give a text or a file")
        text, kind = read_given_text(given)
        ids = self.tokenizer.encode(text)
        framed = self.tokenizer.frame(ids, self.data.context)
        (found,) = self._answer(model, [_Given(Prediction(input=given, kind=kind), text, framed)])
        notes = [tokenizers.unknown_words(self.tokenizer, text), _cut(len(ids), self.data.context)]
        said = tuple(f"{given[:40]}: {note}" for note in notes if note)
        return replace(found, notes=said, evidence=self._find_evidence(model, text, ids))

    def _find_evidence(self, model: nn.Module, text: str, ids: Array) -> Evidence | None:
        """What each token of a text adds to the prediction of an additive model."""
        ids = ids[: self.data.context]
        names = [self.tokenizer.called(id) for id in ids.tolist()]
        numbers = [] if self.info.numbers is None else [self.info.numbers]
        more = {"spelling": self._spell([text], len(ids))} if self.spelled else {}
        return evidence_of(model, torch.from_numpy(ids)[None], names, self.info.labels, numbers, **more)

    def predict_table(self, model: nn.Module, path: str) -> Iterator[Prediction]:
        """Of each row of a table, in order. What is wrong with the table is said before the first answer."""
        table = self._open(path)
        count = table.count
        if not count:
            raise RegardError(f"{path} has no rows; give one for each text")
        cut = done = 0
        rows = (self._read_row(path, line, cells) for line, cells in table.records())
        while some := list(islice(rows, IN_ORDER)):
            cut += sum(each.ids is not None and len(each.ids) > self.data.context for each in some)
            done += len(some)
            found = self._answer(model, some)
            if done == count:
                what = f"{path}: {cut:,} of {count:,} texts have more tokens than the {self.data.context:,}"
                said = (f"{what} that the model reads from the first on",) if cut else ()
                found[-1] = replace(found[-1], notes=(*table.notes, *said))
            yield from found

    def _open(self, path: str) -> OpenTable:
        table = open_table(path, self.data)
        advice = "the model was trained on this column; rename yours, or name it with --data.text"
        table.place(self.data.text, advice, (self.data.label,))
        return table

    def _read_row(self, path: str, line: int, cells: dict[str, Any]) -> _Given:
        column, text, label = self.data.text, cells.get(self.data.text), cells.get(self.data.label)
        found = Prediction(
            input=f"line {line}" if is_empty(text) else str(text),
            kind="text",
            source=path,
            row={name: plain_cell(cell) for name, cell in cells.items()},
            truth=None if is_missing(label) else self._read_truth(label),
        )
        try:
            if is_empty(text):
                raise RegardError(f"line {line} of {path} has no text in column '{column}'; fill it in")
            words = check_text(text, path, line, column)
            ids = self.tokenizer.frame(self.tokenizer.encode(words), self.data.context)
            return _Given(found, words, ids)
        except ValueError as error:
            said = str(error)
            return _Given(replace(found, error=said if path in said else f"line {line} of {path}: {said}"))

    def _answer(self, model: nn.Module, some: Sequence[_Given]) -> list[Prediction]:
        """Predictions in the same order; texts of similar length share a forward pass."""
        found = [each.prediction for each in some]
        texts = [(i, each.ids[: self.data.context]) for i, each in enumerate(some) if each.ids is not None]
        texts.sort(key=lambda each: len(each[1]))
        for together in _in_parts(texts, AT_ONCE):
            tokens, real = pad_rows([ids for _, ids in together])
            batch = Batch({"tokens": tokens, "real": real}, torch.zeros(len(tokens)))
            if self.spelled:
                texts_of = [some[place].text for place, _ in together]
                batch = batch.replace(spelling=self._spell(texts_of, tokens.shape[1]))
            outputs = call(model, batch)
            for (place, _), out in zip(together, outputs, strict=True):
                answer = self.answer(found[place].input, out)
                found[place] = replace(found[place], labels=answer.labels, values=answer.values)
        return found

    def _spell(self, texts: Sequence[str], length: int) -> Tensor:
        """What the tokens of some texts are made of, filled up to one length."""
        spelled = [spell_text(self.tokenizer, text)[: min(length, self.data.context)] for text in texts]
        return nn.utils.rnn.pad_sequence(spelled, batch_first=True)

    def _read_truth(self, label: Any) -> str | float:
        """A label as training reads it."""
        if self.info.numbers is None:
            return _label_as_trained(label)
        found = read_numbers([label])
        return str(label) if found is None else float(found[0])


def _label_as_trained(label: Any) -> str:
    """A label as training reads it; what could not be one, as text: no answer is equal to it."""
    try:
        return label_text(label, "", 0, "")
    except ValueError:
        return str(label)


def _in_parts(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _instead(run: Run) -> str:
    """What to do with a run that has no classes."""
    if is_language_model(run.config):
        return "train a classifier on labelled text (.csv or .jsonl), or use regard generate"
    return f"train a classifier on labelled text (.csv or .jsonl), with --from {run.quoted} to start from this encoder"


def _cut(tokens: int, context: int) -> str | None:
    if tokens > context:
        return f"the model reads only the first {context:,} of {tokens:,} tokens"
    return None

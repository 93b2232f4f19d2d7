"""Predictions for texts: labels with their probabilities, or a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.data import tokenizer as tokenizers
from regard.errors import RegardError
from regard.recipes.evidence import evidence_of
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.text.defaults import is_classifier, is_decoder
from regard.recipes.text.given_text import read_given_text
from regard.recipes.text.labelled import LabelledConfig, LabelledInfo
from regard.runs.load import load_model
from regard.runs.run import Run


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """For each text, or the text of each file, the labels with their probabilities, the highest first, or the
    number."""
    if not is_classifier(run.config):
        raise RegardError(f"{run.path} is not a classifier; {_instead(run)}")
    info, context = run.section(LabelledInfo, "corpus"), run.section(LabelledConfig, "data").context
    model, tokenizer = load_model(run), tokenizers.load(run.verify("tokenizer.json"))

    def predict_one(given: str) -> list[Prediction]:
        if not given.strip():
            raise RegardError("the text is empty, so there is nothing to predict from; give a text or a file")
        text, kind = read_given_text(given)
        ids = torch.as_tensor(tokenizer.encode(text).astype("int64"))
        out: Tensor = model(ids[None, :context])[0]
        notes = [tokenizers.unknown_words(tokenizer, text), _cut(len(ids), context)]
        said = tuple(f"{given[:40]}: {note}" for note in notes if note)
        names = [tokenizer.called(id) for id in ids[:context].tolist()]
        numbers = [] if info.numbers is None else [info.numbers]
        reasons = evidence_of(model, ids[None, :context], names, info.labels, numbers)
        return [replace(_format_output(given, out, info), kind=kind, notes=said, evidence=reasons)]

    yield from predict_each(inputs, predict_one)


def _format_output(given: str, out: Tensor, info: LabelledInfo) -> Prediction:
    """Probabilities of classes, or the number in the units of the data.   classes or 1"""
    if info.numbers is None:
        return Prediction.of_classes(given, out.softmax(-1), info.labels)
    return Prediction(input=given, values={info.numbers.name: info.numbers.restore(out.item())})


def _instead(run: Run) -> str:
    """What to do with a run that has no classes."""
    if is_decoder(run.config):
        return "train a classifier on labelled text (.csv or .jsonl), or use regard generate"
    return f"train a classifier on labelled text (.csv or .jsonl), with --from {run.quoted} to start from this encoder"


def _cut(tokens: int, context: int) -> str | None:
    if tokens > context:
        return f"the model reads only the first {context:,} of {tokens:,} tokens"
    return None

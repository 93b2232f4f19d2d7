"""What a classifier says of texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from regard.data import tokenizer as tokenizers
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.text.defaults import is_classifier, is_decoder
from regard.recipes.text.labelled import LabelledConfig, LabelledInfo
from regard.runs.load import load_model
from regard.runs.run import Run

LIKE_A_PATH = re.compile(
    r"\A[^\n]*\.(txt|csv|tsv|jsonl?)\Z|\A\S*/\S*\Z"
)  # reviews/one.txt, but not "and/or, he said"


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """For each text, or the text of each file, the labels of a classifier with their probabilities, the likeliest first."""
    if not is_classifier(run.config):
        raise ValueError(f"{run.path} is no classifier; {instead(run)}")
    labels, context = run.section(LabelledInfo, "corpus").labels, run.section(LabelledConfig, "data").context
    model, tokenizer = load_model(run), tokenizers.load(run.tokenizer_file)

    def predict_one(given: str) -> list[Prediction]:
        text, kind = read(given)
        ids = torch.as_tensor(tokenizer.encode(text).astype("int64"))
        shares: Tensor = model(ids[None, :context]).softmax(-1)[0]
        notes = [tokenizers.unknown_words(tokenizer, text), cut(len(ids), context)]
        said = tuple(f"{given[:40]}: {note}" for note in notes if note)
        return [replace(Prediction.of_classes(given, shares, labels), kind=kind, notes=said)]

    yield from predict_each(inputs, predict_one)


def instead(run: Run) -> str:
    """What to do with a run that has no classes."""
    if is_decoder(run.config):
        return "train one on labelled text (.csv or .jsonl), or use regard generate"
    return f"train one on labelled text (.csv or .jsonl), with --from {run.path} to start from this encoder"


def read(given: str) -> tuple[str, Literal["text", "file"]]:
    """A text, or that of a file. What looks like a path and is none is no text either: a typing error is not classified."""
    if not given.strip():
        raise ValueError("there is nothing to predict from: the text is empty")
    path = Path(given)
    try:
        folder, file = path.is_dir(), path.is_file()
    except OSError:  # too long to be the name of a file
        return given, "text"
    if folder:
        raise ValueError(f"{given} is a folder; give a text, or files of text: {given.rstrip('/')}/*.txt")
    if file:
        text = decoded(path)
        if not text.strip():
            raise ValueError(f"{given} is empty; give a file with text in it")
        return text, "file"
    if LIKE_A_PATH.search(given):
        raise FileNotFoundError(
            f"there is no file {given}; to have it taken as a text, write it into a file and give that"
        )
    return given, "text"


def decoded(path: Path) -> str:
    content = path.read_bytes()
    if b"\0" in content:
        raise ValueError(
            f"{path} is binary, not text: there is a NUL at byte {content.index(0)}; give text only"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not text in UTF-8: byte {error.start} is 0x{content[error.start]:02X}; save it "
            f"as UTF-8"
        ) from error


def cut(tokens: int, context: int) -> str | None:
    return f"only the first {context:,} of {tokens:,} tokens are read" if tokens > context else None

"""Translations of texts, of each line of files, and of each row of tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from regard.data.tables import is_empty, is_missing, is_table, open_table, unpack_lines
from regard.errors import RegardError
from regard.files import PathLike, write_stream
from regard.models.seq2seq import Seq2Seq
from regard.recipes.answers import plain_cell
from regard.recipes.prediction import Prediction
from regard.recipes.text.given_text import is_given_file, read_given_text
from regard.recipes.translation.dataset import PairsConfig, PairsInfo
from regard.recipes.translation.pairs import join_words
from regard.recipes.translation.prediction import Translation
from regard.recipes.translation.read_pairs import flatten_row, source_column
from regard.recipes.translation.search import SearchOptions, longest_tokens, translate
from regard.recipes.translation.vocabulary import Vocabulary, check_same, describe_unknown, load_vocabulary
from regard.runs.load import load_model
from regard.runs.run import Run

TOGETHER = 512  # sentences that are read ahead, so that those of similar length are translated together


class _Given(NamedTuple):
    """A sentence to translate, and its prediction without the translation."""

    text: str
    prediction: Translation


def load_models(run: Run, options: SearchOptions) -> tuple[list[Seq2Seq], Vocabulary]:
    """The model of a run, with those of an ensemble, and the vocabulary of them all."""
    vocabulary = load_vocabulary(run)
    models = [_load(run)]
    for path in options.ensemble:
        other = Run.open(path)
        check_same(vocabulary, load_vocabulary(other), (str(run.path), str(other.path)))
        models.append(_load(other))
    return models, vocabulary


def _load(run: Run) -> Seq2Seq:
    model = load_model(run)
    if not isinstance(model, Seq2Seq):
        raise RegardError(f"{run.path} does not translate; give a run of regard train translation")
    return model


def predict(run: Run, inputs: Sequence[str], options: SearchOptions) -> Iterator[Prediction]:
    """The translation of each text, of each line of each file, and of each row of each table, in order."""
    models, vocabulary = load_models(run, options)
    translator = _Translator(models, vocabulary, run.section(PairsInfo, "corpus"), options)
    for given in inputs:
        try:
            yield from translator.answer(translator.read(run, given))
        except (ValueError, OSError) as error:
            yield Translation(input=given, error=str(error))


@dataclass(eq=False)
class _Translator:
    models: Sequence[Seq2Seq]
    vocabulary: Vocabulary
    info: PairsInfo
    options: SearchOptions

    def read(self, run: Run, given: str) -> Iterator[_Given]:
        """The sentences of an input."""
        if not is_given_file(given):
            text, _ = read_given_text(given)
            if not text.strip():
                raise RegardError("the text is empty, so there is nothing to translate; give a text or a file")
            return iter([self._given(text, given)])
        if is_table(given):
            return self._read_table(run, given)
        return self._read_file(given)

    def answer(self, sentences: Iterator[_Given]) -> Iterator[Prediction]:
        """The translations, in the same order."""
        while some := list(islice(sentences, TOGETHER)):
            real = [place for place, each in enumerate(some) if each.text and each.prediction.error is None]
            sources = [self.vocabulary.encode_source(some[place].text) for place in real]
            found = translate(self.models, self.vocabulary, sources, self.options, self.info.ratio)
            best = dict(zip(real, found, strict=True))
            for place, each in enumerate(some):
                yield replace(each.prediction, best=tuple(best.get(place, ())))

    def _given(self, text: str, name: str, notes: Sequence[str] = (), **known: Any) -> _Given:
        words = join_words(text)
        own = [describe_unknown(self.vocabulary.source, words), self._cut(words), self._bound(words)]
        said = tuple(f"{name[:40]}: {note}" for note in own if note)
        return _Given(words, Translation(input=words, kind="text", notes=(*said, *notes), **known))

    def _cut(self, text: str) -> str | None:
        limit = min((model.limit for model in self.models if model.limit is not None), default=None)
        count = len(self.vocabulary.encode_source(text))
        if limit is None or count <= limit:
            return None
        return f"the model reads only the first {limit - 1:,} of {count - 1:,} tokens"

    def _bound(self, text: str) -> str | None:
        """A note about a text so long that its translation may be cut."""
        count, most = len(self.vocabulary.encode_source(text)), longest_tokens(self.models)
        if count <= most or any(model.limit is not None for model in self.models):
            return None
        return (
            f"of {count - 1:,} tokens, far more than in training; its translation ends after {most:,} tokens at the "
            "latest; give each sentence a line of its own"
        )

    def _read_file(self, path: str) -> Iterator[_Given]:
        for number, line in enumerate(unpack_lines(path), start=1):
            yield self._given(line, f"line {number:,} of {path}", source=path)

    def _read_table(self, run: Run, path: str) -> Iterator[_Given]:
        data = run.config.data or {}
        source, target = (str(data.get(name) or getattr(self.info, name)) for name in ("source", "target"))
        table = open_table(path, run.section(PairsConfig, "data"))
        for number, (line, cells) in enumerate(table.records()):
            row = flatten_row(cells)
            if not number:
                source = source_column(path, list(row), source, target)
            notes = table.notes if number == table.count - 1 else ()
            text, truth = row.get(source), row.get(target)
            known: dict[str, Any] = {"source": path, "row": {str(k): plain_cell(v) for k, v in row.items()}}
            if not is_missing(truth):
                known["truth"] = join_words(str(truth))
            words = "" if is_empty(text) else str(text)
            yield self._given(words, f"line {line:,} of {path}", notes, **known)


# ── a file with a line for each line


def check_lines_file(out: PathLike, inputs: Sequence[str]) -> None:
    """Raise if no such file can be written there; before any work."""
    place = Path(out)
    if place.is_dir():
        raise RegardError(f"--out {out} is a folder; give the name of a file, such as {out}/output.txt")
    if not place.absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot write {out}: there is no folder {place.parent}; make it first")
    if any(os.path.exists(each) and place.exists() and os.path.samefile(each, out) for each in inputs):
        raise RegardError(f"--out {out} is one of the inputs, which would be lost; give another name")


def write_lines(predictions: Iterator[Prediction], out: PathLike) -> Iterator[Prediction]:
    """Pass predictions on, and write a line for each after the last: the translation, or nothing. If there is no
    answer at all, nothing is written."""
    lines: list[str] = []
    answered = False
    for prediction in predictions:
        lines.append(str(prediction.answer or ""))
        answered |= prediction.error is None
        yield prediction
    if not answered:
        return

    def write(part: Path) -> None:
        file: IO[str]
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)

    write_stream(out, write)

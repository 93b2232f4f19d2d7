"""Pairs: how they are read, become tokens and stand side by side, for training, predictions and pages alike."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np
import torch

from regard.config import Amount, Vocab, config
from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, pad_rows
from regard.data.splits import NOWHERE, TRAIN
from regard.errors import RegardError
from regard.models.seq2seq import Seq2SeqConfig
from regard.recipes.example import Example, Examples
from regard.recipes.job import ShownExample
from regard.recipes.processor import Encoded, Processor, Want
from regard.recipes.translation.config import PairsConfig, is_made
from regard.recipes.translation.made_pairs import read_made
from regard.recipes.translation.pairs import leave_out, pair_of
from regard.recipes.translation.read_pairs import read_pairs, read_sources
from regard.recipes.translation.vocabulary import FILE, Vocabulary, learn_vocabulary, load_vocabulary
from regard.runs.run import Run

ENOUGH_FOR_BPE = 2000  # training pairs from which "auto" means subwords; fewer teach a model to spell better
ENOUGH = 0.999  # share of the training pairs that are short enough to be found
MORE = 10  # tokens that a translation may have beyond `ratio` times those of its source


@config
class PairsFitted:
    """What the training pairs said: with the vocabulary, all that a translation needs beside the weights."""

    source: str  # what the sides are called: columns or languages
    target: str
    tokens: str  # their kind
    vocabulary: Vocab  # tokens of the target
    source_vocabulary: Vocab
    ratio: Amount = 1.0  # tokens of a target for each of its source, at most; see measure_ratio


@dataclass(frozen=True, eq=False)
class PairProcessor(Processor[PairsConfig, PairsFitted]):
    """An example is a source and its target. A batch: source b m, real b m; target b n with its end, IGNORE beyond it."""

    Fitted: ClassVar[type] = PairsFitted
    takes_text: ClassVar[bool] = True

    vocabulary: Vocabulary = None  # type: ignore[assignment]  # None: not learned yet

    # ── reading

    def read(self, data: Any, *, want: Want) -> Examples:
        data = os.fspath(data) if isinstance(data, os.PathLike) else data
        trained = None if self.fitted is None else (self.fitted.source, self.fitted.target)
        if want == "use":
            assert trained is not None
            return read_sources(data, self.config, trained)
        if data is None or is_made(data):
            return read_made(data, self.config)
        return read_pairs(data, self.config, trained)

    # ── fitting

    def fit_pairs(self, examples: Examples, splits: Array, vocabulary: Vocabulary | None) -> Self:
        """With tokens from the training pairs; characters from all, because none may be unknown. vocabulary: of an
        earlier run, used instead of a new one"""
        if vocabulary is None:
            vocabulary = self._learn(examples, splits)
        source, target = examples.about["sides"]
        fitted = PairsFitted(
            source=source,
            target=target,
            tokens=vocabulary.target.name,
            vocabulary=vocabulary.target.size,
            source_vocabulary=vocabulary.source.size,
        )
        return replace(self, fitted=fitted, vocabulary=vocabulary)

    def _learn(self, examples: Examples, splits: Array) -> Vocabulary:
        asked = self.config
        kind: str = asked.tokens
        if kind == "auto":
            usual = "bpe" if int((splits == TRAIN).sum()) >= ENOUGH_FOR_BPE else "characters"
            kind = {"dates": "characters", "reverse": "words"}.get(str(examples.about.get("made")), usual)
        chosen = np.flatnonzero(splits != NOWHERE if kind == "characters" else splits == TRAIN)
        pairs = [pair_of(examples, i) for i in chosen.tolist()]
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        return learn_vocabulary(kind, sources, targets, asked.vocabulary, shared=asked.vocabularies == "shared")

    def encode_pairs(
        self, examples: Examples, splits: Array, *, longest: int
    ) -> tuple[list[Encoded], Array, tuple[str, ...]]:
        """The pairs that are in a split, as ids, nothing for others; those with a longer side are then in none, which a note
        counts."""
        there = splits != NOWHERE
        pairs = [self.encode(examples[i]) if known else {} for i, known in enumerate(there.tolist())]
        long = np.array([max(map(len, pair.values()), default=0) > longest for pair in pairs], dtype=bool)
        why = f"a side with more than {longest:,} tokens"
        notes = leave_out(examples, there, long, self.config.wrong, why, "shorten them, or use a larger --data.context")
        return pairs, np.where(long, NOWHERE, splits).astype(np.uint8), notes

    def measure_ratio(self, pairs: Sequence[Encoded]) -> Self:
        """With the ratio that is enough for all but one in a thousand of these pairs, at least 1."""
        ratios = [(len(pair["target"]) - MORE) / len(pair["source"]) for pair in pairs]
        ratio = max(1.0, round(float(np.quantile(ratios, ENOUGH)), 2))
        return replace(self, fitted=replace(self.fitted, ratio=ratio))

    def most_tokens(self, length: int) -> int:
        """How many tokens the translation of a source of this length may have: ratio · length + 10."""
        return ceil(self.fitted.ratio * length) + MORE

    def model_config(self, model: Seq2SeqConfig) -> Seq2SeqConfig:
        vocabulary = self.vocabulary
        return replace(
            model,
            vocab=vocabulary.size,
            source_vocab=None if vocabulary.shared else vocabulary.source_size,
            shared=vocabulary.shared,
            context=self.config.context,
        )

    def describe(self) -> str:
        """tokens: 300 bpe"""
        fitted = self.fitted
        if fitted.source_vocabulary == fitted.vocabulary:
            return f"tokens: {fitted.vocabulary:,} {fitted.tokens}"
        return f"tokens: {fitted.source_vocabulary:,} and {fitted.vocabulary:,} {fitted.tokens}"

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        source = self.vocabulary.encode_source(example.inputs["source"])
        if example.target is None:
            return {"source": source}
        return {"source": source, "target": self.vocabulary.encode_target(example.target)}

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        source, source_real = pad_rows([row["source"] for row in rows])
        target, real = pad_rows([row["target"] for row in rows])
        if real is not None:
            target = torch.where(real, target, IGNORE)
        return Batch({"source": source, "real": source_real}, target, size=source.numel())

    def show(self, example: Example) -> ShownExample:
        return ShownExample(name=example.name, text=f"{example.inputs['source']}\n{example.target}")

    # ── files beside the weights

    def save(self, run: Run) -> None:
        if not run.tokenizer_file.exists():
            run.write(FILE, self.vocabulary.to_json())

    def load(self, run: Run) -> Self:
        return replace(self, vocabulary=load_vocabulary(run))


def inherit_vocabulary(start: Run | None, data: PairsConfig) -> Vocabulary | None:
    """The tokens of an earlier run; None if there is none, or it was killed before it saved them."""
    if start is None or not start.tokenizer_file.exists():
        return None
    own = start.config.data or {}
    for name, default in (("tokens", "auto"), ("vocabularies", "shared")):
        asked = getattr(data, name)
        if asked not in (default, own.get(name)):
            raise RegardError(
                f"the tokens come from {start.path}, so --data.{name} {asked} has no effect; leave it out, or "
                "train without --from"
            )
    return load_vocabulary(start)

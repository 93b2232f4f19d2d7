"""The tokens of both sides: one tokenizer for both, or one for each, and the ids that begin and end a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data import tokenizer as tokenizers
from regard.data.array import Array
from regard.data.fast_tokenizers import Characters
from regard.data.learn_tokenizer import learn
from regard.data.tokenizer import Tokenizer, UnknownCharacter, unknown_words
from regard.errors import RegardError
from regard.runs.run import Run

FILE = "tokenizer.json"
SEPARATE = "separate"  # the kind of a tokenizer.json with two tokenizers
BEGIN, END = "<begin>", "<end>"  # how they are displayed


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Ids of a side: those of its tokenizer, then `begin` and `end`. A source ends with `end`, a target is what
    lies between `begin` and `end`."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def begin(self) -> int:
        return self.target.size

    @property
    def end(self) -> int:
        return self.target.size + 1

    @property
    def size(self) -> int:
        """Number of ids of the target."""
        return self.target.size + 2

    @property
    def source_size(self) -> int:
        return self.source.size + 2

    def encode_source(self, text: str) -> Array:
        """Ids with the end. What the tokenizer has no id for is left out."""
        return np.append(_encode(self.source, text), self.source.size + 1)

    def encode_target(self, text: str) -> Array:
        """Ids with the end, which a model has to predict, too."""
        return np.append(_encode(self.target, text), self.end)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids of a target, until it ends."""
        found = list(ids)
        if self.end in found:
            found = found[: found.index(self.end)]
        text = self.target.decode([id for id in found if id < self.target.size])
        return " ".join(text.split())

    def name_source(self, id: int) -> str:
        """How an id of a source is displayed."""
        return self.source.called(id) if id < self.source.size else END

    def name_target(self, id: int) -> str:
        """How an id of a target is displayed."""
        if id < self.target.size:
            return self.target.called(id)
        return BEGIN if id == self.begin else END

    def to_json(self) -> dict[str, Any]:
        if self.shared:
            return self.target.to_json()
        return {"kind": SEPARATE, "source": self.source.to_json(), "target": self.target.to_json()}


def describe_unknown(tokenizer: Tokenizer, text: str) -> str | None:
    """A note about what the tokenizer does not know in a text; None: it knows all."""
    if not isinstance(tokenizer, Characters):
        return unknown_words(tokenizer, text)
    unknown = tokenizer.unknowns(text)
    if not unknown:
        return None
    return f"left out, because they are not among the characters of the training data: {' '.join(unknown)}"


def _encode(tokenizer: Tokenizer, text: str) -> Array:
    try:
        return tokenizer.encode(text)
    except UnknownCharacter:
        unknown = set(tokenizer.unknowns(text))
        return tokenizer.encode("".join(sign for sign in text if sign not in unknown))


def learn_vocabulary(
    kind: str, sources: Iterable[str], targets: Iterable[str], size: int, *, shared: bool
) -> Vocabulary:
    """Learn the tokens of both sides, together or each alone."""
    if shared:
        one = learn(kind, [*sources, *targets], size)
        return Vocabulary(one, one)
    return Vocabulary(learn(kind, sources, size), learn(kind, targets, size))


def load_vocabulary(run: Run) -> Vocabulary:
    """The vocabulary of a run."""
    data = run.read(FILE)
    if data is None:
        raise FileNotFoundError(f"{run.path} has no {FILE}; regard verify {run.quoted} says what is missing")
    if isinstance(data, dict) and data.get("kind") == SEPARATE:
        return Vocabulary(tokenizers.from_json(data.get("source")), tokenizers.from_json(data.get("target")))
    one = tokenizers.from_json(data)
    return Vocabulary(one, one)


def check_same(vocabulary: Vocabulary, other: Vocabulary, names: tuple[str, str]) -> None:
    """Raise unless both have the same ids."""
    if vocabulary.to_json() != other.to_json():
        raise RegardError(
            f"{names[0]} and {names[1]} have different tokens, so they cannot translate together; train the second "
            f"with --from {names[0]}, which takes its tokens"
        )

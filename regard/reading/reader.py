"""How what a person writes, or a file, becomes an input of a model; for runs of ours, through the tokenizer of the run."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data import tokens as tokenizers
from regard.given import Given, Kind, Tokens, numbered
from regard.run import Run

FIRST_WORDS = "The animal didn't cross the street because it was too tired."
MASK = "[mask]"  # how a hidden token is written for models of ours


class Reader(ABC):
    """Makes inputs for one model."""

    kind: Kind
    takes_target = False  # a second text: what a decoder has written
    longest: int | None = None  # tokens that the model takes at most

    @abstractmethod
    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        """The input for this text, or this file or its bytes; None: an example."""

    def fits(self, count: int, what: str) -> None:
        if not count:
            raise ValueError(f"there is nothing to look at: {what} is empty")
        if self.longest is not None and count > self.longest:
            raise ValueError(
                f"{what} has {count:,} tokens, and the model reads at most {self.longest:,}; shorten it"
            )


class Fixed(Reader):
    """The inputs that came with the model; nothing else can be given."""

    kind = "fixed"

    def __init__(self, inputs: dict[str, Any]) -> None:
        self.inputs = inputs

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        if given is not None:
            raise ValueError(
                "this model brings its own inputs, and nobody knows how it reads others; leave --input out"
            )
        return numbered(self.inputs)


class OwnText(Reader):
    """Text for a run of ours."""

    kind = "text"

    def __init__(self, run: Run, model: nn.Module) -> None:
        self.run, self.tokenizer = run, tokenizers.load(run.tokenizer_file)
        config: Any = model.config
        self.longest = getattr(model, "limit", config.context)
        self.labels = run.config.get("corpus", {}).get("labels")
        self.masked = config.vocab > self.tokenizer.size and self.labels is None
        self.causal = bool(config.causal)

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        text = self.example() if given is None else as_text(given)
        ids = self.encoded(text)
        self.fits(len(ids), "the text")
        stream = Tokens("tokens", tuple(map(self.called, ids)))
        return Given(
            inputs={"tokens": torch.tensor([ids])},
            streams=(stream,),
            kind="text",
            ids="tokens",
            text=text,
            answers="next" if self.causal else "filled" if self.labels is None else "classes",
            called=self.called if self.labels is None else self.labels.__getitem__,
        )

    def called(self, id: int) -> str:
        return self.tokenizer.called(id) if id < self.tokenizer.size else MASK

    def encoded(self, text: str) -> list[int]:
        """Its ids; [mask] hides a token where the model knows how."""
        parts = text.split(MASK) if self.masked else [text]
        ids: list[int] = []
        for number, part in enumerate(parts):
            ids += [self.tokenizer.size] if number else []
            ids += self.tokenizer.encode(part).tolist()
        return ids

    def example(self) -> str:
        """The beginning of what it wrote last, or a sentence of words that it knows."""
        written = self.run.samples()
        text = written[-1][1] if written else FIRST_WORDS
        known = "".join(
            each for each in text if self.tokenizer.kind != "characters" or not self.tokenizer.unknowns(each)
        )
        ids = self.tokenizer.encode(known)[: min(64, self.longest or 64)]
        return self.tokenizer.decode(ids)


# ---- what is given


def as_text(given: str | bytes) -> str:
    """A text, or that of a file if there is one of this name."""
    if isinstance(given, bytes):
        given = decoded(given, "the input")
    if len(given) < 500 and "\n" not in given and os.path.isfile(given):
        return decoded(Path(given).read_bytes(), given)
    return given


def decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is no text in UTF-8: byte {error.start} is {content[error.start]:#04x}"
        ) from error

"""Text for a run of ours, through its tokenizer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data import tokenizer as tokenizers
from regard.look.model_input import Given, Tokens
from regard.look.reader import Reader
from regard.runs.run import Run

FIRST_WORDS = "The animal didn't cross the street because it was too tired."


MASK = "[mask]"  # how a hidden token is written for models of ours


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

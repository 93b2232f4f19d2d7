"""Text that a person gives, for a run through its tokenizer, or for another model through what it is processed by."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data import tokenizer as tokenizers
from regard.look.model_input import ModelInput, Tokens
from regard.look.reader import Control, Reader
from regard.recipes.processors import TextProcessor
from regard.recipes.text.defaults import is_classifier
from regard.recipes.text.labelled import LabelledInfo
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.view import NextTokenView
from regard.runs.run import Run

FIRST_WORDS = "The animal didn't cross the street because it was too tired."
MASK = "[mask]"  # how a hidden token is written for models of ours
TEXT = Control(name="text", type="string", label="text", placeholder="Type something to look at")
TARGET = Control(name="target", type="string", label="target text", placeholder="What it becomes")
ORDER = Control(name="order", type="numbers")


class TextReader(Reader):
    """What all readers of text have: a text can be typed, and its tokens can be moved."""

    views = (NextTokenView(),)
    controls: tuple[Control, ...] = (TEXT, ORDER)

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        assert isinstance(given, TextInput)
        return given if "order" not in values else given.move(values["order"])


class RunTextReader(TextReader):
    """Text for a run of ours."""

    def __init__(self, run: Run, model: nn.Module) -> None:
        self.run, self.tokenizer = run, tokenizers.load(run.tokenizer_file)
        config: Any = model.config
        self.longest = getattr(model, "limit", config.context)
        self.labels = run.section(LabelledInfo, "corpus").labels if is_classifier(run.config) else None
        self.masked = config.vocab > self.tokenizer.size and self.labels is None
        self.causal = bool(config.causal)

    def read(self, given: str | bytes | None = None, target: str | None = None) -> TextInput:
        text = self.example() if given is None else as_text(given)
        ids = self.encode(text)
        self.check_length(len(ids), "the text")
        known: dict[str, Any] = {"answers": "next" if self.causal else "filled", "called": self.called}
        if self.labels is not None:
            known = {"answers": "classes", "called": self.labels.__getitem__}
        return TextInput(
            inputs={"tokens": torch.tensor([ids])},
            streams=(Tokens("tokens", tuple(map(self.called, ids))),),
            ids="tokens",
            text=text,
            **known,
        )

    def called(self, id: int) -> str:
        """What a token is called."""
        return self.tokenizer.called(id) if id < self.tokenizer.size else MASK

    def encode(self, text: str) -> list[int]:
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
        if self.tokenizer.kind == "characters":
            text = "".join(each for each in text if not self.tokenizer.unknowns(each))
        ids = self.tokenizer.encode(text)[: min(64, self.longest or 64)]
        return self.tokenizer.decode(ids)


class ForeignTextReader(TextReader):
    """Text for a model that no recipe made."""

    def __init__(self, processor: TextProcessor) -> None:
        self.processor, self.longest = processor, processor.longest
        self.takes_target = processor.target is not None
        if self.takes_target:
            self.controls = (TEXT, TARGET, ORDER)

    def read(self, given: str | bytes | None = None, target: str | None = None) -> TextInput:
        processor = self.processor
        text = (processor.example or FIRST_WORDS) if given is None else as_text(given)
        inputs = processor.encode(text)
        ids: Tensor = inputs[processor.ids]
        self.check_length(ids.shape[1], "the text")
        streams = [self._stream("source" if self.takes_target else "tokens", ids)]
        main, along = processor.ids, processor.along
        if processor.target is not None:
            written = (
                processor.write_target(inputs) if target is None else processor.encode_target(as_text(target))
            )
            self.check_length(written.shape[1], "the target")
            inputs = inputs | {processor.target: written}
            streams.insert(0, self._stream("target", written))
            main, along = processor.target, ()
        return TextInput(
            inputs=inputs,
            streams=tuple(streams),
            ids=main,
            along=tuple(name for name in along if name in inputs),
            text=text,
            target=target if self.takes_target else None,
            answers=processor.answers,
            called=processor.label if processor.answers == "classes" else processor.called,
            notes=processor.notes,
        )

    def _stream(self, name: str, ids: Tensor) -> Tokens:
        return Tokens(name, tuple(map(self.processor.called, ids[0].tolist())))


def as_text(given: str | bytes) -> str:
    """A text, or that of a file if there is one of this name."""
    if isinstance(given, bytes):
        given = _decode(given, "the input")
    if len(given) < 500 and "\n" not in given and os.path.isfile(given):
        return _decode(Path(given).read_bytes(), given)
    return given


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is no text in UTF-8: byte {error.start} is {content[error.start]:#04x}"
        ) from error

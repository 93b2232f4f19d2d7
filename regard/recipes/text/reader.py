"""Reading text for look: typed by the user or from a file, with the tokenizer of a run or of a foreign model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.data import tokenizer as tokenizers
from regard.data.text_files import decode_text
from regard.look.model_input import ModelInput, Tokens
from regard.look.reader import Control, Reader
from regard.look.view import View
from regard.recipes.processors import TextProcessor
from regard.recipes.text.embed import TextVectors, lines_of
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.nearest_view import NearestView
from regard.recipes.text.read_texts import is_given_file, read_given_text
from regard.recipes.text.view import NextTokenView
from regard.runs.run import Run

FIRST_WORDS = "The animal didn't cross the street because it was too tired."
TEXT = Control(name="text", type="string", label="text", placeholder="Type something to look at")
TARGET = Control(name="target", type="string", label="target text", placeholder="What it becomes")
ORDER = Control(name="order", type="numbers")
SEARCHED = 1000  # texts of a file that are searched: a page carries the vectors of all
FIRST_OF = "The file has {} texts, one in each line; tabs that show one text show the first."
MORE_TEXTS = "The file has {} texts; the first {} are searched."
MASK = "[mask]"  # how to write a masked token


class TextReader(Reader):
    """The base of all text readers: the user can type a text and move its tokens."""

    views: tuple[View, ...] = (NextTokenView(),)
    controls: tuple[Control, ...] = (TEXT, ORDER)

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        return move_tokens(given, values)


def move_tokens(given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
    """The text with its tokens in the order that the controls say."""
    assert isinstance(given, TextInput)
    if "order" not in values:
        return given
    return given.move(values["order"])


def as_text(given: str | bytes) -> str:
    """A text, or the text of a file; bytes are what somebody typed on the page."""
    return decode_text(given, "the text") if isinstance(given, bytes) else read_given_text(given)[0]


class RunTextReader(TextReader):
    """The text reader of a run.

    Each line of a file that an encoder is given is a text that can be searched.
    """

    views = (*TextReader.views, NearestView())

    def __init__(self, run: Run, model: nn.Module, queries: bool = False) -> None:
        """queries: is each token followed by one for what comes after it?"""
        self.run, self.tokenizer = run, tokenizers.load(run.verify("tokenizer.json"))
        config: Any = model.config
        self.longest = getattr(model, "limit", config.context)
        self.queries = queries
        self.masked = config.vocab > self.tokenizer.size and not self.queries
        self.causal = bool(config.causal) or self.queries
        # without one the model returns vectors of tokens
        self.has_head = getattr(config, "head", None) != "none"
        self.embeds = not self.causal and hasattr(model, "stack")
        self.among: TextVectors | None = None

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> TextInput:
        known: dict[str, Any] = {}
        text = self.beginning(self.run.samples()) if given is None else as_text(given)
        if self.embeds and isinstance(given, str) and is_given_file(given):
            text, notes = self.search_lines(text)
            known["notes"] = notes
        ids = self.encode(text)
        self.check_length(len(ids), "the text")
        if self.has_head:
            known |= {"answers": "next" if self.causal else "filled", "called": self.called}
        return TextInput(
            inputs={"tokens": torch.tensor([ids])},
            streams=(Tokens("tokens", tuple(map(self.called, ids))),),
            ids="tokens",
            text=text,
            queries=self.queries,
            among=self.among,
            **known,
        )

    def search_lines(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Keep the lines of a file as texts to search. Returns the text that is shown, and what to say of it: the
        whole file of a masked LM that reads so much, else the first line."""
        lines = list(dict.fromkeys(line.strip() for line in lines_of(text)))
        if len(lines) < 2:
            self.among = None
            return text, ()
        texts = lines[:SEARCHED]
        if self.among is None or self.among.texts != texts:
            self.among = TextVectors(texts, self.tokenizer)
        notes: tuple[str, ...] = ()
        if len(lines) > SEARCHED:
            notes = (MORE_TEXTS.format(f"{len(lines):,}", f"{SEARCHED:,}"),)
        if self.has_head and (self.longest is None or len(self.encode(text)) <= self.longest):
            return text, notes
        return self.cut(lines[0]), (FIRST_OF.format(f"{len(lines):,}"), *notes)

    def called(self, id: int) -> str:
        """The text of a token."""
        return self.tokenizer.called(id) if id < self.tokenizer.size else MASK

    def encode(self, text: str) -> list[int]:
        """The ids of a text; for a masked LM, [mask] stands for a masked token."""
        parts = text.split(MASK) if self.masked else [text]
        ids: list[int] = []
        for number, part in enumerate(parts):
            ids += [self.tokenizer.size] if number else []
            ids += self.tokenizer.encode(part).tolist()
        if self.causal:
            return [*self.tokenizer.prefix, *ids]
        return [*self.tokenizer.prefix, *ids, *self.tokenizer.suffix]

    def cut(self, text: str) -> str:
        """As much of a text as the model reads."""
        ids = self.encode(text)
        if self.longest is None or len(ids) <= self.longest:
            return text
        return self.tokenizer.decode(ids[: self.longest])

    def beginning(self, written: Sequence[tuple[int, str]]) -> str:
        """The first tokens of the last sample, or of a sentence."""
        text = written[-1][1] if written else FIRST_WORDS
        if self.tokenizer.name == "characters":
            text = "".join(each for each in text if not self.tokenizer.unknowns(each))
        ids = self.tokenizer.encode(text)[: min(64, self.longest or 64)]
        return self.tokenizer.decode(ids)


class ForeignTextReader(TextReader):
    """The text reader of a model that no recipe trained."""

    def __init__(self, processor: TextProcessor) -> None:
        self.processor, self.longest = processor, processor.longest
        self.takes_target = processor.target is not None
        if self.takes_target:
            self.controls = (TEXT, TARGET, ORDER)

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> TextInput:
        processor = self.processor
        text = processor.example or FIRST_WORDS if given is None else as_text(given)
        inputs = processor.encode(text)
        ids: Tensor = inputs[processor.ids]
        self.check_length(ids.shape[1], "the text")
        streams = [self._stream("source" if self.takes_target else "tokens", ids)]
        main, along = processor.ids, processor.along
        asked = None
        if processor.target is not None:
            if target is None:
                written = processor.write_target(inputs)
            else:
                asked = as_text(target)
                written = processor.encode_target(asked)
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
            target=asked,
            answers=processor.answers,
            called=processor.label if processor.answers == "classes" else processor.called,
            notes=processor.notes,
        )

    def _stream(self, name: str, ids: Tensor) -> Tokens:
        return Tokens(name, tuple(map(self.processor.called, ids[0].tolist())))

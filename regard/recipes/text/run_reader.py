"""How a run reads text: with its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard.data import tokenizer as tokenizers
from regard.look.model_input import Tokens
from regard.recipes.text.defaults import is_permutation
from regard.recipes.text.embed import lines_of
from regard.recipes.text.given_text import is_given_file
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.nearest_view import NearestView
from regard.recipes.text.reader import FIRST_WORDS, TextReader, as_text
from regard.recipes.text.text_vectors import TextVectors
from regard.runs.run import Run

SEARCHED = 1000  # texts of a file that are searched: a page carries the vectors of all
FIRST_OF = "The file has {} texts, one in each line; tabs that show one text show the first."
MORE_TEXTS = "The file has {} texts; the first {} are searched."
MASK = "[mask]"  # how to write a masked token


class RunTextReader(TextReader):
    """The text reader of a run.

    Each line of a file that an encoder is given is a text that can be searched.
    """

    views = (*TextReader.views, NearestView())

    def __init__(self, run: Run, model: nn.Module) -> None:
        self.run, self.tokenizer = run, tokenizers.load(run.verify("tokenizer.json"))
        config: Any = model.config
        self.longest = getattr(model, "limit", config.context)
        self.queries = is_permutation(run.config)
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
        if id < self.tokenizer.size:
            return self.tokenizer.called(id)
        return MASK

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

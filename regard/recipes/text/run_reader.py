"""How a run reads text: with its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from regard.data import tokenizer as tokenizers
from regard.look.model_input import Tokens
from regard.nn.gate import Gate
from regard.recipes.text.defaults import has_bag, is_classifier, is_permutation
from regard.recipes.text.labelled import LabelledConfig, LabelledInfo
from regard.recipes.text.labelled_texts import LabelledTexts
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.reader import FIRST_WORDS, TextReader, as_text
from regard.recipes.text.spelling import spell_text
from regard.runs.figures import say_number
from regard.runs.outcome import first_example
from regard.runs.run import Run

HELD_OUT = "This text is from the data and was held out from training; --input shows one of yours."
OF_THE_DATA = (
    "This text is from the data, and the model may have learned from it; --input shows one of yours."
)
MASK = "[mask]"  # how to write a masked token


class RunTextReader(TextReader):
    """The text reader of a run."""

    def __init__(self, run: Run, model: nn.Module) -> None:
        self.run, self.tokenizer = run, tokenizers.load(run.verify("tokenizer.json"))
        config: Any = model.config
        self.longest = getattr(model, "limit", config.context)
        self.labelled: LabelledInfo | None = None
        if is_classifier(run.config):
            self.labelled = run.section(LabelledInfo, "corpus")
        self.queries = is_permutation(run.config)
        self.masked = config.vocab > self.tokenizer.size and self.labelled is None and not self.queries
        self.causal = bool(config.causal) or self.queries
        gate = getattr(model, "gate", None)
        self.gate = gate if isinstance(gate, Gate) else None

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> TextInput:
        known: dict[str, Any] = {}
        if given is None:
            text, known = self.example()
        else:
            text = as_text(given)
        ids = self.encode(text)
        self.check_length(len(ids), "the text")
        if self.labelled is None:
            known |= {"answers": "next" if self.causal else "filled", "called": self.called}
        elif self.labelled.numbers is not None:
            known |= {"answers": "numbers", "number": self.labelled.numbers}
        else:
            known |= {"answers": "classes", "called": self.labelled.labels.__getitem__}
        inputs = {"tokens": torch.tensor([ids])}
        if has_bag(self.run.config) and self.labelled is not None:
            inputs["spelling"] = spell_text(self.tokenizer, text)[None]
            known["spelling"] = "spelling"
        if self.gate is not None:
            known["notes"] = (*known.get("notes", ()), self.say_gate(self.gate))
        return TextInput(
            inputs=inputs,
            streams=(Tokens("tokens", tuple(map(self.called, ids))),),
            ids="tokens",
            text=text,
            queries=self.queries,
            **known,
        )

    def say_gate(self, gate: Gate) -> str:
        """How much of the prediction attention can tell."""
        opened, surer = gate.weights
        return (
            "The logits are those of a bag of words and character n-grams plus "
            f"{say_number((opened / surer).item(), 2)} times those of the blocks. Attention and gradient × input show "
            "the blocks alone; leave one out shows both."
        )

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

    def example(self) -> tuple[str, dict[str, Any]]:
        """A text to look at, and what is known of it: of a classifier one of its own data; otherwise the
        beginning of the last sample of the run, or a sentence without unknown characters."""
        kept = first_example(self.run, "text")
        if kept is not None:
            return self.cut(str(kept["text"])), {"truth": str(kept["truth"]), "notes": (HELD_OUT,)}
        of_data = self.row_of_data()
        if of_data is not None:
            return of_data, {"notes": (OF_THE_DATA,)}
        return self.beginning(self.run.samples()), {}

    def row_of_data(self) -> str | None:
        """The first text of a classifier's table, as much as the model reads; None: it is gone, or the run
        was asked to keep no examples."""
        if self.labelled is None or not (self.run.config.train or {}).get("examples", True):
            return None
        with suppress(ValueError, OSError):
            return self.cut(LabelledTexts(self.run.section(LabelledConfig, "data")).rows[0].text)
        return None

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

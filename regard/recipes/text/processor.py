"""Texts with labels: how they are read, split into tokens and put side by side, for training, predictions and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import Natural, config
from regard.data.array import Array
from regard.data.batch import Batch, pad_rows
from regard.data.learn_tokenizer import learn
from regard.data.table_formats import is_table
from regard.data.tokenizer import Tokenizer, load, unknown_words
from regard.errors import RegardError
from regard.look.model_input import ModelInput, Tokens
from regard.models.additive import Additive, AdditiveConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.nn.ngram_logistic import ALONE, LONGEST_SPELLING, Gate
from regard.recipes.evidence import Evidence, evidence_of
from regard.recipes.example import Example, Examples
from regard.recipes.job import ShownExample
from regard.recipes.processor import Encoded, Processor, Take, Want
from regard.recipes.text.config import LabelledTextConfig
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.ngram_features import Spelling, TokenIds, fill_bag, usual_lengths
from regard.recipes.text.read_texts import is_given_file, read_parts_of_table, read_table_of_texts, read_text
from regard.recipes.text.tokenizer import RunTokenizer, learn_subwords, load_given_tokenizer
from regard.runs.number_format import say_number
from regard.runs.run import Run

# "auto" means words, unless their mean length between spaces is larger than this: then the language has no
# spaces between words, hardly a word occurs twice, and "auto" means characters.
LONGEST_MEAN_WORD = 12.0


@config
class TextsFitted(RunTokenizer):
    """The tokens of the train split: with the weights, all that a prediction needs."""

    spelled: bool = False  # does the model read what tokens are made of?
    tokens: Natural = 0  # of all texts, by which other data is noticed
    longest: Natural = 0


@dataclass(frozen=True, eq=False)
class TextsProcessor(Processor[LabelledTextConfig, TextsFitted]):
    """An example is a text. A batch is padded: tokens b n, real b n, spelling b n LONGEST_SPELLING."""

    Fitted: ClassVar[type] = TextsFitted
    shows: ClassVar[str | None] = "text"
    takes_text: ClassVar[bool] = True

    # ── reading

    def read(self, data: Any, *, want: Want) -> Examples:
        if isinstance(data, bytes) or (want == "use" and isinstance(data, str) and not _is_table_file(data)):
            found = read_text(data)
            return replace(found, notes=self._note_on(found.inputs(0)["text"], data))
        return read_table_of_texts(data, self.config, want)

    def read_parts(self, data: Any) -> Iterator[Examples]:
        if isinstance(data, str) and _is_table_file(data):
            return read_parts_of_table(data, self.config)
        return super().read_parts(data)

    def _note_on(self, text: str, given: str | bytes) -> tuple[str, ...]:
        """What is not read of a single text."""
        name = given[:40] if isinstance(given, str) else "the text"
        tokens, most = len(self.tokenizer.encode(text)), self.config.context
        notes = [unknown_words(self.tokenizer, text)]
        if tokens > most:
            notes.append(f"the model reads only the first {most:,} of {tokens:,} tokens")
        return tuple(f"{name}: {note}" for note in notes if note)

    def is_readable(self) -> bool:
        return self.config.path is not None

    # ── fitting

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        tokenizer = self._learn_tokenizer(examples, train) if start is None else start.tokenizer
        # the gate of an encoder is made for one class of several; numbers are learned far better without
        spelled = getattr(model, "bag", False) and (self._is_one_class or not isinstance(model, EncoderConfig))
        return replace(self, fitted=replace(TextsFitted.of(tokenizer), spelled=bool(spelled)))

    def _learn_tokenizer(self, examples: Examples, train: Array) -> Tokenizer:
        """The tokenizer of the config, learned from the train split (characters: from all texts, so that none is
        unknown)."""
        config = self.config
        if config.tokenizer is not None:
            return load_given_tokenizer(config.tokenizer)
        tokens: str = config.tokens
        texts = [examples.inputs(int(i))["text"] for i in train]
        if tokens == "auto":
            words = [len(word) for text in texts for word in text.split()]
            tokens = "words" if np.mean(words) <= LONGEST_MEAN_WORD else "characters"
        if tokens == "bpe":
            return learn_subwords(texts, config.vocabulary, config.sample, config.seed_of(0))
        if tokens == "characters":
            texts = [examples.inputs(i)["text"] for i in range(len(examples))]
        return learn(tokens, texts, config.vocabulary)

    def counts(self, examples: Examples) -> Mapping[str, int]:
        return {"rows": len(examples)}

    def measure(self, take: Take, train: Array, codes: Array) -> tuple[Self, tuple[str, ...]]:
        lengths = [len(row["ids"]) for row in take(np.arange(len(codes)))]
        return replace(self, fitted=replace(self.fitted, tokens=sum(lengths), longest=max(lengths))), ()

    @property
    def _is_one_class(self) -> bool:
        return self.target.labels is not None

    def model_config(self, model: Any) -> Any:
        sizes: dict[str, Any] = {"vocab": self.tokenizer.size, "context": self.config.context}
        if isinstance(model, AdditiveConfig):
            sizes |= {"outputs": self.target.outputs, "contrast": self._is_one_class}
        else:
            sizes["classes"] = self.target.outputs
        if isinstance(model, AdditiveConfig | EncoderConfig):
            sizes["bag"] = self.fitted.spelled
            sizes["vocab"] += 1  # the mask of a masked LM
        return replace(model, **sizes)

    def set_buffers(self, model: nn.Module, take: Take, train: Array) -> None:
        if not self.fitted.spelled:
            return
        assert isinstance(model, Encoder | Additive) and model.bag is not None
        texts = [TokenIds(row["ids"], row["unknown"]) for row in take(train)]
        if isinstance(model, Encoder):
            fill_bag(model.bag, self.tokenizer, self.spelling, texts, share=ALONE)
            model.gate.penalty = 1 / len(texts)
        else:
            fill_bag(model.bag, self.tokenizer, self.spelling, texts)
            model.lengths.copy_(usual_lengths(model.bag, texts))

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        text, tokenizer, most = example.inputs["text"], self.tokenizer, self.config.context
        try:
            ids = tokenizer.encode(text)
        except ValueError as error:
            raise RegardError(f"{example.name}: {error}") from error
        framed = tokenizer.frame(ids, most)
        unknown: dict[int, str] = {}
        if self.fitted.spelled and tokenizer.unknown in framed:
            parts, first = tokenizer.split(text), len(tokenizer.prefix)
            places = np.flatnonzero(framed == tokenizer.unknown).tolist()
            unknown = {place: parts[place - first] for place in places}
        found = {"ids": framed.astype(tokenizer.dtype), "unknown": unknown}
        if example.row and len(ids) > most:
            found["notes"] = (f"texts have more tokens than the {most:,} that the model reads from the first on",)
        return found

    def length_of(self, encoded: Encoded) -> int:
        return min(len(encoded["ids"]), self.config.context)

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        most = self.config.context
        tokens, real = pad_rows([row["ids"] for row in rows], most)
        inputs: dict[str, Any] = {"tokens": tokens, "real": real}
        if self.fitted.spelled:
            spelling = torch.zeros(*tokens.shape, LONGEST_SPELLING, dtype=torch.int32)
            for row, text in zip(spelling, rows, strict=True):
                found = torch.from_numpy(self.spelling(_cut(text, most)))
                row[: len(found)] = found
            inputs["spelling"] = spelling
        return Batch(inputs, size=tokens.numel())

    def explain(self, model: nn.Module, encoded: Encoded) -> Evidence | None:
        if not isinstance(model, Additive):
            return None
        batch = self.collate([encoded])
        more: dict[str, Tensor] = {"spelling": batch["spelling"]} if self.fitted.spelled else {}
        names = self._names(batch["tokens"])
        return evidence_of(model, batch["tokens"], names, self.target.classes, self.target.numbers, **more)

    @property
    def tokenizer(self) -> Tokenizer:
        found: Tokenizer = self.fitted.tokenizer
        return found

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self.tokenizer)

    # ── showing

    def introduce(self, examples: Examples, i: int) -> str:
        return f"{_line_of(examples.names(i)).capitalize()} of {Path(examples.what).name}"

    def show(self, example: Example) -> ShownExample:
        return ShownExample(name=_line_of(example.name), text=example.inputs["text"])

    def from_kept(self, kept: Mapping[str, Any]) -> Example | None:
        return Example({"text": str(kept["text"])}, name=str(kept["name"]))

    def from_inputs(self, inputs: Mapping[str, Any]) -> Example | None:
        ids = next(iter(inputs.values()))[0].clamp(max=self.tokenizer.size - 1)
        return Example({"text": self.tokenizer.decode(ids.numpy())})

    def model_input(
        self, example: Example, encoded: Encoded, batch: Batch, model: nn.Module, file: str | None
    ) -> ModelInput:
        gate = getattr(model, "gate", None)
        return TextInput(
            inputs={name: x for name, x in batch.items() if name != "real"},
            streams=(Tokens("tokens", self._names(batch["tokens"])),),
            ids="tokens",
            spelling="spelling" if "spelling" in batch else None,
            text=example.inputs["text"],
            notes=(_say_gate(gate),) if isinstance(gate, Gate) else (),
        )

    def _names(self, tokens: Tensor) -> tuple[str, ...]:
        """The texts of the tokens of one text.   1 n"""
        return tuple(map(self.tokenizer.called, tokens[0].tolist()))

    # ── files

    def save(self, run: Run) -> None:
        self.fitted.save(run)

    def load(self, run: Run) -> Self:
        if not run.tokenizer_file.exists():
            raise RegardError(f"{run.path} has no tokenizer, so it cannot read texts")
        tokenizer = load(run.verify("tokenizer.json"))
        return replace(self, fitted=replace(self.fitted, tokenizer=tokenizer))


def _is_table_file(given: str) -> bool:
    return is_given_file(given) and is_table(given)


def _cut(row: Encoded, most: int) -> TokenIds:
    """As many tokens of a text as the model reads."""
    return TokenIds(row["ids"][:most], {place: word for place, word in row["unknown"].items() if place < most})


def _line_of(name: str) -> str:
    """line 5 of line 5 of reviews.csv"""
    return name.partition(" of ")[0]


def _say_gate(gate: Gate) -> str:
    """How much of the prediction attention can tell."""
    opened, surer = gate.weights
    return (
        "The logits are those of a bag of words and character n-grams plus "
        f"{say_number((opened / surer).item(), 2)} times those of the blocks. Attention and gradient × input show "
        "the blocks alone; leave one out shows both."
    )

"""How a run reads a sentence and its translation, to be looked at."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from regard.data.tokenizer import Tokenizer
from regard.look.model_input import Tokens
from regard.look.token_streams import number_words
from regard.models.seq2seq import Seq2Seq
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.reader import ORDER, TARGET, TEXT, TextReader, as_text
from regard.recipes.translation.pairs import join_words
from regard.recipes.translation.processor import PairProcessor
from regard.recipes.translation.search import SearchOptions, translate
from regard.recipes.translation.vocabulary import BEGIN, END, describe_unknown
from regard.runs.run import Run

FIRST_WORDS = "A man rides a horse."
WRITTEN = "The model wrote the target itself, by beam search; --target shows another."
HELD_OUT = "This sentence is from the data and was held out from training; --input shows one of yours."


class PairReader(TextReader):
    """Reads a source, and a target that is given or that the model finds."""

    takes_target = True
    controls = (TEXT, TARGET, ORDER)

    def __init__(self, run: Run, model: nn.Module, processor: PairProcessor) -> None:
        assert isinstance(model, Seq2Seq)
        self.run, self.model, self.processor = run, model, processor
        self.longest = model.limit

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> TextInput:
        notes: tuple[str, ...] = ()
        if given is None:
            text, notes = self._example()
        else:
            text = join_words(as_text(given))
        vocabulary = self.processor.vocabulary
        notes = (*notes, *_note_unknown("source", vocabulary.source, text))
        source = vocabulary.encode_source(text)
        self.check_length(len(source) - 1, "the text")
        self.check_length(len(source), "the text")
        asked = None
        if target is None or not target:
            (found,) = translate([self.model], self.processor, [source], SearchOptions())
            written = vocabulary.encode_target(found[0].text)
            notes = (*notes, WRITTEN)
        else:
            asked = join_words(as_text(target))
            written = vocabulary.encode_target(asked)
            notes = (*notes, *_note_unknown("target", vocabulary.target, asked))
        ids = [vocabulary.begin, *written.tolist()[:-1]]
        self.check_length(len(ids), "the target")
        return TextInput(
            inputs={"source": torch.from_numpy(source)[None], "target": torch.tensor([ids])},
            streams=(
                _name_tokens("target", map(vocabulary.name_target, ids)),
                _name_tokens("source", map(vocabulary.name_source, source.tolist())),
            ),
            ids="target",
            text=text,
            target=asked,
            answers="next",
            called=vocabulary.name_target,
            notes=notes,
        )

    def _example(self) -> tuple[str, tuple[str, ...]]:
        """The first sentence of the last sample of the run."""
        written = self.run.samples()
        if not written:
            return FIRST_WORDS, ()
        return written[-1][1].splitlines()[0].strip(), (HELD_OUT,)


def _note_unknown(side: str, tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    unknown = describe_unknown(tokenizer, text)
    return () if unknown is None else (f"{side}: {unknown}",)


def _name_tokens(name: str, labels: Iterable[str]) -> Tokens:
    named = tuple(labels)
    return Tokens(name, named, words=number_words(named, (BEGIN, END)))

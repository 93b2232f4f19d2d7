"""Which pairs to read, how they become tokens, and default settings: small models for made pairs, larger ones for
sentences."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from regard import registry
from regard.config import Length, Rare, Share, Size, Vocab, config
from regard.data.dialect import TableConfig
from regard.data.splits import SplitConfig, check_splits
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.settings import Settings, check_choice, settings_of_kind
from regard.recipes.translation.made_pairs import MADE
from regard.training.config import TrainConfig

UNKNOWN = 1  # stands for a size that follows from the data


@config
class PairsConfig(TableConfig, SplitConfig):
    """Which pairs to read, and how to split them into tokens and batches."""

    unit: ClassVar[str] = "pairs"
    paths: ClassVar[tuple[str, ...]] = ("path", "beside")

    # a table, a folder with train.en and train.de, or a file (see beside); dates or reverse: made pairs; None: dates
    path: str | None = None
    beside: str | None = None  # the other side of the file `path`: line i is the translation of line i
    source: str | None = None  # the column, or the language of files, to translate from; None: guess
    target: str | None = None  # the column, or the language of files, to translate to; None: guess
    pairs: Size = 40_000  # number of made pairs
    # auto: characters for dates and few pairs, words to reverse numbers, otherwise bpe
    tokens: Literal["auto", "characters", "bytes", "words", "bpe"] = "auto"
    vocabulary: Vocab = 8000  # largest vocabulary of words and bpe
    # shared: one vocabulary for both sides; separate: one for each
    vocabularies: Literal["shared", "separate"] = "shared"
    context: Length = 128  # longest side in tokens, its end included
    # pairs with an empty side, or with more tokens than `context`: skip and count them, or refuse the data
    wrong: Literal["skip", "refuse"] = "skip"
    # training pairs whose source is also in the validation or test split
    repeated: Literal["drop", "keep"] = "drop"
    # most tokens in a batch: pairs times the longer side, padding included; train.batch is the most pairs
    batch_tokens: Rare[Length] = 2048
    smoothing: Rare[Share] = 0.1  # share of each target token that is given to all tokens alike
    # validation pairs that are translated greedily at each evaluation in training, for their BLEU and the share that
    # is exactly right; 0: none
    bleu_pairs: Rare[Annotated[int, Field(ge=0, le=2**22)]] = 200

    def __post_init__(self) -> None:
        check_splits(self, self.unit)
        if self.batch_tokens < self.context:
            raise RegardError(
                f"a batch must hold the longest pair: batch_tokens is {self.batch_tokens}, below "
                f"context={self.context}; use --data.batch-tokens {self.context} or more"
            )
        if self.beside is not None and (self.path is None or is_made(self.path)):
            raise RegardError(f"--data.beside {self.beside} goes with a file; give that with --data FILE")


def is_made(data: Any) -> bool:
    """Is this the name of made pairs? A file of that name is read."""
    return isinstance(data, str) and data in MADE and not os.path.exists(data)


# ── defaults

# what a person types -> the name in the registry
KINDS = {"transformer": "encoderdecoder", "lstm": "lstmseq2seq", "gru": "gruseq2seq", "conv": "convseq2seq"}
# of made pairs, whose rule a small model learns whole
SMALL: dict[str, dict[str, Any]] = {
    "encoderdecoder": {"dim": 128, "depth": 2, "heads": 4, "dropout": 0.0, "zero_start": True},
    "lstmseq2seq": {"dim": 128, "depth": 1, "dropout": 0.0},
    "gruseq2seq": {"dim": 128, "depth": 1, "dropout": 0.0},
    "convseq2seq": {"dim": 128, "depth": 4, "dropout": 0.0, "position": "sinusoidal"},
}
# of sentences, of which there are never enough (of Multi30k the smallest model wins)
LARGE: dict[str, dict[str, Any]] = {
    "encoderdecoder": {"dim": 128, "depth": 4, "heads": 4, "dropout": 0.1, "zero_start": True},
    "lstmseq2seq": {"dim": 256, "depth": 1, "dropout": 0.3},
    "gruseq2seq": {"dim": 256, "depth": 1, "dropout": 0.3},
    "convseq2seq": {"dim": 256, "depth": 4, "dropout": 0.3},
}


def data_section(data: Any) -> PairsConfig:
    """The data section for a path, the name of made pairs, None (dates), or pairs in memory."""
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    pairs = PairsConfig(path=path)
    if data is None or is_made(path):
        return replace(pairs, context=64, smoothing=0.0, validation=0.025, test=0.025)
    return pairs


def choose_defaults(data: PairsConfig, examples: Examples | None, kind: str | None) -> Settings:
    """Settings for these pairs and this kind of model, which may be given by either name. examples: None if nothing was
    read"""
    made = data.path is None or is_made(data.path)
    if examples is not None:
        made = examples.draw is not None
    # (tested on longer lists than it learned from, a recurrent model goes on where a transformer fails)
    kind = kind or ("lstm" if made and data.path == "reverse" else "transformer")
    if kind not in SMALL:
        check_choice("kind of model for pairs", kind, tuple(KINDS))
        kind = KINDS[kind]
    sizes = (SMALL if made else LARGE)[kind]
    model = registry.find("models", kind).Config(**sizes, vocab=UNKNOWN, context=UNKNOWN)
    train = TrainConfig(minutes=15.0, batch=256, average=0.998, warmup=100)
    if made:
        train = TrainConfig(minutes=2.0, batch=128)
    return settings_of_kind(kind, PairsConfig)(data=data, model=model, train=train)

"""Which text to read, and how to split it into tokens: the data sections of the settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from regard.config import Amount, Length, Rare, Share, Vocab, config
from regard.data.dialect import TableConfig
from regard.data.splits import Folds, SplitConfig, check_splits
from regard.errors import RegardError
from regard.models.decoder import DecoderConfig
from regard.recipes.settings import Settings
from regard.recipes.supervised import SupervisedConfig

TokenChoice = Literal["auto", "characters", "bytes", "words", "bpe"]
ENOUGH = 1_000_000  # bytes from which a test split is cut unless somebody says otherwise
TESTED, LARGEST_TEST = 60_000, 0.05  # bytes that are enough to test a small model, and their largest share


@config
class TextConfig(SplitConfig):
    """Which text to read, and how to split it into tokens and windows."""

    paths: ClassVar[tuple[str, ...]] = ("path", "tokenizer")

    path: str | None = None  # a file, a folder or a glob; None: the source of Python's standard library
    tokens: TokenChoice = "auto"  # auto: characters for small texts, bpe for large ones
    tokenizer: str | None = None  # a tokenizer.json (ours or Hugging Face's) to use instead
    vocabulary: Vocab = 8192  # largest vocabulary of words and bpe
    context: Length = 256  # tokens per window
    validation: Share = 0.1  # share of the text, before the test split at its end, in the validation split
    # share of the text, at its end, in the test split, evaluated once, after training; None: a twentieth, but at
    # most about 60,000 bytes, if there is a megabyte or more
    test: Share | None = None
    folds: Rare[Folds | None] = None  # a language model has no folds: its text is one row
    sample: Rare[Amount] = 100.0  # megabytes of text, drawn by the seed, from which words and bpe are learned

    def __post_init__(self) -> None:
        check_tokens(self)
        check_splits(self, "text")
        if self.folds is not None:
            raise RegardError(
                "a language model learns from one row of text in its order, which cannot be cut into "
                f"{self.folds} folds; use --train.seeds {self.folds} instead, which trains it {self.folds} times"
            )

    def share_of_test(self, size: int) -> float:
        """The share of the test split in a text of so many bytes."""
        if self.test is not None:
            return self.test
        if size < ENOUGH:
            return 0.0
        return min(LARGEST_TEST, round(TESTED / size, 4))


@config
class LabelledTextConfig(TableConfig, SupervisedConfig):
    """Which table to read, and how to split its texts into tokens."""

    unit: ClassVar[str] = "rows"
    paths: ClassVar[tuple[str, ...]] = ("path", "tokenizer")

    path: str | None = None  # a CSV, TSV, JSONL or Parquet file; None: the table was in memory
    text: str = "text"  # the column (JSONL: the key) with the text
    label: str = "label"  # the column with the label
    # rows without a text or a label (empty, NA, N/A, NaN, null, ?): an error, or left out and counted
    missing: Literal["refuse", "drop"] = "refuse"
    tokens: TokenChoice = "auto"  # auto: words, or characters for languages without spaces between words
    tokenizer: str | None = None  # a tokenizer.json (ours or Hugging Face's) to use instead
    vocabulary: Vocab = 8192  # largest vocabulary of words and bpe
    context: Length = 256  # tokens per text; longer texts are cut off
    sample: Rare[Amount] = 100.0  # megabytes of text, drawn by --data.seed, from which bpe is learned

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tokens(self)
        if self.text == self.label:
            raise RegardError(f"text and label must be different columns, got '{self.text}' for both")


@config
class ChatConfig(SplitConfig):
    """Which conversations to read, and how they become tokens."""

    paths: ClassVar[tuple[str, ...]] = ("path", "tokenizer", "template")

    path: str  # a JSONL file: rows with `messages`, or with `prompt` and `answer`
    # how messages become a text: a chat_template.jinja, a tokenizer_config.json, or their folder; None: the template
    # of the run that it starts from, or a plain one
    template: str | None = None
    tokens: TokenChoice = "auto"  # auto: bytes for small files, bpe for large ones; both know every letter
    tokenizer: str | None = None  # a tokenizer.json (ours or Hugging Face's) to use instead
    vocabulary: Vocab = 8192  # largest vocabulary of words and bpe
    context: Length = 512  # tokens per row; longer conversations are cut off
    sample: Rare[Amount] = 100.0  # megabytes of text, drawn by the seed, from which bpe is learned

    def __post_init__(self) -> None:
        check_tokens(self)
        check_splits(self, "conversations")


@config
class TextEvaluateOptions:
    """How a language model is evaluated: options of `regard evaluate` that only runs of text have."""

    # tokens before a segment that a causal LM sees; 0: none; None: as many as in training
    memory: Annotated[int, Field(ge=0, le=2**22)] | None = None

    def apply(self, settings: Settings) -> Settings:
        """The settings of a run, with this memory."""
        if self.memory is None:
            return settings
        if not isinstance(settings.model, DecoderConfig):
            raise RegardError(
                f"--memory {self.memory} is for a causal LM with attention (--model decoder), and this run is "
                "none; leave it out"
            )
        return replace(settings, model=replace(settings.model, memory=self.memory))


def check_tokens(config: Any) -> None:
    """For `__post_init__`: raise if `tokens` contradicts `tokenizer`."""
    if config.tokenizer is not None and config.tokens != "auto":
        raise RegardError(f"tokens='{config.tokens}' and a tokenizer are both given; leave one of them out")

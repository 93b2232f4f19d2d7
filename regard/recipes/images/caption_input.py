"""An image, and words about it that a model reads or writes: captions, questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.look.model_input import Tokens
from regard.recipes.images.model_input import ImageInput


@dataclass(frozen=True, kw_only=True)
class CaptionInput(ImageInput):
    """One image with words. The first stream holds the words that look at it."""

    ids: str  # the input that holds these words
    along: tuple[str, ...] = ()  # inputs 1 n beside them: a mask
    merges: bool = False  # does the model merge patches from stage to stage?
    # what is written at the place of each word; None: words are only read, as a question is
    writes: tuple[str, ...] | None = None
    target: str | None = None  # the words that were given

    @property
    def words(self) -> Tokens:
        return self.streams[0]

    def with_another_length(self) -> dict[str, Any]:
        """The inputs with one word less, or, of a single word, with one more: what follows the words and what
        does not can be told apart."""
        count = len(self.words.labels)
        places = list(range(count - 1)) if count > 1 else [0, 0]
        return self.inputs | {name: self.inputs[name][:, places] for name in (self.ids, *self.along)}

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"target": self.target}

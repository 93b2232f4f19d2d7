"""A model that no recipe trained: its inputs, and how text or an image becomes them.

Code that opens such a model fills this in (`targets/` for Hugging Face), and a recipe that knows such inputs
reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from regard.symmetry.roles import Roles


class TextProcessor(ABC):
    """How text becomes the inputs of a model, and what its tokens and classes are called."""

    ids: str  # the input that holds token ids
    target: str | None = None  # the input of a decoder; None: there is none
    along: tuple[str, ...] = ()  # inputs 1 n beside the ids: masks, types
    answers: Literal["next", "filled", "classes"]
    longest: int | None = None  # largest number of tokens
    notes: tuple[str, ...] = ()
    example: str | None = None  # a text to show when none is given; None: a sentence

    @abstractmethod
    def encode(self, text: str) -> dict[str, Any]:
        """The inputs of this text, by name."""

    @abstractmethod
    def encode_target(self, text: str) -> Tensor:
        """What a decoder reads while it writes this text.   1 n"""

    @abstractmethod
    def write_target(self, inputs: Mapping[str, Any]) -> Tensor:
        """What a decoder reads when it has written what it would write itself.   1 n"""

    @abstractmethod
    def called(self, id: int) -> str:
        """A token as it stands in a text: with the space before it, if there is one."""

    @abstractmethod
    def label(self, number: int) -> str:
        """The name of a class."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pixels:
    """An image as a model takes it, and what undoes its scaling: x · deviation + mean is in 0 … 1."""

    x: Tensor  # 1 c h w
    mean: Tensor  # c 1 1
    deviation: Tensor  # c 1 1


@dataclass(frozen=True)
class WindowStage:
    """Layers that attend within windows, on one grid. Every second one is shifted by half a window."""

    layers: tuple[str, ...]  # dotted names
    window: int  # the sides of a window, in tokens


class ImageProcessor(ABC):
    """How an image becomes the input of a model."""

    pixels: str  # the input that holds it
    patch: tuple[int, int] | None = None  # sides of a patch; None: the model has none
    stages: tuple[WindowStage, ...] = ()  # of a model that attends within windows; sides are halved between stages
    merges: bool = False  # are patches merged from stage to stage?
    classifies: bool = False

    @abstractmethod
    def process(self, image: Any) -> Pixels:
        """An RGB image of pillow's as the model takes it."""

    @abstractmethod
    def label(self, number: int) -> str:
        """The name of a class."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedCaption:
    """An image and words as a model takes them."""

    inputs: dict[str, Any]
    ids: list[int]  # of the words that look at the image
    name: str  # the input that holds them
    along: tuple[str, ...] = ()  # inputs 1 n beside it
    writes: list[int] | None  # what is written at the place of each; None: they are only read


class CaptionProcessor(ABC):
    """How an image and words become the inputs of a model: one that writes a caption, or one that is asked a
    question."""

    image: ImageProcessor
    writes: bool  # a caption; False: it reads a question
    longest: int | None = None  # largest number of words
    notes: tuple[str, ...] = ()

    @abstractmethod
    def prepare(self, pixels: Tensor, text: str | None) -> PreparedCaption:
        """The inputs for this image (1 c h w) and these words; None: those that the model writes, or a
        question of our own."""

    @abstractmethod
    def called(self, id: int) -> str:
        """A word as it stands in a text."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignModel:
    """A model that no recipe trained, with inputs for it."""

    model: nn.Module
    inputs: Mapping[str, Any]
    roles: Roles | None = None  # what each input is; None: what the model itself says, or a guess
    text: TextProcessor | None = None
    image: ImageProcessor | None = None
    caption: CaptionProcessor | None = None
    random: bool = False  # are the inputs random numbers?

"""An image as a model takes it: pixels, and the grid of patches that a model cuts it into, or that it is
asked about."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.data import image_files as files
from regard.errors import RegardError
from regard.files import open_regular
from regard.look.contribution import tensor_of
from regard.look.model_input import Action, Grid, ModelInput, Moved, Parts, Removal, Tokens, Window
from regard.look.recording.entry import Entry
from regard.look.thumbnails import Sheets
from regard.recipes.images.attention_maps import windows_of
from regard.recipes.images.feature_maps import penultimate
from regard.recipes.images.windows import MOST_BEFORE, WindowLayout, grid_of

ROLLED = "the image moves by {} and comes in again at the other side"
GREY = "0 as the model takes pixels: the mean colour of the training images, if they were scaled to it"
GREYED = f"Its pixels become grey, which is {GREY}."
TURNED = "the image turns by quarter turns"


@dataclass(frozen=True, kw_only=True)
class ReferenceImages:
    """Other images of the same kind, to see where one stands among them."""

    what: str  # they are, in the plural
    x: Tensor  # n c h w: what the model takes
    images: Tensor  # n 3 h w in 0 … 1
    labels: tuple[str, ...]  # the class of each
    names: tuple[str, ...]  # what each is called


@dataclass(frozen=True, kw_only=True)
class MultiView:
    """A prediction that takes more than one look at an image."""

    views: str  # how many there are, and which: "5 views (shifts)"
    predict: Callable[
        [Callable[[Tensor], Any], Tensor], Tensor
    ]  # a model and its pixels -> log-probabilities, b classes


@dataclass(frozen=True, kw_only=True)
class ImageInput(ModelInput):
    """One image."""

    kind: ClassVar[str] = "image"

    pixels: str = "pixel_values"  # the input that holds it
    image: Tensor  # what the model sees, as 3 h w in 0 … 1
    grid: tuple[int, int]  # rows and columns of patches: the model's own, or those that are asked about
    # sides of a patch, the last ones of which may be cut off; None: the grid cuts it evenly
    patch: int | None = None
    # a field of the grid: taken whole by the model, or only asked about
    piece: Literal["patch", "part"] = "patch"
    cuts: tuple[WindowLayout, ...] = ()  # of a model that attends within windows, where it does not say so itself
    # what the prediction is made from; None: a class token, if one is there
    reads: Literal["class", "mean"] | None = None
    crowd: Callable[[], ReferenceImages | None] | None = None  # other images to compare with
    judged: MultiView | None = None  # None: what the model returns is its prediction

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"views": None if self.judged is None else self.judged.views}

    @torch.no_grad()
    def answer(self, model: nn.Module, out: Any) -> Any:
        """What is predicted after several looks, as `regard predict` does it.   1 classes"""
        if self.judged is None:
            return out
        return self.judged.predict(lambda x: tensor_of(model(**self.with_pixels(x))), self.inputs[self.pixels])

    def parts(self, model: nn.Module) -> Parts:
        occluded = OfPatches(model, self)
        gone = f"greyed out (grey is {GREY})"
        return Parts(model=occluded, x=occluded.all_there(), name=self.piece, gone=gone, fill=0.0)

    def removal(self) -> Removal:
        return Removal("box", tuple(self.inputs[self.pixels].shape[-2:]), "pixel", GREYED)

    def without(self, region: Sequence[int]) -> ImageInput:
        """The image with a grey rectangle: top, left, bottom, right."""
        pixels = self.inputs[self.pixels]
        height, width = pixels.shape[-2:]
        if len(region) != 4:
            raise RegardError(f"a rectangle is top, left, bottom and right, got {len(region)} numbers")
        top, left, bottom, right = region
        if not (0 <= top < bottom <= height and 0 <= left < right <= width):
            raise RegardError(
                f"a rectangle lies in the {height} × {width} pixels and has at least one, got rows {top} to "
                f"{bottom} and columns {left} to {right}"
            )
        grey = pixels.clone()
        grey[..., top:bottom, left:right] = 0
        return replace(self, inputs=self.inputs | {self.pixels: grey})

    def actions(self, model: nn.Module) -> Iterator[Action]:
        """Shifts by whole patches, and quarter turns."""
        pixels = self.inputs[self.pixels]
        step = self.patch or pixels.shape[-1] // self.grid[1]
        moves = [k * step for k in range(1, min(4, self.grid[1]))]
        rolled = {f"{move} pixel{'s' * (move > 1)} to the right": pixels.roll(move, -1) for move in moves}
        if self.patch is None:
            far = f"{step} pixel{'s' * (step > 1)}"
        else:
            far = f"whole patches of {step} pixels"
        yield Action("roll the image", ROLLED.format(far), self._with_each(rolled))
        if pixels.shape[-1] == pixels.shape[-2]:
            turned = {f"{90 * k}°": pixels.rot90(k, (-2, -1)) for k in (1, 2, 3)}
            yield Action("turn the image", TURNED, self._with_each(turned))

    def _with_each(self, moved: Mapping[str, Tensor]) -> list[Moved]:
        return [Moved(label, replace(self, inputs=self.inputs | {self.pixels: x}), None) for label, x in moved.items()]

    def stream(self, size: int) -> Tokens | None:
        """Patches, with a class token and registers before them."""
        rows, columns = self.grid
        before = size - rows * columns
        if not 0 <= before <= MOST_BEFORE:
            return None
        first = ["class", *(f"register {i}" for i in range(1, before))][:before]
        patches = [f"row {r + 1}, column {c + 1}" for r in range(rows) for c in range(columns)]
        name = "patches" if self.piece == "patch" else f"{self.piece}s"
        return Tokens(name, (*first, *patches), "patches", Grid(rows, columns, before))

    def windows(self, model: nn.Module, seen: Sequence[Entry]) -> Mapping[str, Sequence[Window]]:
        return windows_of(model, seen, self)

    def embeddings(
        self, model: nn.Module, sheets: Sheets, item: Callable[..., dict[str, Any]]
    ) -> dict[str, Any] | None:
        """The image among others, as the last layer reads them, in the colours of their classes, with
        thumbnails."""
        crowd = None if self.crowd is None else self.crowd()
        if crowd is None or (self.called is None and self.number is None):
            return None
        points, outputs = penultimate(model, self.pixels, torch.cat((self.inputs[self.pixels], crowd.x)))
        labels = ["this image", *crowd.names]
        number = sheets.laid_out(torch.cat((self.image.expand(3, -1, -1)[None], crowd.images)))
        return item(crowd.what, points, labels) | {
            "groups": ["this image", *crowd.labels],
            "said": [self._say(row) for row in outputs],
            "thumbs": {"sheet": number, "cells": list(range(len(labels)))},
        }

    def _say(self, output: Tensor) -> str:
        """A prediction in words.   classes or 1"""
        if self.number is not None:
            return self.number.format(float(output[0]))
        assert self.called is not None
        return self.called(int(output.argmax()))

    def thumbnails(self, tokens: int, sheets: Sheets) -> dict[str, Any] | None:
        """Patches as parts of the image itself, where it can be cut evenly."""
        grid = grid_of(tokens, self.grid)
        if grid is None or self.image.shape[-2] % grid[0] or self.image.shape[-1] % grid[1]:
            return None
        count = grid[0] * grid[1]
        return {"sheet": sheets.cut(self.image, grid), "cells": [None] * (tokens - count) + list(range(count))}

    def with_pixels(self, pixels: Tensor) -> dict[str, Any]:
        """The inputs with other images.   b c h w"""
        return self.for_rows(len(pixels)) | {self.pixels: pixels}


# ── images that a person gives: opened with care, because a file can be anything

CELLS = 8  # in a row, at most
LARGEST_FILE = 20 * 2**20  # bytes


def open_image(given: str | bytes) -> Any:
    """An image from a file, or from its bytes: upright, opaque, RGB."""
    name = given if isinstance(given, str) else "the image"
    if isinstance(given, str):
        if not os.path.isfile(given):
            raise RegardError(f"there is no image {given!r}; give the path of an image file")
        with open_regular(given) as file:
            given = file.read(LARGEST_FILE + 1)
    if len(given) > LARGEST_FILE:
        raise RegardError(f"{name} has more than {LARGEST_FILE:,} bytes; make it smaller")
    with files.readable(name), files.open_image_file(given, name) as image:
        files.small_enough(image, name)
        return files.to_channels(image, 3, name)


def patch_grid(height: int, width: int, patch: int | None = None) -> tuple[int, int]:
    """Rows and columns of the parts that are asked about: a model's patches, or parts of our choice where it
    has none."""
    rows, columns = (-(-side // (patch or -(-side // CELLS))) for side in (height, width))
    return rows, columns


def placeholder_image() -> Any:
    """An image to look at when none is given: a red disc and a blue square on sand."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (256, 256), (235, 225, 200))
    pen = ImageDraw.Draw(image)
    pen.ellipse((30, 40, 130, 140), fill=(200, 50, 40))
    pen.rectangle((140, 130, 230, 220), fill=(40, 70, 170))
    return image


# ── words beside an image


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


# ── a model as a function of how much of each patch is there


class OfPatches(nn.Module):
    """How much of each patch is there, b n from 0 to 1 -> what the model returns for an image whose rest is
    grey.

    Grey is 0: the mean of what the model learned from, where its inputs are scaled to it.
    """

    patch: Tensor

    def __init__(self, model: nn.Module, given: ImageInput) -> None:
        super().__init__()
        self.model, self.given, self.pixels = model, given, given.inputs[given.pixels]
        down, across = (
            torch.arange(size) // (given.patch or -(-size // count))
            for size, count in zip(self.pixels.shape[-2:], given.grid, strict=True)
        )
        # h w: in which one each pixel is
        self.patch = (down[:, None] * given.grid[1] + across).to(self.pixels.device)

    def all_there(self) -> Tensor:
        """The image as it is.   1 n"""
        return self.pixels.new_ones(1, self.given.grid[0] * self.given.grid[1])

    def forward(self, there: Tensor) -> Any:
        return self.model(**self.given.with_pixels(self.pixels * there[:, None, self.patch]))

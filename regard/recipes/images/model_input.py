"""An image as a model takes it: pixels, and the grid of patches that a model cuts it into, or that it is
asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.look.contribution import tensor_of
from regard.look.model_input import Action, Grid, ModelInput, Moved, Parts, Removal, Tokens, Window
from regard.look.recording.entry import Entry
from regard.look.thumbnails import Sheets
from regard.recipes.images.attention_maps import windows_of
from regard.recipes.images.occlusion import OfPatches
from regard.recipes.images.penultimate import penultimate
from regard.recipes.images.window_layout import MOST_BEFORE, WindowLayout, grid_of

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
        if self.piece == "patch":
            name = "patches"
        else:
            name = f"{self.piece}s"
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

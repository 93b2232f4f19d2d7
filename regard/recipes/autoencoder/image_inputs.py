"""Images as inputs, read by the processor of images, and sheets of those that a model makes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard import files
from regard.data.array import Array
from regard.data.batch import Batch
from regard.data.image_files import pillow
from regard.look.model_input import ModelInput
from regard.recipes.autoencoder.config import Binarise, Form
from regard.recipes.autoencoder.processor import InputsProcessor, Output
from regard.recipes.example import Example, Examples
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.model_input import ImageInput, patch_grid
from regard.recipes.images.processor import ImagesFitted, ImagesProcessor, measure_light
from regard.recipes.images.read_images import find_images
from regard.recipes.processor import Encoded, Take, Want

WHITE = 255
GAP = 1  # pixels between two images of a sheet
LEAST = 56  # pixels of the side of an image on a sheet: smaller ones are enlarged by a whole number
SHARED = ("path", "image", "label", "size", "channels", "fit", "damaged", "decoded")  # settings of images
BINARISED = {
    "none": (),
    "dynamic": (
        "pixels are drawn black or white anew in each batch (--data.binarise dynamic): figures cannot be "
        "compared with those of fixed or grey pixels",
    ),
    "threshold": ("pixels are black or white, cut at a half (--data.binarise threshold)",),
}


@dataclass(frozen=True, eq=False)
class ImageInputs(InputsProcessor[ImagesFitted]):
    """Images are kept as bytes. The model takes numbers from 0, black, to 1, white; or zeros and ones."""

    Fitted: ClassVar[type] = ImagesFitted
    stacked: ClassVar[tuple[str, str] | None] = ("x", "uint8")
    encodes_by: ClassVar[tuple[str, ...]] = ("size", "channels", "fit")
    takes_bytes: ClassVar[bool] = True
    form: ClassVar[Form] = "images"
    unit: ClassVar[str] = "images"
    one: ClassVar[str] = "an image"
    writes: ClassVar[Mapping[str, str]] = {".png": "a sheet", ".npz": "arrays"}
    ending: ClassVar[str | None] = ".png"
    example_file: ClassVar[str] = "sheet.png"

    def is_one(self, given: Any) -> bool:
        return self.images.is_one(given)

    @cached_property
    def images(self) -> ImagesProcessor:
        """What reads and decodes them, by the same settings."""
        shared: dict[str, Any] = {name: getattr(self.config, name) for name in SHARED}
        return ImagesProcessor(ImagesConfig(**shared, asks="classes"), self.fitted)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.fitted.channels, self.fitted.size, self.fitted.size)

    # ── reading and fitting

    def read(self, data: Any, *, want: Want) -> Examples:
        if want == "use":
            found = self.images.read(data, want="use")
            return replace(found, titles=found.names)
        found = find_images(data, self.images.config, labelled=False)
        return replace(found, about={**found.about, "form": self.form})

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        return replace(self, fitted=self.images.fit(examples, train, model, None).fitted)

    def keep(self, examples: Examples) -> Literal["memory", "disk", "none"]:
        return self.images.keep(examples)

    def leave_out(self, errors: Mapping[int, str]) -> tuple[str, ...]:
        return self.images.leave_out(errors)

    def measure(self, take: Take, train: Array, codes: Array) -> tuple[Self, tuple[str, ...]]:
        mean, deviation = measure_light(take, train)
        return replace(self, fitted=replace(self.fitted, mean=mean, deviation=deviation)), ()

    def notes(self, examples: Examples, train: Array) -> tuple[str, ...]:
        return BINARISED[self.config.binarise]

    def model_config(self, model: Any) -> Any:
        return replace(model, shape=self.shape, mean=self.fitted.mean, deviation=self.fitted.deviation)

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        return self.images.encode(example)

    def numbers(self, x: Tensor, random: torch.Generator | None = None) -> Tensor:
        return _to_numbers(x, self.config.binarise, random)

    def finish(self, batch: Batch, *, training: bool) -> Batch:
        """An image that is given becomes black and white at a half, and never by chance."""
        return batch.replace(x=_to_numbers(batch["x"], "none" if self.config.binarise == "none" else "threshold"))

    # ── showing and writing

    def from_inputs(self, inputs: Mapping[str, Any]) -> Example | None:
        return Example({"image": np.ascontiguousarray(_to_bytes(inputs["x"][:1])[0])}, name="the image")

    def model_input(
        self, example: Example, encoded: Encoded, batch: Batch, model: nn.Module, file: str | None
    ) -> ModelInput:
        config: Any = model.config
        patch = config.patch if config.body == "vit" else None
        x = batch["x"]
        return ImageInput(
            inputs={"x": x},
            pixels="x",
            image=x[0].expand(3, -1, -1) if x.shape[1] == 1 else x[0],
            grid=patch_grid(x.shape[-2], x.shape[-1], patch),
            patch=patch,
            piece="part" if patch is None else "patch",
            reads=None if patch is None else "mean",
            name=file,
        )

    def write(self, made: Tensor, out: Path, columns: int | None = None) -> None:
        if out.suffix.lower() == ".npz":
            files.write_arrays(out, {"images": _to_bytes(made)})
            return
        files.write_bytes(out, _as_png(_lay_out(_to_bytes(made), columns)))

    def write_one(self, made: Tensor, out: Path) -> None:
        files.write_bytes(out, _as_png(_to_bytes(made[None])[0]))


def write_pairs(given: Tensor, made: Tensor, out: Output, across: int = 16) -> None:
    """A sheet with rows of what was given, and below each what came back.   n c h w"""
    across = min(across, len(given))
    rows = []
    for start in range(0, len(given), across):
        for part in (given, made):
            some = part[start : start + across]
            empty = torch.full((across - len(some), *some.shape[1:]), 0.5)
            rows.append(torch.cat((some, empty)))
    files.write_bytes(out, _as_png(_lay_out(_to_bytes(torch.cat(rows)), across)))


def _to_numbers(pixels: Tensor, binarise: Binarise, random: torch.Generator | None = None) -> Tensor:
    """Bytes as numbers from 0 to 1, or as zeros and ones.   b c h w"""
    x = pixels.float() / WHITE
    if binarise == "threshold":
        return (x >= 0.5).float()
    if binarise == "dynamic":
        return (torch.rand(x.shape, generator=random).to(x.device) < x).float()
    return x


def _to_bytes(made: Tensor) -> Array:
    """Numbers from 0 to 1 as bytes.   n c h w -> n h w, or n h w 3"""
    found = (made.clamp(0, 1) * WHITE).round().byte().numpy()
    if found.shape[1] == 1:
        return np.ascontiguousarray(found[:, 0])
    return np.ascontiguousarray(found.transpose(0, 2, 3, 1))


def _as_png(image: Array) -> bytes:
    """One image as a file.   h w, or h w 3"""
    out = io.BytesIO()
    pillow().fromarray(image).save(out, format="png")
    return out.getvalue()


def _lay_out(images: Array, columns: int | None = None) -> Array:
    """All images side by side, with a grey line between; small ones are enlarged.   n h w ... -> h' w' ..."""
    count, side = len(images), images.shape[1]
    columns = columns or max(1, ceil(sqrt(count)))
    rows, scale = -(-count // columns), max(1, -(-LEAST // side))
    step = side * scale + GAP
    sheet = np.full((rows * step + GAP, columns * step + GAP, *images.shape[3:]), WHITE // 2, dtype=np.uint8)
    for i, image in enumerate(images):
        top, left = (i // columns) * step + GAP, (i % columns) * step + GAP
        large = image.repeat(scale, 0).repeat(scale, 1)
        sheet[top : top + side * scale, left : left + side * scale] = large
    return sheet

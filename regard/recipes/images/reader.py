"""Images that a person gives: what all readers of images have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from regard.data.image_files import Damaged
from regard.data.splits import TRAIN, VALIDATION
from regard.look.model_input import ModelInput
from regard.look.reader import Control, Reader
from regard.look.view import View
from regard.recipes.example import Example, Examples
from regard.recipes.images.model_input import ReferenceImages, placeholder_image
from regard.recipes.images.processor import ImagesProcessor
from regard.recipes.images.views.features import FeaturesView
from regard.recipes.images.views.image import ImageView
from regard.recipes.supervised_reader import SupervisedReader
from regard.recipes.target import number_of

IMAGE = Control(name="image", type="file", label="Image", accept="image/*", media="image/", example="image/png")


class ImageReader(Reader):
    """What all readers of images have: a file can be given."""

    views: tuple[View, ...] = (ImageView(), FeaturesView())
    controls: tuple[Control, ...] = (IMAGE,)


# ── runs of ours: a file that somebody gives, or an image of the data, beside those of the validation split

HELD_OUT = "This image is from the data and was held out from training; --input shows one of yours."
OF_THE_DATA = "This image is from the data, and the model may have learned from it; --input shows one of yours."
DRAWN = "The data is not where it was, so this image was drawn for the purpose; --input shows one of yours."
TRIED = 20  # files, until one can be read
CROWD = 240  # images of the validation split, at most


class RunImageReader(SupervisedReader):
    """What is shown of a run of ours, with what is known of each image."""

    processor: ImagesProcessor

    def _of_the_run(self) -> ModelInput:
        """An image that the run kept; or one of the data, of those that are not for training if there are any."""
        kept = self._kept()
        if kept is not None:
            example, truth = kept
            return self._named(example, example.name, truth, HELD_OUT)
        with suppress(ValueError, OSError):
            return self._of_data(None)
        drawn = Example({"image": placeholder_image()}, name="the image")
        return replace(self._shown(drawn, None), notes=(DRAWN, *self._shown(drawn, None).notes))

    def _of_data(self, name: str | None) -> ModelInput:
        if not self.processor.is_readable():
            raise FileNotFoundError(f"the data of {self.run.path} was in memory")
        examples = self._examples
        splits = np.zeros(len(examples)) if examples.splits is None else examples.splits
        rows = np.argsort(splits != TRAIN, kind="stable")[::-1][:TRIED].tolist()
        if name is not None:
            rows = [self.processor.find(examples, name)]
        for i in rows:
            called = os.path.basename(examples.names(i))
            if examples.files is None:
                called = f"{called} of {examples.what}"
            said = OF_THE_DATA if splits[i] == TRAIN else HELD_OUT
            with suppress(Damaged):
                return self._named(examples[i], called, self._truth(examples, i), said)
        raise FileNotFoundError(f"{examples.what} has no image that can be read")

    def _given(self, examples: Examples, file: str | None) -> ModelInput:
        """What it shows is known if it is one of the data."""
        i = next(examples.readable())
        found = self._shown(examples[i], file)
        if file is None:
            return found
        with suppress(ValueError, OSError):
            data = self._examples
            for row in data.readable():
                name = data.names(row)
                if os.path.basename(name) == file and os.path.samefile(name, examples.names(i)):
                    return replace(found, truth=self._truth(data, row))
        return found

    def _named(self, example: Example, name: str, truth: str | None, said: str) -> ModelInput:
        found = self._shown(example, None)
        return replace(found, name=name, truth=truth, notes=(said, *found.notes))

    def _shown(self, example: Example, file: str | None) -> ModelInput:
        found: Any = self._meaning(self._input_of(example, file))
        return replace(found, crowd=lambda: self._crowd)

    def _truth(self, examples: Examples, i: int) -> str | None:
        target, cell = self.processor.target, examples.target_of(i)
        number = number_of(cell) if target.numbers else None
        return target.say_truth(cell) if number is None else f"{number:.6g}"

    # ── images beside it

    @cached_property
    def _crowd(self) -> ReferenceImages | None:
        """Images of the validation split, evenly taken; None if the data is gone, or if it is not the data that the run
        was trained on."""
        processor, counts = self.processor, self.run.config.counts or {}
        try:
            examples = self._examples
            codes = processor.target.encode(examples.cells, examples.what)
            splits = processor.draw_splits(examples, processor.target, codes, self.seed)
        except (ValueError, OSError):
            return None
        if counts.get("images") != len(examples):
            return None
        rows = np.flatnonzero(splits == VALIDATION)
        some = rows[np.linspace(0, len(rows) - 1, min(CROWD, len(rows))).round().astype(int)].tolist()
        pixels = {}
        for i in some:
            with suppress(ValueError, OSError):
                pixels[i] = processor.encode(examples[i])["x"]
        if len(pixels) < 3:
            return None
        images = torch.from_numpy(np.stack(list(pixels.values()))).float() / 255
        return ReferenceImages(
            what="validation images",
            x=processor.scale(images),
            images=images.expand(-1, 3, -1, -1),
            labels=self._groups(examples, list(pixels)),
            names=tuple(examples.names(i).replace("\\", "/").rpartition("/")[2] for i in pixels),
        )

    def _groups(self, examples: Examples, rows: Sequence[int]) -> tuple[str, ...]:
        """The class of each image, or in which quarter of the numbers its own is."""
        cells = [examples.target_of(i) for i in rows]
        if not self.processor.target.numbers:
            return tuple(map(str, cells))
        values = np.array([number_of(cell) for cell in cells])
        ends = np.quantile(values, (0, 0.25, 0.5, 0.75, 1))
        quarter = np.searchsorted(ends[1:-1], values, side="right")
        return tuple(f"{ends[i]:.4g} to {ends[i + 1]:.4g}" for i in quarter)

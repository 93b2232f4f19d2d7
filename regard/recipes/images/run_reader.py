"""Images for runs of ours: brought to the size and the light that the model learned from."""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.image_files import Damaged, Pixels, fit_square, read, to_channels
from regard.data.splits import TRAIN
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo, resize_all
from regard.recipes.images.labelled_images import LabelledImages, find_images
from regard.recipes.images.model_input import ImageInput, MultiView
from regard.recipes.images.multi_view import VIEWS, Views, average_numbers, average_views
from regard.recipes.images.open_image import patch_grid, placeholder_image
from regard.recipes.images.reader import ImageReader
from regard.recipes.images.show import WIDEST
from regard.recipes.images.validation_images import validation_images
from regard.runs.report_examples import first_example
from regard.runs.run import Run

HELD_OUT = "This image is from the data and was held out from training; --input shows one of yours."
OF_THE_DATA = (
    "This image is from the data, and the model may have learned from it; --input shows one of yours."
)
TRIED = 20  # files, until one can be read
DRAWN = "The data is not where it was, so this image was drawn for the purpose; --input shows one of yours."
SEVERAL = (
    "The prediction averages {} of the image, as regard predict does; where the model looks, what matters "
    "to the prediction and what else the page shows of its inside is of the image as it stands."
)


class Shown(NamedTuple):
    """The pixels of an image, what it is called, and what it is labelled with, as far as that is known."""

    pixels: Pixels  # c s s
    name: str | None = None
    truth: str | None = None
    notes: tuple[str, ...] = ()


class RunImageReader(ImageReader):
    """An image for a run of ours."""

    def __init__(self, run: Run, model: nn.Module) -> None:
        config: Any = model.config
        self.run = run
        self.data, info = run.section(ImagesConfig, "data"), run.section(ImagesInfo, "corpus")
        self.size, self.channels, self.labels, self.numbers = (
            info.size,
            info.channels,
            info.labels,
            info.numbers,
        )
        self.mean, self.deviation = (
            torch.tensor(each).view(-1, 1, 1) for each in (info.mean, info.deviation)
        )
        self.patch: int | None = getattr(config, "patch", None)
        self.grid = patch_grid(self.size, self.size, self.patch)
        self.reads: Any = getattr(config, "pool", None)
        if self.data.views == "one":
            self.judged = None
        else:
            self.judged = self.of_views(self.data.views)
        self.labelled = lru_cache(maxsize=1)(
            partial(
                find_images, self.data.path, self.data.image, self.data.label, self.data.names, self.data.asks
            )
        )
        self.crowd = lru_cache(maxsize=1)(partial(validation_images, run, self.scaled))

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> ImageInput:
        if given is None:
            shown = self.example()
        else:
            shown = self.of_file(given)
        pixels = shown.pixels
        return ImageInput(
            inputs={"x": self.scaled(pixels[None])},
            pixels="x",
            image=(torch.from_numpy(pixels).float() / 255).expand(3, -1, -1),
            grid=self.grid,
            patch=self.patch,
            piece="part" if self.patch is None else "patch",
            reads=self.reads,
            crowd=self.crowd,
            **self.meaning(),
            judged=self.judged,
            name=shown.name,
            truth=shown.truth,
            notes=shown.notes if self.judged is None else (*shown.notes, SEVERAL.format(self.judged.views)),
        )

    def meaning(self) -> dict[str, Any]:
        """What the output is."""
        if self.numbers is None:
            return {"answers": "classes", "called": self.labels.__getitem__}
        return {"answers": "numbers", "number": self.numbers}

    def of_file(self, given: str | bytes) -> Shown:
        """An image that somebody gave; what it shows is known if it is one of the data."""
        pixels = read(given, self.size, self.channels, self.data.fit)
        if isinstance(given, bytes):
            return Shown(pixels)
        name, truth = os.path.basename(given), None
        with suppress(ValueError, OSError):
            found = self.labelled()
            alike = [row for row, file in enumerate(found.files) if os.path.basename(file) == name]
            truth = next(
                (_truth_of(found, row) for row in alike if os.path.samefile(found.files[row], given)), None
            )
        return Shown(pixels, name, truth)

    def of_views(self, views: Views) -> MultiView:
        count = len(VIEWS[views](torch.zeros(1, 1, self.size, self.size)))
        average = average_views if self.numbers is None else average_numbers
        return MultiView(views=f"{count} views ({views})", predict=partial(average, views=views))

    def scaled(self, pixels: Pixels) -> Tensor:
        """What the model takes.   uint8 b c s s"""
        return (torch.from_numpy(pixels).float() / 255 - self.mean) / self.deviation

    def kept(self) -> Shown | None:
        """An image of the test or validation split that the run kept, as the model takes it; None: there is
        none."""
        found = first_example(self.run, "picture")
        if found is None or self.size > WIDEST:
            return None
        with suppress(ValueError, OSError):
            content = base64.b64decode(str(found["picture"]).partition(";base64,")[2], validate=True)
            pixels = read(content, self.size, self.channels, self.data.fit)
            return Shown(pixels, str(found["name"]), str(found["truth"]), (HELD_OUT,))
        return None

    def example(self) -> Shown:
        """An image that the run kept; or one of the data, of those that are not for training if there are
        any, if they are still there."""
        kept = self.kept()
        if kept is not None:
            return kept
        with suppress(ValueError, OSError):
            found = self.labelled()
            rows = np.argsort(found.splits != TRAIN, kind="stable")[::-1]
            if found.pixels is not None:
                row, pixels = (
                    rows[0],
                    resize_all(found.pixels[rows[:1]], self.size, self.channels, self.data.fit)[0],
                )
                return Shown(
                    pixels,
                    f"image {row + 1:,} of {found.name}",
                    _truth_of(found, row),
                    (_told_of(found, row),),
                )
            for row in rows[:TRIED]:
                with suppress(Damaged):
                    pixels, name = (
                        read(found.files[row], self.size, self.channels, self.data.fit),
                        found.files[row],
                    )
                    return Shown(
                        pixels, os.path.basename(name), _truth_of(found, row), (_told_of(found, row),)
                    )
        return Shown(
            fit_square(
                to_channels(placeholder_image(), self.channels, "the image"), self.size, self.data.fit
            ),
            notes=(DRAWN,),
        )


def _told_of(found: LabelledImages, row: int) -> str:
    if found.splits[row] == TRAIN:
        return OF_THE_DATA
    return HELD_OUT


def _truth_of(found: LabelledImages, row: int) -> str:
    if found.numbers is not None:
        return f"{found.numbers[row]:.6g}"
    return found.labels[found.classes[row]]

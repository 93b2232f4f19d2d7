"""Pictures for runs of ours: brought to the size and the light that the model learned from."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.albums import album
from regard.data.images import ImagesConfig, resized
from regard.data.pictures import Damaged, Pixels, fitted, plain, read
from regard.data.splits import TRAIN
from regard.given import Given
from regard.reading.given_pictures import cells, drawn
from regard.reading.held_out import held_out
from regard.reading.reader import Reader
from regard.run import Run

OF_THE_DATA = "This picture is one of the data, not of those for training if there are others; --input shows one of yours."
TRIED = 20  # files, until one can be read
DRAWN = "The data is not where it was, so this picture was drawn for the purpose; --input shows one of yours."


class OwnPicture(Reader):
    """A picture for a run of ours."""

    kind = "image"

    def __init__(self, run: Run, model: nn.Module) -> None:
        config: Any = model.config
        self.data, about = run.section(ImagesConfig, "data"), run.config["corpus"]
        self.size, self.channels, self.labels = about["size"], about["channels"], about["labels"]
        self.mean, self.deviation = (torch.tensor(about[name]).view(-1, 1, 1) for name in ("mean", "deviation"))
        self.patch: int | None = getattr(config, "patch", None)
        self.grid = cells(self.size, self.size) if self.patch is None else (-(-self.size // self.patch),) * 2
        self.reads: Any = getattr(config, "pool", None)
        self.crowd = lru_cache(maxsize=1)(partial(held_out, run, self.scaled))

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        pixels, notes = self.example() if given is None else (read(given, self.size, self.channels, self.data.fit), ())
        return Given(
            inputs={"x": self.scaled(pixels[None])},
            kind="image",
            pixels="x",
            picture=(torch.from_numpy(pixels).float() / 255).expand(3, -1, -1),
            grid=self.grid,
            patch=self.patch,
            reads=self.reads,
            crowd=self.crowd,
            answers="classes",
            called=self.labels.__getitem__,
            notes=notes,
        )

    def scaled(self, pixels: Pixels) -> Tensor:
        """What the model takes.   uint8 b c s s"""
        return (torch.from_numpy(pixels).float() / 255 - self.mean) / self.deviation

    def example(self) -> tuple[Pixels, tuple[str, ...]]:
        """A picture of the data, of those that are not for training if there are any, if they are still there."""
        with suppress(ValueError, OSError):
            found = album(self.data.path, self.data.picture, self.data.label)
            rows = np.argsort(found.splits != TRAIN, kind="stable")[::-1]
            if found.pixels is not None:
                return resized(found.pixels[rows[:1]], self.size, self.channels, self.data.fit)[0], (OF_THE_DATA,)
            for row in rows[:TRIED]:
                with suppress(Damaged):
                    return read(found.files[row], self.size, self.channels, self.data.fit), (OF_THE_DATA,)
        return fitted(plain(drawn(), self.channels, "the picture"), self.size, self.data.fit), (DRAWN,)

"""Images: how they are found, decoded and scaled, for training, predictions and pages alike.

They are kept as bytes of one size; on the device they become numbers, and in training they are changed and mixed.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import Amount, Count, Size, config
from regard.data.array import Array
from regard.data.batch import Batch
from regard.data.cache import cache_folder
from regard.data.image_files import (
    Damaged,
    Fit,
    Pixels,
    fit_square,
    header,
    header_of,
    pillow,
    read,
    readable,
    to_channels,
)
from regard.data.splits import TRAIN, complete_splits
from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.look.thumbnails import as_png
from regard.recipes.example import Example, Examples
from regard.recipes.images.augment import (
    IMAGES,
    VIEWS,
    AugmentConfig,
    MirrorTrial,
    augment,
    average_numbers,
    average_views,
    mixup,
    try_mirror,
)
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.model_input import ImageInput, MultiView, patch_grid
from regard.recipes.images.read_images import displayable, find_images, given_images, is_file, is_object, name_classes
from regard.recipes.job import ShownExample
from regard.recipes.processor import Encoded, Processor, Take, Want
from regard.recipes.target import Target
from regard.training.tasks import call

LARGEST_SIDE = 64  # that is chosen when nobody says: what two cores learn from in minutes
MULTIPLE = 8  # of which a chosen side is, so that patches fit
LOOKED_AT = 200  # files whose headers decide the size and whether all are grey
AT_ONCE = 256  # images that are measured together
MEASURED = 2000  # images, about, whose mean and deviation stand for all
LEAST_DEVIATION = 0.05  # so that images of one colour are not divided by nothing
SHARE_OF_DISK = 0.25  # of what is free that decoded images may take
WIDEST = 96  # pixels of an image that a run keeps as it is; larger ones are made smaller
CLEAR = ("PA", "La", "RGBa")  # transparent modes of pillow beside those with an A
SEVERAL = (
    "The prediction averages {} of the image, as regard predict does; where the model looks, what matters "
    "to the prediction and what else the page shows of its inside is of the image as it stands."
)


@config
class ImagesFitted:
    """How images become numbers."""

    size: Size  # the side to which they are brought
    channels: Count
    fit: Fit
    mean: tuple[float, ...] = ()  # of each channel, where 0 is black and 1 is white
    deviation: tuple[Amount, ...] = ()
    # are images mirrored in training because a trial allowed it? None: no trial
    auto_flip: bool | None = None
    unnamed: tuple[str, ...] | None = None  # what the data calls the classes, where they were given names
    in_memory: bool = False  # were they in no file?

    def __post_init__(self) -> None:
        if self.mean and not len(self.mean) == len(self.deviation) == self.channels:
            raise RegardError(
                f"mean and deviation must be {self.channels} numbers each, one for each channel, got {self.mean} and "
                f"{self.deviation}"
            )


@dataclass(frozen=True, eq=False)
class ImagesProcessor(Processor[ImagesConfig, ImagesFitted]):
    """An example is an image: a file, the bytes of one, an image of pillow's, or an array. A batch: x b c s s."""

    Fitted: ClassVar[type] = ImagesFitted
    stacked: ClassVar[tuple[str, str] | None] = ("x", "uint8")
    encodes_by: ClassVar[tuple[str, ...]] = ("size", "channels", "fit")
    shows: ClassVar[str | None] = "picture"
    takes_bytes: ClassVar[bool] = True

    # ── reading

    def read(self, data: Any, *, want: Want) -> Examples:
        if want == "use":
            return given_images(data, self.config)
        path = os.fspath(data) if isinstance(data, str | os.PathLike) else data
        found = find_images(path, self.config)
        if want == "learn":
            return name_classes(found, self.config.names)
        if "pixels" in found.about and self.fitted.unnamed is not None:
            return name_classes(found, self.target.classes, self.fitted.unnamed)
        return found

    def is_one(self, given: Any) -> bool:
        return is_object(given) or is_file(given)

    def is_readable(self) -> bool:
        return not self.fitted.in_memory

    def draw_splits(self, examples: Examples, target: Target, codes: Array, seed: int) -> Array:
        """Of the splits that the data does not have, a share of each class is taken from training."""
        own = np.zeros(len(codes), dtype=np.uint8) if examples.splits is None else examples.splits.copy()
        known, strata = target.known(codes), target.strata(codes)
        classes = np.zeros(len(codes), dtype=np.int64) if strata is None else strata
        learned = np.bincount(classes[known & (own == TRAIN)], minlength=len(target.classes) or 1)
        if strata is not None and (learned == 0).any():
            gone = target.classes[int(learned.argmin())]
            raise RegardError(f"{examples.what} has no image of '{gone}' to train on")
        rows = np.flatnonzero(known)
        names = target.classes if strata is not None else ()
        found = complete_splits(
            own[rows], self.config, seed, what=examples.what, unit="images", classes=classes[rows], names=names
        )
        own[rows] = found
        return own

    # ── fitting

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        size, channels = choose_size(examples, self.config)
        return self.sized(
            size,
            channels,
            unnamed=examples.about.get("unnamed"),
            in_memory=self.config.path is None and bool(examples.about.get("in_memory")),
        )

    def sized(self, size: int, channels: int, **more: Any) -> Self:
        """What brings images to this size, before anything is measured."""
        return replace(self, fitted=ImagesFitted(size=size, channels=channels, fit=self.config.fit, **more))

    def keep(self, examples: Examples) -> Literal["memory", "disk", "none"]:
        if examples.files is None:
            return "memory"
        needed = len(examples) * self.fitted.channels * self.fitted.size**2
        cache = cache_folder()
        cache.mkdir(parents=True, exist_ok=True)
        fits = needed < SHARE_OF_DISK * shutil.disk_usage(cache).free
        return "disk" if self.config.decoded == "auto" and fits else "none"

    def measure(self, take: Take, train: Array, codes: Array) -> tuple[Self, tuple[str, ...]]:
        """How light images are; and if that is asked for, whether a mirror changes their classes."""
        mean, deviation = measure_light(take, train)
        fitted, changes = replace(self.fitted, mean=mean, deviation=deviation), self.config.augment
        notes: tuple[str, ...] = ()
        if changes.auto_flip and not changes.flip and self.target.labels is not None:
            some = np.sort(np.random.default_rng(0).permutation(train)[:IMAGES])
            pixels = torch.from_numpy(np.stack([each["x"] for each in take(some)]))
            tried = try_mirror(pixels, torch.from_numpy(codes[some]))
            fitted = replace(fitted, auto_flip=tried is not None and tried.harmless)
            notes = () if tried is None else (_tell_trial(tried),)
        return replace(self, fitted=fitted), notes

    def describe(self) -> str:
        return f"{self.fitted.size} × {self.fitted.size} pixels"

    def counts(self, examples: Examples) -> Mapping[str, int]:
        return {"images": len(examples)}

    def model_config(self, model: Any) -> Any:
        fitted = self.fitted
        return replace(model, classes=self.target.outputs, colours=fitted.channels, size=fitted.size)

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        given, fitted = example.inputs["image"], self.fitted
        how = (fitted.size, fitted.channels, fitted.fit)
        if isinstance(given, np.ndarray):
            return {"x": _of_array(given, example.name, *how)}
        if not isinstance(given, str | bytes):
            return {"x": _of_pillow(given, example.name, *how)}
        try:
            return {"x": read(given, *how)}
        except Damaged as error:
            raise Damaged(displayable(str(error))) from error

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        return Batch({"x": torch.from_numpy(np.stack([row["x"] for row in rows]))})

    def finish(self, batch: Batch, *, training: bool) -> Batch:
        x, changes = batch["x"].float() / 255, self.changes
        if not training:
            return batch.replace(x=self.scale(x))
        x = self.scale(augment(x, changes))
        if not (changes.mixup or changes.cutmix):
            return batch.replace(x=x)
        shares = batch.target
        if self.target.labels is not None:
            shares = F.one_hot(shares, len(self.target.classes))
        elif shares.dim() == 1:
            shares = shares[:, None]
        x, shares = mixup(x, shares.to(x.dtype), changes)
        return batch.replace(x=x, target=shares[:, 0] if self.target.number is not None else shares)

    @property
    def changes(self) -> AugmentConfig:
        """How images are changed in training: as the trial found, where nobody said whether they are mirrored."""
        found = self.config.augment
        return replace(found, flip=True) if self.fitted.auto_flip else found

    def scale(self, x: Tensor) -> Tensor:
        """Numbers from 0, black, to 1, white, as numbers around 0.   b c h w"""
        lights = (self.fitted.mean, self.fitted.deviation)
        mean, deviation = (torch.tensor(each, device=x.device).view(1, -1, 1, 1) for each in lights)
        return (x - mean) / deviation

    def forward(self, model: nn.Module, batch: Batch) -> Tensor:
        """Of classes, log-probabilities."""
        average = average_numbers if self.target.labels is None else average_views
        return average(lambda x: call(model, batch.replace(x=x)), batch["x"], self.config.views)

    # ── showing

    def show(self, example: Example) -> ShownExample:
        pixels = torch.from_numpy(self.encode(example)["x"])[None].float() / 255  # 1 c s s
        if pixels.shape[-1] > WIDEST:
            pixels = F.interpolate(pixels, (WIDEST, WIDEST), mode="bilinear", antialias=True)
        return ShownExample(name=os.path.basename(example.name), picture=as_png(pixels[0].clamp(0, 1)))

    def from_kept(self, kept: Mapping[str, Any]) -> Example | None:
        if self.fitted.size > WIDEST:
            return None
        with suppress(ValueError):
            content = base64.b64decode(str(kept["picture"]).partition(";base64,")[2], validate=True)
            example = Example({"image": content}, name=str(kept["name"]))
            self.encode(example)  # a run may be somebody else's
            return example
        return None

    def model_input(
        self, example: Example, encoded: Encoded, batch: Batch, model: nn.Module, file: str | None
    ) -> ModelInput:
        how: Any = model.config
        patch, size, views = getattr(how, "patch", None), self.fitted.size, self.config.views
        judged = None
        if views != "one":
            count = len(VIEWS[views](torch.zeros(1, 1, size, size)))
            average = average_numbers if self.target.labels is None else average_views
            judged = MultiView(views=f"{count} views ({views})", predict=partial(average, views=views))
        return ImageInput(
            inputs={"x": batch["x"]},
            pixels="x",
            image=(torch.from_numpy(encoded["x"]).float() / 255).expand(3, -1, -1),
            grid=patch_grid(size, size, patch),
            patch=patch,
            piece="part" if patch is None else "patch",
            reads=getattr(how, "pool", None),
            judged=judged,
            name=file,
            notes=() if judged is None else (SEVERAL.format(judged.views),),
        )


def _tell_trial(found: MirrorTrial) -> str:
    shares = f"a quick model recognises {found.plain:.0%} of images and {found.mirrored:.0%} of mirrored ones"
    if found.harmless:
        return f"{shares}: half of the images are mirrored in training (not with --data.augment.no-auto-flip)"
    return f"{shares}: images are not mirrored in training (they are with --data.augment.flip)"


# ── pixels in memory


def _of_array(pixels: Array, name: str, size: int, channels: int, fit: Fit) -> Pixels:
    """h w, or h w c, as c s s."""
    dtype, shape = str(pixels.dtype), pixels.shape
    if dtype != "uint8" or not (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))) or 0 in shape:
        raise RegardError(
            f"{name} must be bytes 'h w' or 'h w c' with 1, 3 or 4 channels, got {dtype} of shape {shape}; "
            "several images are given as a list, list(x), and (x * 255).astype('uint8') makes bytes of "
            "numbers up to 1"
        )
    flat = pixels[:, :, 0] if shape[2:] == (1,) else pixels
    if shape[:2] == (size, size) and (flat.ndim, channels) == (2, 1):
        return flat[None]
    return _of_pillow(pillow().fromarray(flat), name, size, channels, fit)


def _of_pillow(image: Any, name: str, size: int, channels: int, fit: Fit) -> Pixels:
    with readable(name):
        opaque = image.convert("RGBA") if image.mode in CLEAR else image
        return fit_square(to_channels(opaque, channels, name), size, fit)


# ── size, colour, light


def choose_size(examples: Examples, config: ImagesConfig) -> tuple[int, int]:
    """The side and the channels: as asked for, or as the images suggest."""
    pixels = examples.about.get("pixels")
    if pixels is not None:
        sides, grey = [pixels.shape[1:3]], pixels.ndim == 3 or pixels.shape[3] == 1
    else:
        seen = _headers(examples)
        sides, grey = [(width, height) for width, height, _ in seen], all(each for _, _, each in seen)
    channels = {"auto": 1 if grey else 3, "grey": 1, "colour": 3}[config.channels]
    if config.size is not None:
        return config.size, channels
    shorter = int(np.median([min(each) for each in sides])) if sides else LARGEST_SIDE
    if len(set(sides)) == 1 and len(set(sides[0])) == 1 and shorter <= LARGEST_SIDE:
        return shorter, channels
    return min(LARGEST_SIDE, max(MULTIPLE, shorter // MULTIPLE * MULTIPLE)), channels


def _headers(examples: Examples) -> list[tuple[int, int, bool]]:
    """Width, height and greyness of some of the images, evenly chosen; of those that can be opened."""
    seen = []
    for i in range(0, len(examples), max(1, len(examples) // LOOKED_AT)):
        image = examples.inputs(i)["image"]
        if isinstance(image, np.ndarray):
            height, width, *channels = image.shape
            seen.append((width, height, channels in ([], [1])))
        elif not isinstance(image, str | bytes):
            seen.append(header_of(image))
        else:
            with suppress(Damaged):
                seen.append(header(image))
    return seen


def measure_light(take: Take, rows: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel over some of the images, where 1 is white."""
    some, sums = rows[:: max(1, len(rows) // MEASURED)], []
    for start in range(0, len(some), AT_ONCE):
        for image in take(some[start : start + AT_ONCE]):
            x = image["x"] / 255
            sums.append((x.mean((1, 2)), (x * x).mean((1, 2))))
    mean, square = np.mean(sums, axis=0)
    return tuple(mean.tolist()), tuple(np.sqrt(np.maximum(square - mean**2, LEAST_DEVIATION**2)).tolist())

"""What a model says of images: classes with their probabilities, or a number."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.cores import cores
from regard.data.image_files import SUFFIXES
from regard.errors import RegardError
from regard.nn.linear import prepacked
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo, try_read
from regard.recipes.images.labelled_images import images_in, is_image
from regard.recipes.images.task import ClassifyImages, RegressImages, task_of
from regard.recipes.prediction import Prediction
from regard.runs.load import load_model
from regard.runs.run import Run

AT_ONCE = 64  # images that are predicted together


LOOKED = "looked.png"  # how the name of a drawing ends; such a file in a folder is no input


def expand_inputs(given: Sequence[str]) -> list[str]:
    """Files as they are given; of a folder all images in it and in its folders, of a pattern all that match
    it."""
    return [path for each in given for path in (_images_of(each) or [each])]


def _images_of(given: str) -> list[str]:
    """Of a folder, or of a pattern such as photos/*.jpg, in the order of their paths; of anything else
    none."""
    if os.path.isdir(given):
        found, what = (
            [each for each in images_in(Path(given)) if not each.endswith(f"-{LOOKED}")],
            "holds no images",
        )
    elif glob.has_magic(given) and not os.path.exists(given):
        match = sorted(glob.glob(given, recursive=True))
        found, what = [each for each in match if is_image(os.path.basename(each))], "matches no images"
    else:
        return []
    if not found:
        raise RegardError(f"{given} {what}; those are files in {', '.join(SUFFIXES)}")
    return found


@torch.no_grad()
def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """For each image, the classes with their probabilities, the likeliest first, or the number; what cannot be
    read has an error instead."""
    info, data, model = run.section(ImagesInfo, "corpus"), run.section(ImagesConfig, "data"), load_model(run)
    ask = _how_to_ask(model, data, info)
    with ThreadPoolExecutor(cores()) as pool, prepacked(model):
        for start in range(0, len(inputs), AT_ONCE):
            some = inputs[start : start + AT_ONCE]
            pixels = list(pool.map(lambda path: try_read(path, info.size, info.channels, data.fit), some))
            good = [each for each in pixels if not isinstance(each, str)]
            shown = iter(ask(torch.from_numpy(np.stack(good))) if good else ())
            for path, found in zip(some, pixels, strict=True):
                if isinstance(found, str):
                    yield Prediction(input=path, error=found)
                else:
                    yield _format_output(path, next(shown), info)


def _how_to_ask(model: nn.Module, data: ImagesConfig, info: ImagesInfo) -> Callable[[Tensor], Tensor]:
    """From bytes of images to their probabilities or numbers.   uint8 b c h w -> b classes or b 1"""
    task = task_of(data, info)
    if isinstance(task, RegressImages):
        return partial(task.predicted, model)
    assert isinstance(task, ClassifyImages)
    classes = task
    return lambda pixels: classes.log_probabilities(model, pixels).exp()


def _format_output(path: str, out: Tensor, info: ImagesInfo) -> Prediction:
    """Probabilities of classes, or the number in the units of the data.   classes or 1"""
    if info.numbers is None:
        return Prediction.of_classes(path, out, info.labels)
    return Prediction(input=path, values={info.numbers.name: info.numbers.restore(out.item())})

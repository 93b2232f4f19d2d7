"""What a model says of images: classes with their probabilities, or a number."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.cores import cores
from regard.data.image_files import SUFFIXES
from regard.errors import RegardError
from regard.nn.linear import prepacked
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo, try_read
from regard.recipes.images.given_images import given_images
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
    ask, given = _how_to_ask(model, data, info), given_images(inputs, data)
    with ThreadPoolExecutor(cores()) as pool, prepacked(model):
        while some := list(islice(given, AT_ONCE)):
            paths = [each.path for each in some if each.path is not None]
            read = pool.map(lambda path: try_read(path, info.size, info.channels, data.fit), paths)
            pixels = dict(zip(paths, read, strict=True))
            good = [path for path in paths if not isinstance(pixels[path], str)]
            shown = iter(ask(torch.from_numpy(np.stack([pixels[path] for path in good]))) if good else ())
            for path, asked in some:
                found = None if path is None else pixels[path]
                if found is None:
                    yield asked
                elif isinstance(found, str):
                    yield replace(asked, error=found)
                else:
                    answer = _format_output(asked.input, next(shown), info)
                    yield replace(asked, labels=answer.labels, values=answer.values)


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

"""An image of the data as a page shows it: small enough that a few of them fit into a run."""

from __future__ import annotations

import os

import numpy as np
import torch
import torch.nn.functional as F

from regard.look.thumbnails import as_png
from regard.recipes.images.dataset import Images
from regard.recipes.job import ShownExample

WIDEST = 96  # pixels of an image that is kept as it is; larger ones are made smaller


def show_image(images: Images, row: int) -> ShownExample:
    """An image by its number, with its name."""
    pixels = images.take(np.array([row]))["x"].float() / 255  # 1 c s s
    if pixels.shape[-1] > WIDEST:
        pixels = F.interpolate(pixels, (WIDEST, WIDEST), mode="bilinear", antialias=True)
    found = images.labelled
    name = f"image {row + 1:,}"
    if found.files:
        name = os.path.basename(found.files[row])
    return ShownExample(name=name, picture=as_png(pixels[0].clamp(0, 1).to(torch.float32)))

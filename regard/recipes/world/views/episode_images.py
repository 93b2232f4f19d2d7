"""Images of an episode for a page: what was seen, and what the model imagines, given back by its autoencoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.data.array import Array
from regard.look.encode_arrays import pack_array
from regard.models.world_model import WorldModel
from regard.recipes.world.codes import decode_codes
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.images import to_squares
from regard.recipes.world.spaces import Spaces
from regard.recipes.world.views.futures import Futures

SIDE = 32  # pixels of the side of an image on a page; larger ones are made smaller


def image_drawing(spaces: Spaces) -> dict[str, Any] | None:
    """How the page draws images; None: observations are vectors."""
    if spaces.image is None:
        return None
    side, _, colours = spaces.image
    return {"name": "image", "at": [], "side": min(SIDE, side), "colours": colours}


def pack_episode(episode: Episodes) -> str | None:
    """What was seen at each step, and after the last one.   n+1 h w c, in bytes"""
    if episode.images is None or episode.next_images is None:
        return None
    return pack_array(_shrink(np.concatenate((episode.images, episode.next_images[-1:]))))


def pack_futures(model: WorldModel, found: Futures) -> str | None:
    """What is imagined with the mean of all heads.   s t+1 h w c, in bytes"""
    if model.autoencoder is None:
        return None
    codes = model.restore(found.mean.flatten(0, 1)).cpu().numpy()
    return pack_array(_shrink(decode_codes(model, codes)))


def _shrink(images: Array) -> Array:
    return to_squares(images, min(SIDE, images.shape[1]))

"""Images that a person gives: what all readers of images have."""

from __future__ import annotations

from regard.look.reader import Control, Reader
from regard.look.view import View
from regard.recipes.images.views.features import FeaturesView
from regard.recipes.images.views.image import ImageView

IMAGE = Control(name="image", type="file", label="Image", accept="image/*", media="image/", example="image/png")


class ImageReader(Reader):
    """What all readers of images have: a file can be given."""

    views: tuple[View, ...] = (ImageView(), FeaturesView())
    controls: tuple[Control, ...] = (IMAGE,)

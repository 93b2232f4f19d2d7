"""Which images to learn from, and how they become pixels: the data section of the settings."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from regard.config import Share, config
from regard.data.dialect import TableConfig
from regard.data.image_files import Fit
from regard.data.targets import read_names
from regard.errors import RegardError
from regard.recipes.images.augment import AugmentConfig, Views
from regard.recipes.supervised import FilesConfig


@config
class ImagesConfig(TableConfig, FilesConfig):
    """Which images, and how they become pixels of one size."""

    unit: ClassVar[str] = "images"

    # a folder with one folder a class, idx files, .npz, a table of paths and labels; None: digits
    path: str | None = None
    image: str = "file"  # the column of a table that holds the path
    label: str = "label"  # the column that holds the label
    # names of the classes of idx files and arrays, in the order of their numbers: cat,dog or a file with one a line
    names: tuple[str, ...] = ()
    # side that images are resized to; None: their shorter side (the median, if they differ), at most 64
    size: Annotated[int, Field(ge=1, le=2**13)] | None = None
    channels: Literal["auto", "grey", "colour"] = "auto"  # auto: grey if all of them are
    fit: Fit = "crop"  # to a square: the middle of it, all of it with black beside, or out of shape
    decoded: Literal["auto", "never"] = "auto"  # auto: decoded images are kept on the disk when they fit
    smoothing: Share = 0.0  # share of each label that is given to all classes alike
    # views of an image whose predictions are averaged in evaluation and prediction
    views: Views = "one"
    # how images are changed in training; 0 is not at all
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.names:
            object.__setattr__(self, "names", read_names(self.names))
            if self.asks == "numbers":
                raise RegardError("names are for classes, and numbers are asked; leave --data.names out")
        if self.image == self.label:
            raise RegardError(f"image and label must be two columns, got '{self.image}' for both")

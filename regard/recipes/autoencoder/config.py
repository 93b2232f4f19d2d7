"""Which inputs an autoencoder learns from: the data section of the settings."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from regard.config import Classes, config
from regard.data.dialect import TableConfig
from regard.data.image_files import Fit
from regard.data.splits import SplitConfig, check_splits
from regard.errors import RegardError

Form = Literal["images", "rows", "points"]
Binarise = Literal["none", "threshold", "dynamic"]


@config
class InputsConfig(TableConfig, SplitConfig):
    """Which inputs, and how they become numbers."""

    unit: ClassVar[str] = "inputs"
    paths: ClassVar[tuple[str, ...]] = ("path",)

    # images as for `regard train images`, with labels or without; a table of numbers; a folder of point clouds;
    # None: digits
    path: str | None = None
    image: str = "file"  # the column of a table that holds paths of images; without it, a table holds numbers
    label: str = "label"  # the column that holds labels, if there are any
    columns: tuple[str, ...] = ()  # tables of numbers: which columns; none: all but the label
    # side that images are resized to; None: their shorter side (the median, if they differ), at most 64
    size: Annotated[int, Field(ge=1, le=2**13)] | None = None
    channels: Literal["auto", "grey", "colour"] = "auto"  # auto: grey if all images are
    fit: Fit = "crop"  # to a square: the middle of it, all of it with black beside, or out of shape
    damaged: Literal["skip", "stop"] = "skip"  # what to do with files that cannot be read; they are named
    decoded: Literal["auto", "never"] = "auto"  # auto: decoded images are kept on the disk when they fit
    # images as black and white: threshold at a half, or dynamic: each time drawn anew, white as often as it is
    # bright. Figures of the two cannot be compared
    binarise: Binarise = "none"
    points: Classes = 256  # of each point cloud

    def __post_init__(self) -> None:
        check_splits(self, "inputs")
        if self.image == self.label:
            raise RegardError(f"image and label must be two columns, got '{self.image}' for both")

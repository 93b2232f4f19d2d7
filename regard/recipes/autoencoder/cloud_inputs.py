"""Point clouds as inputs, read as sets are: so many points of each, around the origin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from regard import files
from regard.config import Size, config
from regard.data.array import Array
from regard.data.batch import generator
from regard.data.point_clouds import find_clouds, join_notes
from regard.errors import RegardError
from regard.recipes.autoencoder.config import Form
from regard.recipes.autoencoder.processor import InputsProcessor
from regard.recipes.example import Example, Examples
from regard.recipes.processor import Encoded, Want
from regard.recipes.sets.read_clouds import read_clouds

OF_POINTS = 21  # the random numbers by which points of a cloud are chosen


@config
class CloudsFitted:
    """How many points the model takes, and how many numbers a point has."""

    points: Size
    width: Size


@dataclass(frozen=True, eq=False)
class CloudInputs(InputsProcessor[CloudsFitted]):
    """Each cloud is moved to the origin, and its farthest point is at distance 1."""

    Fitted: ClassVar[type] = CloudsFitted
    stacked: ClassVar[tuple[str, str] | None] = ("x", "float32")
    form: ClassVar[Form] = "points"
    unit: ClassVar[str] = "point clouds"
    one: ClassVar[str] = "a point cloud"
    writes: ClassVar[Mapping[str, str]] = {".npz": "arrays", ".csv": "a table"}
    ending: ClassVar[str | None] = ".npy"
    example_file: ClassVar[str] = "samples.npz"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.fitted.points, self.fitted.width)

    # ── reading and fitting

    def read(self, data: Any, *, want: Want) -> Examples:
        if not isinstance(data, str | os.PathLike):
            return _in_memory(data)
        found = read_clouds(os.fspath(data), self.config, "use")
        if want == "use":
            return found
        clouds = [{**found.inputs(i), "number": i} for i in range(len(found))]
        labels = [file.label for file in find_clouds(os.fspath(data))]
        return replace(
            found,
            inputs=clouds.__getitem__,
            cells=None if None in labels else np.array(labels),
            about={"form": self.form},
            notes=join_notes([cloud["notes"] for cloud in clouds]),
        )

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        width = examples.inputs(0)["x"].shape[1]
        return replace(self, fitted=CloudsFitted(points=self.config.points, width=width))

    def model_config(self, model: Any) -> Any:
        return replace(model, shape=self.shape, mean=(), deviation=())

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        """So many points; of a cloud that has fewer, some come twice."""
        x, (count, width) = example.inputs["x"], self.shape
        if x.shape[1] != width:
            raise RegardError(f"{example.name} has points of {x.shape[1]} numbers, and the others have {width}")
        if not len(x):
            raise RegardError(f"{example.name} has no points")
        random = generator(OF_POINTS, example.inputs.get("number", 0))
        if len(x) > count:
            x = x[np.sort(random.permutation(len(x))[:count])]
        elif len(x) < count:
            x = np.concatenate((x, x[random.integers(len(x), size=count - len(x))]))
        x = x - x.mean(0)
        farthest = float(np.linalg.norm(x, axis=-1).max())
        x = x / (farthest if farthest > 0 else 1.0)
        return {"x": x.astype(np.float32), "notes": example.inputs.get("notes", ())}

    # ── writing

    def write(self, made: Tensor, out: Path, columns: int | None = None) -> None:
        if out.suffix.lower() == ".npz":
            files.write_arrays(out, {"points": made.numpy()})
            return
        # a point in each line, with the number of its cloud
        width = made.shape[-1]
        names = ("x", "y", "z") if width == 3 else tuple(f"x{i + 1}" for i in range(width))
        lines = [",".join(("set", *names))]
        for number, cloud in enumerate(made.tolist(), 1):
            lines += [",".join((str(number), *(f"{each:.6g}" for each in point))) for point in cloud]
        files.write_text(out, "\n".join(lines) + "\n")

    def write_one(self, made: Tensor, out: Path) -> None:
        files.write_array(out, made.numpy())


def _in_memory(data: Any) -> Examples:
    """Arrays n d, or one array of several.   m n d"""
    clouds = [data] if isinstance(data, np.ndarray) and data.ndim == 2 else list(data)
    for number, cloud in enumerate(clouds, 1):
        if not isinstance(cloud, np.ndarray) or cloud.ndim != 2 or not np.isfinite(cloud).all():
            raise RegardError(f"point cloud {number} must be an array of finite numbers, a row for each point")
    return Examples(
        what="the arrays",
        count=len(clouds),
        inputs=lambda i: {"x": clouds[i].astype(np.float64), "number": i},
        names=lambda i: f"point cloud {i + 1:,}",
        about={"form": "points"},
    )

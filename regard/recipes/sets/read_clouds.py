"""Point clouds of files as examples: of a folder for each class, or with a label for each point."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.class_folders import ClassFile
from regard.data.dialect import TableConfig
from regard.data.point_clouds import Cloud, find_clouds, join_notes, read_cloud
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.processor import Want
from regard.recipes.target import cells_in_memory

CLOUD_POINTS = 1024  # points of a point cloud in a batch, by default
SAMPLED = 4096  # points that are taken of the surface of a mesh: always the same


def read_clouds(path: str, config: TableConfig, want: Want, *, each: bool | None = None) -> Examples:
    """All point clouds of a folder, or one. each: does the model predict a class for each point? None: not known yet"""
    if want != "use":
        return clouds_of(find_clouds(path), path, config, want, each=each)
    if os.path.isdir(path):
        files = [file.path for file in find_clouds(path)]
    else:
        check_file(path)
        files = [path]
    return Examples(
        what=path,
        count=len(files),
        inputs=lambda i: _inputs_of(_read(files[i], config)),
        names=files.__getitem__,
        files=files.__getitem__,
        part="point",
        about={"form": "clouds"},
    )


def clouds_of(
    files: Sequence[ClassFile], folder: str, config: TableConfig, want: Want, *, each: bool | None
) -> Examples:
    """Point clouds with what they are, or what each of their points is."""
    clouds = [_read(file.path, config) for file in files]
    widths = [cloud.points.shape[1] for cloud in clouds]
    odd = next((i for i, width in enumerate(widths) if width != widths[0]), None)
    if odd is not None and want == "learn":
        raise RegardError(
            f"{files[odd].path} has {widths[odd]} numbers for each point, but {files[0].path} has {widths[0]}; give "
            "all files the same number of columns"
        )
    labels = [cloud.labels for cloud in clouds]
    labelled = any(label is not None for label in labels) if each is None else each
    missing = next((file.path for file, label in zip(files, labels, strict=True) if label is None), None)
    if labelled and missing is not None:
        if want == "learn":
            why = "but other files have; give labels to all files, or to none"
        else:
            why = "but the model predicts a label for each point; add labels"
        raise RegardError(f"{missing} has no labels for its points, {why}")
    if labelled:
        cells = np.concatenate([label for label in labels if label is not None])
        sizes = [len(cloud.points) for cloud in clouds]
        starts: Any = np.concatenate([[0], np.cumsum(sizes)])
    else:
        cells, starts = np.array([class_of(file, folder) for file in files]), None
    return Examples(
        what=folder,
        count=len(files),
        inputs=lambda i: {"x": clouds[i].points},
        names=lambda i: files[i].path,
        files=lambda i: files[i].path,
        cells=cells,
        starts=starts,
        part="point",
        about={"form": "clouds", "sizes": np.array([len(cloud.points) for cloud in clouds])},
        notes=join_notes([cloud.notes for cloud in clouds]),
    )


def read_arrays(data: Any, want: Want, *, each: bool | None) -> Examples:
    """Point clouds in memory: an array n d for each set, or one array b n d; perhaps with what they are, or with what each
    of their points is: (arrays, labels)."""
    given, labels = data if isinstance(data, tuple) else (data, None)
    arrays = [np.asarray(one) for one in ([given] if getattr(given, "ndim", 0) == 2 else given)]
    names = [f"set {i + 1}" for i in range(len(arrays))] if len(arrays) > 1 else ["the array"]
    what = "the arrays" if len(arrays) > 1 else "the array"
    errors = {i: why for i, (x, name) in enumerate(zip(arrays, names, strict=True)) if (why := _what_is_wrong(x, name))}
    if errors and want != "use":
        raise RegardError(errors[min(errors)])
    if labels is None and want != "use":
        to = "train on" if want == "learn" else "compare with"
        raise RegardError(f"{what} have no labels to {to}; give a pair (arrays, labels)")
    if labels is not None and len(labels) != len(arrays):
        raise RegardError(f"there are {len(arrays):,} sets and {len(labels):,} labels; give one for each set")
    if labels is not None and each is None:
        each = not isinstance(labels[0], str) and np.ndim(labels[0]) == 1
    cells, starts = None if labels is None or each else cells_in_memory(labels), None
    if labels is not None and each:
        words = [cells_in_memory(of) for of in labels]
        odd = next((i for i, (x, of) in enumerate(zip(arrays, words, strict=True)) if len(x) != len(of)), None)
        if odd is not None:
            raise RegardError(f"{names[odd]} has {len(arrays[odd]):,} points and {len(words[odd]):,} labels")
        cells, starts = np.concatenate(words), np.concatenate([[0], np.cumsum([len(x) for x in arrays])])
    return Examples(
        what=what,
        count=len(arrays),
        inputs=lambda i: {"x": arrays[i].astype(np.float64)},
        names=names.__getitem__,
        cells=cells,
        starts=starts,
        part="point",
        errors=errors,
        about={"form": "clouds", "sizes": np.array([len(x) for x in arrays])},
    )


def are_arrays(data: Any) -> bool:
    """Is it an array n d or b n d, several n d, or a pair of these and labels?"""
    given = data[0] if isinstance(data, tuple) and len(data) == 2 else data
    if isinstance(given, list | tuple):
        return bool(given) and all(getattr(one, "ndim", 0) == 2 and hasattr(one, "dtype") for one in given)
    return getattr(given, "ndim", 0) in (2, 3) and hasattr(given, "dtype")


def _what_is_wrong(x: Array, name: str) -> str | None:
    if x.ndim != 2 or x.dtype.kind not in "fiub":
        return f"{name} must be numbers with one row for each element, got {x.dtype} of shape {x.shape}"
    if not np.isfinite(x).all():
        return f"{name} has NaN or infinity in point {int(np.flatnonzero(~np.isfinite(x).all(1))[0]) + 1}; remove the point"
    return None


def _inputs_of(cloud: Cloud) -> dict[str, Any]:
    return {"x": cloud.points, "notes": cloud.notes}


def _read(path: str, config: TableConfig) -> Cloud:
    """All points of a file; of a mesh, points that are always the same."""
    return read_cloud(path, None, generator(0), sampled=SAMPLED, config=config)


def check_file(path: str) -> None:
    """Raise unless there is a file of this name."""
    if not os.path.isfile(path):
        what = f"{path} is a folder" if os.path.isdir(path) else f"there is no file {path}"
        raise FileNotFoundError(f"{what}; give files in the format of the training data")


def class_of(file: ClassFile, folder: str) -> str:
    """The class that its folder names."""
    if file.label is None:
        raise RegardError(
            f"{file.path} is not in the folder of a class; put the point clouds of each class in one folder "
            f"of {folder} that has the name of the class (or label each point: an .npz with arrays points "
            "and labels)"
        )
    return file.label

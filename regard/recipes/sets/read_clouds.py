"""Point clouds of files as examples: of a folder for each class, or with a label for each point."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.batch import generator
from regard.data.class_folders import ClassFile
from regard.data.dialect import TableConfig
from regard.data.point_clouds import Cloud, find_clouds, join_notes, read_cloud
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.processor import Want

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
        cells = np.array([str(one) for label in labels if label is not None for one in label.tolist()])
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

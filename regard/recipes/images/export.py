"""What goes along with an exported model of images: how they are prepared, and the names of its classes."""

from __future__ import annotations

from typing import Any

from regard.errors import RegardError
from regard.recipes.base import ExportFiles
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo
from regard.runs.run import Run

BILINEAR = 2  # the number of the filter, as pillow counts them


def export_files(run: Run) -> ExportFiles:
    """preprocessor_config.json, and labels."""
    data, info = run.section(ImagesConfig, "data"), run.section(ImagesInfo, "corpus")
    if info.numbers is not None:
        raise RegardError(
            f"{run.path} predicts a number in its own units, which Hugging Face's classifiers do not know; only "
            f"classes are exported"
        )
    side = {"height": info.size, "width": info.size}
    settings: dict[str, Any] = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": side,
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(info.mean),
        "image_std": list(info.deviation),
    }
    notes = []
    if data.fit == "crop":
        settings |= {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": info.size},
            "do_center_crop": True,
            "crop_size": side,
            "do_convert_rgb": info.channels == 3,
        }
    if data.fit == "pad":
        notes.append("their preprocessing stretches images to a square; this run filled them up with black")
    return ExportFiles(info.labels, {"preprocessor_config.json": settings}, tuple(notes))

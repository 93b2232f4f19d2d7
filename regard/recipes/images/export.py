"""What goes along with an exported model of images: how they are prepared, and the names of its classes."""

from __future__ import annotations

from typing import Any

from regard.errors import RegardError
from regard.recipes.base import ExportFiles
from regard.recipes.images.processor import ImagesProcessor

BILINEAR = 2  # the number of the filter, as pillow counts them


def export_files(processor: ImagesProcessor, path: str) -> ExportFiles:
    """preprocessor_config.json, and labels. path: of the run"""
    fitted, labels = processor.fitted, processor.target.labels
    if labels is None:
        raise RegardError(
            f"{path} predicts no single class, and Hugging Face's classifiers know nothing else; only one class of "
            "each image is exported"
        )
    side = {"height": fitted.size, "width": fitted.size}
    settings: dict[str, Any] = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": side,
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(fitted.mean),
        "image_std": list(fitted.deviation),
    }
    notes = []
    if fitted.fit == "crop":
        settings |= {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": fitted.size},
            "do_center_crop": True,
            "crop_size": side,
            "do_convert_rgb": fitted.channels == 3,
        }
    if fitted.fit == "pad":
        notes.append("their preprocessing stretches images to a square; this run filled them up with black")
    return ExportFiles(labels, {"preprocessor_config.json": settings}, tuple(notes))

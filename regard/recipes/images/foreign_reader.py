"""Images for models that no recipe made: processed as the model wants them, or the tensor that came with
it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.look.model_input import Tokens
from regard.look.reader import Control, FixedReader, Reader
from regard.recipes.images.model_input import CaptionInput, ImageInput, open_image, patch_grid, placeholder_image
from regard.recipes.images.reader import IMAGE, ImageReader
from regard.recipes.images.views.words import WordsView
from regard.recipes.images.windows import WindowLayout
from regard.recipes.processors import CaptionProcessor, ForeignModel, ImageProcessor
from regard.symmetry.roles import Roles

DRAWN = "This image was drawn for the purpose; --input shows one of yours."
SHOWN = "The image is the tensor that came with the model, black at its smallest number and white at its largest."
RANDOM = "The image is made of random numbers: the run of a module keeps none of those that it learned from."


def foreign_reader(foreign: ForeignModel) -> Reader | None:
    """What reads images for such a model; None for one whose inputs are no images, or not known to be
    some."""
    if foreign.caption is not None:
        return ForeignCaptionReader(foreign.caption)
    if foreign.image is not None:
        return ForeignImageReader(foreign.image)
    known = foreign.roles or getattr(foreign.model, "roles", None)
    # one of ours: it is known how it cuts an image
    classifies = hasattr(getattr(foreign.model, "config", None), "classes")
    if not isinstance(known, Roles) or known.grid is None or not classifies:
        return None
    x = foreign.inputs.get(known.grid)
    if not isinstance(x, Tensor) or x.dim() != 4 or not x.is_floating_point():
        return None
    return TensorReader(foreign.model, foreign.inputs, known, RANDOM if foreign.random else SHOWN)


class ForeignImageReader(ImageReader):
    """An image, processed as the model wants it."""

    def __init__(self, processor: ImageProcessor) -> None:
        self.processor = processor

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> ImageInput:
        processor = self.processor
        found = processor.process(placeholder_image() if given is None else open_image(given))
        height, width = found.x.shape[-2:]
        sides = processor.patch
        return ImageInput(
            inputs={processor.pixels: found.x},
            pixels=processor.pixels,
            image=(found.x[0] * found.deviation + found.mean).clamp(0, 1),
            grid=patch_grid(height, width) if sides is None else (height // sides[0], width // sides[1]),
            piece="part" if sides is None else "patch",
            cuts=_window_layouts(processor, height, width),
            answers="classes" if processor.classifies else None,
            called=processor.label if processor.classifies else None,
            name=Path(given).name if isinstance(given, str) else None,
            notes=() if given is not None else (DRAWN,),
        )


def _window_layouts(processor: ImageProcessor, height: int, width: int) -> tuple[WindowLayout, ...]:
    """How layers that attend within windows cut this image: every second layer of a stage is shifted by half
    a window, and sides are halved between stages. Of images that are no whole number of patches nothing is
    known."""
    sides = processor.patch
    if not processor.stages or sides is None or height % sides[0] or width % sides[1]:
        return ()
    grid, found = (height // sides[0], width // sides[1]), []
    for number, stage in enumerate(processor.stages):
        if number:
            grid = (-(-grid[0] // 2), -(-grid[1] // 2))
        shifts = [stage.window // 2 * (i % 2) for i in range(len(stage.layers))]
        found += [
            WindowLayout(name, grid, stage.window, shift) for name, shift in zip(stage.layers, shifts, strict=True)
        ]
    return tuple(found)


class TensorReader(ImageReader):
    """The image that came with a model as a tensor; nothing else can be given."""

    controls = ()

    def __init__(self, model: nn.Module, inputs: Mapping[str, Any], roles: Roles, note: str) -> None:
        self.inputs, self.note = FixedReader(inputs), note
        self.reads: Any = getattr(model.config, "pool", None)
        self.pixels, self.patch = roles.grid or "", roles.patch

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> ImageInput:
        inputs = self.inputs.read(given, target).inputs
        x: Tensor = inputs[self.pixels]
        height, width = x.shape[-2:]
        return ImageInput(
            inputs=inputs,
            pixels=self.pixels,
            image=_visible(x[0]),
            grid=patch_grid(height, width, self.patch),
            patch=self.patch,
            piece="part" if self.patch is None else "patch",
            reads=self.reads,
            answers="classes",
            called="class {}".format,
            notes=(self.note,),
        )


def _visible(x: Tensor) -> Tensor:
    """Numbers of any size as light.   c h w -> 3 h w in 0 … 1; of other than three colours, their mean"""
    x = x.detach().float().cpu()
    if len(x) != 3:
        x = x.mean(0, keepdim=True)
    low, high = x.min(), x.max()
    return ((x - low) / (high - low).clamp_min(1e-12)).expand(3, -1, -1)


DRAWN = "This image was drawn for the purpose; --input shows one of yours."
CAPTION = Control(name="target", type="string", label="caption", placeholder="What is written; empty: by the model")
QUESTION = Control(name="target", type="string", label="question", placeholder="A question about the image")


class ForeignCaptionReader(ImageReader):
    """An image as the model wants it, with words that were given or that the model writes itself."""

    views = (WordsView(), *ImageReader.views)
    takes_target = True

    def __init__(self, processor: CaptionProcessor) -> None:
        self.processor, self.longest = processor, processor.longest
        self.controls = (IMAGE, CAPTION if processor.writes else QUESTION)

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> CaptionInput:
        processor = self.processor
        found = processor.image.process(placeholder_image() if given is None else open_image(given))
        text = target.decode("utf-8", "replace") if isinstance(target, bytes) else target
        if text is not None and not text.strip():
            text = None
        prepared = processor.prepare(found.x, text)
        count = len(prepared.ids)
        self.check_length(count, "the words")
        height, width = found.x.shape[-2:]
        sides = processor.image.patch
        return CaptionInput(
            inputs=prepared.inputs,
            streams=(Tokens("words", tuple(map(processor.called, prepared.ids))),),
            pixels=processor.image.pixels,
            image=(found.x[0] * found.deviation + found.mean).clamp(0, 1),
            grid=patch_grid(height, width) if sides is None else (height // sides[0], width // sides[1]),
            piece="part" if sides is None else "patch",
            ids=prepared.name,
            along=prepared.along,
            merges=processor.image.merges,
            answers="next",
            called=processor.called,
            writes=None if prepared.writes is None else tuple(map(processor.called, prepared.writes)),
            target=text,
            name=Path(given).name if isinstance(given, str) else None,
            notes=(*processor.notes, *(() if given is not None else (DRAWN,))),
        )

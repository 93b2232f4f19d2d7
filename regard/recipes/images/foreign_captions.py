"""Images with words, for models that no recipe made: captions that they write, questions that they read."""

from __future__ import annotations

from pathlib import Path

from regard.look.model_input import Tokens
from regard.look.reader import Control
from regard.recipes.images.caption_input import CaptionInput
from regard.recipes.images.open_image import open_image, patch_grid, placeholder_image
from regard.recipes.images.reader import IMAGE, ImageReader
from regard.recipes.images.views.words import WordsView
from regard.recipes.processors import CaptionProcessor

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

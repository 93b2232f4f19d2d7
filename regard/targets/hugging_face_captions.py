"""Models of Hugging Face that put an image into words: what they write, or what they are asked about it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.recipes.processors import CaptionProcessor, PreparedCaption
from regard.targets.hugging_face_inputs import IMAGE_FILES, TEXT_FILES, HuggingFaceImage, HuggingFaceText, open_beside

LONGEST = 16  # words that a model writes for a start
QUESTION = "what is in the image?"


def caption_processor(path: Path, model: nn.Module) -> CaptionProcessor | None:
    """How an image and words become inputs of the model of this directory; None for a model that does not
    need both, or that writes nothing."""
    names = inspect.signature(model.forward).parameters
    pixels = names.get("pixel_values")
    main = getattr(model, "main_input_name", "")
    can_write = getattr(model, "can_generate", None)
    if pixels is None or can_write is None or not can_write():
        return None
    needs_image = main == "pixel_values" or pixels.default is pixels.empty
    if not needs_image or not {"decoder_input_ids", "input_ids"} & set(names):
        return None
    vision = vision_config(model)
    if vision is None:
        return None
    image = HuggingFaceImage(model, open_beside(path, IMAGE_FILES, "AutoImageProcessor"), vision)
    return HuggingFaceCaption(model, image, open_beside(path, TEXT_FILES, "AutoTokenizer"))


def vision_config(model: nn.Module) -> Any | None:
    """The part of a configuration that is about the image."""
    config: Any = model.config
    return getattr(config, "vision_config", None) or getattr(config, "encoder", None)


class HuggingFaceCaption(CaptionProcessor):
    """An image through the preprocessing of a directory, and words through its tokenizer."""

    def __init__(self, model: nn.Module, image: HuggingFaceImage, tokenizer: Any | None) -> None:
        self.model, self.image, self.text = model, image, HuggingFaceText(model, tokenizer)
        names = inspect.signature(model.forward).parameters
        # an encoder that reads words, beside a decoder that writes: a question, and its answer
        self.writes = not {"input_ids", "decoder_input_ids"} <= set(names)
        self.ids = "decoder_input_ids" if self.writes and "decoder_input_ids" in names else "input_ids"
        self.longest = self.text.longest
        self.notes = self.text.notes

    def called(self, id: int) -> str:
        return self.text.called(id)

    def prepare(self, pixels: Tensor, text: str | None) -> PreparedCaption:
        if not self.writes:
            return self._asked(pixels, text)
        ids = self._write({self.image.pixels: pixels}) if text is None else self._encode(text)
        read, writes = ids[:-1], ids[1:]
        inputs = {self.image.pixels: pixels, self.ids: torch.tensor([read])}
        return PreparedCaption(inputs=inputs, ids=read, name=self.ids, writes=writes)

    def _asked(self, pixels: Tensor, text: str | None) -> PreparedCaption:
        """A question, and the answer that the model writes."""
        question = self.text.encode(text or self._question())
        inputs: dict[str, Any] = {self.image.pixels: pixels, "input_ids": question["input_ids"]}
        if "attention_mask" in question:
            inputs["attention_mask"] = question["attention_mask"]
        answer = self._write(inputs)
        inputs["decoder_input_ids"] = torch.tensor([answer[:-1]])
        ids = question["input_ids"][0].tolist()
        along = ("attention_mask",) if "attention_mask" in inputs else ()
        return PreparedCaption(inputs=inputs, ids=ids, name="input_ids", along=along, writes=None)

    def _question(self) -> str:
        return QUESTION if self.text.tokenizer is not None else str(self.text.example)

    @torch.no_grad()
    def _write(self, inputs: dict[str, Any]) -> list[int]:
        """What the model writes, with the token that begins: at least one word."""
        model: Any = self.model
        written = model.generate(**inputs, max_new_tokens=LONGEST, do_sample=False, num_beams=1)
        ids: list[int] = written[0].tolist()
        if len(ids) > 1:
            return ids
        return [self._begin(), *ids]

    def _encode(self, text: str) -> list[int]:
        """Words that were given, after the token that begins."""
        return [self._begin(), *self.text.words(text)]

    def _begin(self) -> int:
        """The token that a text begins with."""
        config: Any = self.model.config
        text = config.get_text_config()
        known = (getattr(config, "decoder_start_token_id", None), getattr(text, "bos_token_id", None))
        return next((id for id in known if isinstance(id, int)), 0)

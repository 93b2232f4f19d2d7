"""How text and images become inputs of models of Hugging Face: by the tokenizer and the preprocessing beside
them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.trial import check_tokenizer
from regard.errors import RegardError
from regard.files import read_json
from regard.recipes.processors import ImageProcessor, Pixels, TextProcessor, WindowStage
from regard.symmetry.model_under_test import first_line
from regard.targets.hugging_face import library
from regard.targets.promises import is_causal

TEXT_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
)
IMAGE_FILES = ("preprocessor_config.json", "processor_config.json")
NO_TOKENIZER = "There is no tokenizer beside the model, so tokens are shown as ids."


def text_processor(path: Path, model: nn.Module) -> TextProcessor | None:
    """How text becomes inputs of the model of this directory; None for a model that does not take text
    alone."""
    if getattr(model, "main_input_name", "") != "input_ids":
        return None
    return HuggingFaceText(model, open_beside(path, TEXT_FILES, "AutoTokenizer"))


def image_processor(path: Path, model: nn.Module) -> ImageProcessor | None:
    """How an image becomes the input of the model of this directory; None for a model that does not take
    images alone."""
    names = inspect.signature(model.forward).parameters
    if getattr(model, "main_input_name", "") != "pixel_values" or "decoder_input_ids" in names:
        return None
    return HuggingFaceImage(model, open_beside(path, IMAGE_FILES, "AutoImageProcessor"))


def open_beside(path: Path, files: Sequence[str], cls: str) -> Any | None:
    """The tokenizer or the preprocessing of a directory; None if it has none. Code that comes with it is
    never run."""
    if not any((path / name).exists() for name in files):
        return None
    if (path / "tokenizer.json").exists():
        _try_tokenizer(path / "tokenizer.json")
    try:
        return getattr(library(), cls).from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        part = "tokenizer" if cls == "AutoTokenizer" else "preprocessing"
        raise RegardError(f"{path}: its {part} cannot be opened: {first_line(error)}") from error


def _try_tokenizer(path: Path) -> None:
    """Raise for a tokenizer.json that the library should not be given."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise RegardError(f"{path} is not a tokenizer.json: it holds no object")
    try:
        check_tokenizer(found)
    except RegardError as error:
        raise RegardError(f"{path} is not a tokenizer.json: {error}") from error


class HuggingFaceText(TextProcessor):
    """Text through the tokenizer of a directory; without one, ids as numbers."""

    ids = "input_ids"
    along = ("attention_mask", "token_type_ids")

    def __init__(self, model: nn.Module, tokenizer: Any | None) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.names = tuple(inspect.signature(model.forward).parameters)
        self.config: Any = model.config
        if "decoder_input_ids" in self.names:
            self.target = "decoder_input_ids"
        else:
            self.target = None
        self.longest = self._longest()
        self.notes = () if tokenizer is not None else (NO_TOKENIZER,)
        if tokenizer is not None:
            self.example = None
        else:
            self.example = self._some_ids()
        heads: Any = getattr(self.config, "architectures", None) or [type(model).__name__]
        if "SequenceClassification" in str(heads[0]) or "SequenceClassification" in type(model).__name__:
            self.answers = "classes"
        else:
            if is_causal(model) or self.target is not None:
                self.answers = "next"
            else:
                self.answers = "filled"

    def _longest(self) -> int | None:
        text = self.config.get_text_config()
        limits = [getattr(text, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
        limits += [getattr(self.tokenizer, "model_max_length", None)]
        known = [each for each in limits if isinstance(each, int) and 0 < each < 10**6]
        return min(known, default=None)

    def _some_ids(self) -> str:
        vocab = int(getattr(self.config.get_text_config(), "vocab_size", 100))
        ids = torch.randint(vocab, (12,), generator=torch.Generator().manual_seed(0))
        return " ".join(map(str, ids.tolist()))

    def encode(self, text: str) -> dict[str, Any]:
        if self.tokenizer is None:
            return {"input_ids": self._numbers(text)}
        found = self.tokenizer(text, return_tensors="pt")
        return {name: x for name, x in found.items() if name in self.names}

    def words(self, text: str) -> list[int]:
        """The ids of a text alone, without what the tokenizer puts around it."""
        if self.tokenizer is None:
            found: list[int] = self._numbers(text)[0].tolist()
        else:
            found = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def called(self, id: int) -> str:
        if self.tokenizer is None:
            return str(id)
        token = self.tokenizer.convert_ids_to_tokens(id)
        if token is None:
            return f"<{id}>"
        shown: str = token.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
        if shown.isascii():
            return shown
        return str(self.tokenizer.decode([id]))

    def label(self, number: int) -> str:
        return str((getattr(self.config, "id2label", None) or {}).get(number, number))

    def _numbers(self, text: str) -> Tensor:
        words = text.replace(",", " ").split()
        if not words or not all(word.isdecimal() for word in words):
            raise RegardError(
                f"there is no tokenizer beside the model, so the input must be ids such as '12 7 99', got {text[:40]!r}"
            )
        vocab = getattr(self.config.get_text_config(), "vocab_size", None)
        large = [word for word in words if vocab is not None and int(word) >= vocab]
        if large:
            raise RegardError(f"ids are below the vocabulary of {vocab:,}, got {large[0]}")
        return torch.tensor([[int(word) for word in words]])

    def encode_target(self, text: str) -> Tensor:
        """What the decoder reads while it writes this text: one token later."""
        if self.tokenizer is None:
            ids = self._numbers(text)
        else:
            ids = self.tokenizer(text_target=text, return_tensors="pt")["input_ids"]
        start = self.config.decoder_start_token_id
        if isinstance(start, int):
            begin = start
        else:
            begin = int(getattr(self.config, "bos_token_id", 0) or 0)
        if ids.shape[1] <= 1:
            return torch.tensor([[begin]])
        return torch.cat((torch.full((1, 1), begin), ids[:, :-1]), 1)

    @torch.no_grad()
    def write_target(self, inputs: Mapping[str, Any]) -> Tensor:
        """What the model itself writes, greedily, for a start."""
        model: Any = self.model
        try:
            found: Tensor = model.generate(**inputs, max_new_tokens=16, do_sample=False, num_beams=1)
            return found
        except (ValueError, TypeError, AttributeError, RuntimeError):  # a body without a head writes nothing
            ids: Tensor = inputs["input_ids"]
            return ids[:, : max(2, ids.shape[1] // 2)]


class HuggingFaceImage(ImageProcessor):
    """An image through the preprocessing of a directory, or to the model's size in plain."""

    pixels = "pixel_values"

    def __init__(self, model: nn.Module, processor: Any | None, config: Any | None = None) -> None:
        """config: the part of the model's that is about images; None: all of it"""
        self.processor = processor
        self.config: Any = model.config if config is None else config
        self.classifies = bool(getattr(self.config, "id2label", None)) and hasattr(model, "classifier")
        patch = getattr(self.config, "patch_size", None)
        sides = tuple(patch) if isinstance(patch, list | tuple) else (patch, patch)
        if isinstance(sides[0], int):
            self.patch = (sides[0], sides[1])
        else:
            self.patch = None
        self.stages = self._stages(model)
        self.merges = hasattr(self.config, "depths")

    def _stages(self, model: nn.Module) -> tuple[WindowStage, ...]:
        """Of a Swin; of others nothing is known."""
        names = [name for name, module in model.named_modules() if type(module).__name__ == "SwinLayer"]
        if not names or len(names) != sum(getattr(self.config, "depths", ())):
            return ()
        found, rest = [], iter(names)
        for depth in self.config.depths:
            found.append(WindowStage(tuple(next(rest) for _ in range(depth)), self.config.window_size))
        return tuple(found)

    def label(self, number: int) -> str:
        return str((getattr(self.config, "id2label", None) or {}).get(number, number))

    def process(self, image: Any) -> Pixels:
        half = torch.full((3, 1, 1), 0.5)
        if self.processor is not None:
            pixels = self.processor(image, return_tensors="pt")["pixel_values"]
            known = [getattr(self.processor, name, None) for name in ("image_mean", "image_std")]
            mean, deviation = 0 * half, 0 * half + 1
            if getattr(self.processor, "do_normalize", False) and all(each is not None for each in known):
                mean, deviation = (torch.tensor(each).view(-1, 1, 1) for each in known)
            return Pixels(x=pixels, mean=mean, deviation=deviation)
        size = getattr(self.config, "image_size", None) or 224
        if isinstance(size, list | tuple):
            height, width = size
        else:
            height, width = (size, size)
        resized = image.resize((width, height))
        values = torch.from_numpy(np.asarray(resized, dtype="float32") / 255).permute(2, 0, 1)
        channels = int(getattr(self.config, "num_channels", 3))
        if channels != 3:
            values = values.mean(0, keepdim=True).expand(channels, -1, -1)
        return Pixels(x=((values - 0.5) / 0.5)[None], mean=half[:1], deviation=half[:1])

"""How text and pictures become inputs of models of Hugging Face: by the tokenizer and the preprocessing beside them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.look.model_input import Cut, Given, Tokens
from regard.look.reader import Reader
from regard.recipes.images.open_image import cells, drawn, opened
from regard.recipes.text.reader import FIRST_WORDS, as_text
from regard.symmetry.subject import first_line
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
PICTURE_FILES = ("preprocessor_config.json", "processor_config.json")
NO_TOKENIZER = "There is no tokenizer beside the model, so tokens are shown as ids."


def reader_of(path: Path, model: nn.Module) -> Reader | None:
    """What reads for the model of this directory; None for one that takes neither text nor pictures alone."""
    names = list(inspect.signature(model.forward).parameters)
    main: Any = getattr(model, "main_input_name", "")
    if main == "pixel_values" and "decoder_input_ids" not in names:
        return ForeignPicture(model, beside(path, PICTURE_FILES, "AutoImageProcessor"))
    if main == "input_ids":
        return ForeignText(model, beside(path, TEXT_FILES, "AutoTokenizer"), is_causal(model), names)
    return None


def beside(path: Path, files: Sequence[str], cls: str) -> Any | None:
    """The tokenizer or the preprocessing of a directory; None if it has none. Code that comes with it is never run."""
    if not any((path / name).exists() for name in files):
        return None
    try:
        return getattr(library(), cls).from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        kind = "tokenizer" if cls == "AutoTokenizer" else "preprocessing"
        raise ValueError(f"{path}: its {kind} cannot be opened: {first_line(error)}") from error


class ForeignText(Reader):
    """Text for a model of Hugging Face, through the tokenizer of its directory; without one, ids as numbers."""

    kind = "text"

    def __init__(self, model: nn.Module, tokenizer: Any | None, causal: bool, names: Sequence[str]) -> None:
        self.model, self.tokenizer, self.causal, self.names = model, tokenizer, causal, tuple(names)
        self.takes_target = "decoder_input_ids" in self.names
        config: Any = model.config
        self.config, text = config, config.get_text_config()
        limits = [
            getattr(text, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")
        ]
        limits += [getattr(tokenizer, "model_max_length", None)]
        known = [each for each in limits if isinstance(each, int) and 0 < each < 10**6]
        self.longest = min(known, default=None)

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        text = self.example() if given is None else as_text(given)
        inputs = self.encoded(text)
        ids = inputs["input_ids"]
        self.fits(ids.shape[1], "the text")
        streams = [self.stream("source" if self.takes_target else "tokens", ids)]
        names, main = ["attention_mask", "token_type_ids"], "input_ids"
        if self.takes_target:
            written = self.written(inputs) if target is None else self.target_ids(as_text(target))
            self.fits(written.shape[1], "the target")
            inputs["decoder_input_ids"] = written
            streams.insert(0, self.stream("target", written))
            names, main = [], "decoder_input_ids"
        heads: Any = getattr(self.config, "architectures", None) or [type(self.model).__name__]
        classifies = (
            "SequenceClassification" in str(heads[0]) or "SequenceClassification" in type(self.model).__name__
        )
        answers: Any = "classes" if classifies else "next" if self.causal or self.takes_target else "filled"
        labels = getattr(self.config, "id2label", None) or {}
        return Given(
            inputs=inputs,
            streams=tuple(streams),
            kind="text",
            ids=main,
            text=text,
            target=target if self.takes_target else None,
            answers=answers,
            called=(lambda i: str(labels.get(i, i))) if classifies else self.called,
            along=tuple(name for name in names if name in inputs),
            notes=() if self.tokenizer is not None else (NO_TOKENIZER,),
        )

    def stream(self, name: str, ids: Tensor) -> Tokens:
        return Tokens(name, tuple(map(self.called, ids[0].tolist())))

    def called(self, id: int) -> str:
        """A token as it stands in a text: with the space before it, if there is one."""
        if self.tokenizer is None:
            return str(id)
        token = self.tokenizer.convert_ids_to_tokens(id)
        if token is None:
            return f"<{id}>"
        shown = token.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
        return shown if shown.isascii() else self.tokenizer.decode([id])

    def example(self) -> str:
        if self.tokenizer is not None:
            return FIRST_WORDS
        vocab = int(getattr(self.config.get_text_config(), "vocab_size", 100))
        ids = torch.randint(vocab, (12,), generator=torch.Generator().manual_seed(0))
        return " ".join(map(str, ids.tolist()))

    def encoded(self, text: str) -> dict[str, Any]:
        if self.tokenizer is None:
            return {"input_ids": self.numbers(text)}
        found = self.tokenizer(text, return_tensors="pt")
        return {name: x for name, x in found.items() if name in self.names}

    def numbers(self, text: str) -> Tensor:
        words = text.replace(",", " ").split()
        if not words or not all(word.isdecimal() for word in words):
            raise ValueError(
                f"there is no tokenizer beside the model, so the input must be ids such as '12 7 99', got {text[:40]!r}"
            )
        vocab = getattr(self.config.get_text_config(), "vocab_size", None)
        large = [word for word in words if vocab is not None and int(word) >= vocab]
        if large:
            raise ValueError(f"ids are below the vocabulary of {vocab:,}, got {large[0]}")
        return torch.tensor([[int(word) for word in words]])

    def target_ids(self, text: str) -> Tensor:
        """What the decoder reads while it writes this text: one token later."""
        if self.tokenizer is None:
            ids = self.numbers(text)
        else:
            ids = self.tokenizer(text_target=text, return_tensors="pt")["input_ids"]
        start = self.config.decoder_start_token_id
        begin = start if isinstance(start, int) else int(getattr(self.config, "bos_token_id", 0) or 0)
        return (
            torch.cat((torch.full((1, 1), begin), ids[:, :-1]), 1)
            if ids.shape[1] > 1
            else torch.tensor([[begin]])
        )

    @torch.no_grad()
    def written(self, inputs: dict[str, Any]) -> Tensor:
        """What the model itself writes, greedily, for a start."""
        model: Any = self.model
        try:
            return model.generate(**inputs, max_new_tokens=16, do_sample=False, num_beams=1)
        except (ValueError, TypeError, AttributeError, RuntimeError):  # a body without a head writes nothing
            return inputs["input_ids"][:, : max(2, inputs["input_ids"].shape[1] // 2)]


class ForeignPicture(Reader):
    """A picture for a model of Hugging Face, through the preprocessing of its directory, or to its size in plain."""

    kind = "image"

    def __init__(self, model: nn.Module, processor: Any | None) -> None:
        self.processor = processor
        self.config: Any = model.config
        self.classifies = bool(getattr(self.config, "id2label", None)) and hasattr(model, "classifier")
        self.windowed = [
            name for name, module in model.named_modules() if type(module).__name__ == "SwinLayer"
        ]

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        picture = drawn() if given is None else opened(given)
        pixels, mean, deviation = self.processed(picture)
        height, width = pixels.shape[-2:]
        patch = getattr(self.config, "patch_size", None)
        sides = tuple(patch) if isinstance(patch, list | tuple) else (patch, patch)
        labels = getattr(self.config, "id2label", None) or {}
        return Given(
            inputs={"pixel_values": pixels},
            kind="image",
            picture=(pixels[0] * deviation + mean).clamp(0, 1),
            grid=(height // sides[0], width // sides[1])
            if isinstance(sides[0], int)
            else cells(height, width),
            piece="patch" if isinstance(sides[0], int) else "part",
            cuts=self.cuts(height, width),
            answers="classes" if self.classifies else None,
            called=(lambda i: str(labels.get(i, i))) if self.classifies else None,
            name=Path(given).name if isinstance(given, str) else None,
            notes=()
            if given is not None
            else ("This picture was drawn for the purpose; --input shows one of yours.",),
        )

    def cuts(self, height: int, width: int) -> tuple[Cut, ...]:
        """How a Swin cuts this picture: every second layer of a stage is shifted by half a window, and sides are halved between
        stages. Of others, and of pictures that are no whole number of patches, nothing is known."""
        if not self.windowed:
            return ()
        config, patch = self.config, self.config.patch_size
        if len(self.windowed) != sum(config.depths) or height % patch or width % patch:
            return ()
        grid, names, found = (height // patch, width // patch), iter(self.windowed), []
        for stage, depth in enumerate(config.depths):
            if stage:
                grid = (-(-grid[0] // 2), -(-grid[1] // 2))
            found += [
                Cut(next(names), grid, config.window_size, config.window_size // 2 * (i % 2))
                for i in range(depth)
            ]
        return tuple(found)

    def processed(self, picture: Any) -> tuple[Tensor, Tensor, Tensor]:
        """What the model sees, and what undoes its scaling.   1 3 h w, 3 1 1, 3 1 1"""
        half = torch.full((3, 1, 1), 0.5)
        if self.processor is not None:
            pixels = self.processor(picture, return_tensors="pt")["pixel_values"]
            known = [getattr(self.processor, name, None) for name in ("image_mean", "image_std")]
            scaled = getattr(self.processor, "do_normalize", False) and all(
                each is not None for each in known
            )
            mean, deviation = (
                (torch.tensor(each).view(-1, 1, 1) for each in known) if scaled else (0 * half, 0 * half + 1)
            )
            return pixels, mean, deviation
        size = getattr(self.config, "image_size", None) or 224
        height, width = size if isinstance(size, list | tuple) else (size, size)
        resized = picture.resize((width, height))
        values = torch.from_numpy(np.asarray(resized, dtype="float32") / 255).permute(2, 0, 1)
        channels = int(getattr(self.config, "num_channels", 3))
        values = values if channels == 3 else values.mean(0, keepdim=True).expand(channels, -1, -1)
        return ((values - 0.5) / 0.5)[None], half[:1], half[:1]

"""What lies beside the weights of a Hugging Face directory: its tokenizer, or how it prepares images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from regard import files
from regard.data.chat_template import has_chat_template, read_chat_template
from regard.errors import RegardError
from regard.pretrained.weights import Pretrained

SLOW = ("vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")


def add_what_is_beside(found: Pretrained, path: Path) -> Pretrained:
    """The model with its tokenizer, or with its preprocessing of images."""
    if found.kind in ("vit", "swin"):
        return _with_images(found, path)
    return _with_tokenizer(found, path)


def _with_tokenizer(found: Pretrained, path: Path) -> Pretrained:
    file = path / "tokenizer.json"
    if file.exists():
        data = files.read_json(file)
        if not isinstance(data, dict) or "model" not in data:
            raise RegardError(f"{file} is not a tokenizer.json of Hugging Face: it has no key 'model'")
        return _with_chat_template(replace(found, tokenizer=data, ends=_ends(path)), path)
    other = [name for name in SLOW if (path / name).exists()]
    what = f"{path} has no tokenizer.json, so the model reads ids only"
    if other:
        what += (
            f"; make one from its {other[0]} with transformers: "
            f"AutoTokenizer.from_pretrained({str(path)!r}).save_pretrained({str(path)!r})"
        )
    return replace(found, notes=(*found.notes, what))


def _with_chat_template(found: Pretrained, path: Path) -> Pretrained:
    """A template that cannot be used is left out: the model can be, without it."""
    try:
        if found.kind != "decoder" or not has_chat_template(path):
            return found
        return replace(found, chat=read_chat_template(str(path)))
    except (ValueError, OSError) as error:
        return replace(found, notes=(*found.notes, f"its chat template is left out: {error}"))


def _ends(path: Path) -> tuple[int, ...]:
    """Ids that end a text: what is said for generation, or else by the configuration."""
    for name in ("generation_config.json", "config.json"):
        plain = files.read_json(path / name) if (path / name).exists() else {}
        given = plain.get("eos_token_id") if isinstance(plain, dict) else None
        ids = given if isinstance(given, list) else [given]
        if given is not None and all(type(id) is int and id >= 0 for id in ids):
            return tuple(ids)
    return ()


def _with_images(found: Pretrained, path: Path) -> Pretrained:
    file = path / "preprocessor_config.json"
    if not file.exists():
        note = f"{path} has no preprocessor_config.json; images are taken to have mean and deviation 0.5"
        return replace(found, notes=(*found.notes, note))
    plain = files.read_json(file)
    if not isinstance(plain, dict):
        raise RegardError(f"{file} holds no settings")
    colours = found.config.colours
    if plain.get("do_normalize", True):
        light: dict[str, Any] = {"mean": plain.get("image_mean"), "deviation": plain.get("image_std")}
    else:
        light = {"mean": [0.0] * colours, "deviation": [1.0] * colours}
    for name, value in light.items():
        fits = isinstance(value, list) and len(value) == colours
        if not fits or not all(isinstance(each, int | float) for each in value):
            raise RegardError(f"{file}: {name} of images must be {colours} numbers, got {value!r}")
    images: dict[str, Any] = {name: tuple(float(each) for each in value) for name, value in light.items()}
    return replace(found, images=images)

"""The chat template of a model of others: chat_template.jinja, or that in a tokenizer_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import files
from regard.data.chat_template import MOST_SOURCE, ChatTemplate, try_template
from regard.errors import RegardError

CONFIG, SOURCE = "tokenizer_config.json", "chat_template.jinja"
SIGNS = ("bos_token", "eos_token", "unk_token", "pad_token")  # that templates name


def has_chat_template(folder: Path) -> bool:
    """Does the folder of a model hold a chat template?"""
    if (folder / SOURCE).exists():
        return True
    about = files.read_json(folder / CONFIG) if (folder / CONFIG).exists() else None
    return isinstance(about, Mapping) and "chat_template" in about


def read_chat_template(given: str) -> ChatTemplate:
    """The template of a file, or of the folder of a model. It is tried before it is returned."""
    path = Path(given).expanduser()
    if path.is_dir():
        there = [path / name for name in (SOURCE, CONFIG) if (path / name).exists()]
        if not there:
            raise RegardError(f"{given} has no chat template: neither {SOURCE} nor {CONFIG} is in it")
        path = there[0]
    if not path.exists():
        raise FileNotFoundError(f"there is no {given}; give a {SOURCE}, a {CONFIG}, or their folder")
    config = path if path.suffix == ".json" else path.with_name(CONFIG)
    about: Any = files.read_json(config) if config.exists() else {}
    if not isinstance(about, Mapping):
        raise RegardError(f"{config} is not a {CONFIG}: it holds no object")
    if path.suffix == ".json":
        source = _source_of(about, given)
    else:
        with files.open_regular(path) as opened:
            source = files.read_bounded(opened, 4 * MOST_SOURCE, given).decode("utf-8", "replace")
    template = ChatTemplate(source, _signs_of(about))
    try:
        try_template(template)
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from error
    return template


def _source_of(about: Mapping[str, Any], given: str) -> str:
    """The template in a tokenizer_config.json: a text, or several with names, of which one is the default."""
    found = about.get("chat_template")
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, Mapping)}
        found = named.get("default")
    if not isinstance(found, str):
        raise RegardError(f"{given} has no chat_template; the model was not trained on conversations")
    return found


def _signs_of(about: Mapping[str, Any]) -> dict[str, str]:
    """<s> and others: a text, or an object that holds it."""
    signs: dict[str, str] = {}
    for name in SIGNS:
        sign = about.get(name)
        if isinstance(sign, Mapping):
            sign = sign.get("content")
        if isinstance(sign, str):
            signs[name] = sign
    return signs

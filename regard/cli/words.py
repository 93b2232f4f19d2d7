"""The words after a command, taken apart: options with their values, whole numbers, and what is no option at all."""

import os
from typing import Any


def refuse_several(words: list[str]) -> None:
    """A glob without quotes becomes many words."""
    for number, word in enumerate(words):
        after = words[number + 1 + (word == "--data") :][:1]
        if (
            word.partition("=")[0] == "--data"
            and after
            and not after[0].startswith("-")
            and os.path.exists(after[0])
        ):
            raise ValueError(
                f"--data takes one path, and after it comes another: {after[0]}; for several files give "
                f"their folder, or a glob in quotes: --data '*.txt'"
            )


def refuse_options(words: list[str], known: tuple[str, ...], program: str) -> None:
    """What is left and looks like an option is none that is known. A text may begin with one dash, or hold spaces."""
    for word in words:
        if word.startswith("--") and not any(each.isspace() for each in word):
            from regard.cli import options

            raise options.unknown(word, list(known), program)


def whole(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {text!r}")
    return int(text)


def dtype_and_device(given: dict[str, str]) -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {}
    if "--dtype" in given:
        known = {
            "float64": torch.float64,
            "float32": torch.float32,
            "bfloat16": torch.bfloat16,
            "float16": torch.float16,
        }
        if given["--dtype"] not in known:
            raise ValueError(f"--dtype must be one of {', '.join(known)}, got {given['--dtype']!r}")
        found["dtype"] = known[given["--dtype"]]
    if "--device" in given:
        try:
            found["device"] = torch.empty(0, device=given["--device"]).device
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"--device {given['--device']} cannot be used here: {str(error).splitlines()[0]}"
            ) from None
    return found


def take_out(words: list[str], names: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """The values of some options, given as `--name value` or `--name=value`, and the words that are left."""
    found: dict[str, str] = {}
    rest: list[str] = []
    words = list(words)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name not in names:
            rest.append(word)
        elif equals:
            found[name] = value
        elif words and not words[0].startswith("--"):
            found[name] = words.pop(0)
        else:
            raise ValueError(f"{name} needs a value after it")
    return found, rest

"""The words of `regard train` that are read before the others: --data, --model, --from, --out."""

import os

from regard.errors import RegardError


def check_single_path(words: list[str]) -> None:
    """A glob without quotes becomes many words."""
    for number, word in enumerate(words):
        after = words[number + 1 + (word == "--data") :][:1]
        if word.partition("=")[0] == "--data" and after and not after[0].startswith("-") and os.path.exists(after[0]):
            raise RegardError(
                f"--data takes one path, and after it comes another: {after[0]}; for several files give "
                f"their folder, or a glob in quotes: --data '*.txt'"
            )


def pop_options(words: list[str], names: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
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
            raise RegardError(f"{name} needs a value after it")
    return found, rest


def pop_data_options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options of a run's data (--data.text body), by dotted name, and the words that are left."""
    names = tuple(dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("--data.")))
    found, rest = pop_options(words, names)
    return {name.removeprefix("--").replace("-", "_"): value for name, value in found.items()}, rest

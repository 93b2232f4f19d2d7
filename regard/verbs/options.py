"""Words of the command line as options of a config, with errors of one line; and the help that lists them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Mapping
from types import NoneType
from typing import Any, get_args, get_origin

from regard.config import choices_of, is_unsplit, override, plain_type, union_members, without_bounds
from regard.config import options_of as types_of
from regard.errors import RegardError, nearest
from regard.recipes.base import Recipe
from regard.recipes.settings import Settings
from regard.verbs.help import describe, list_options

FIRST = {  # what `regard train` takes before the options of the recipe, besides --data and --model
    "--out DIR": "where the run is kept; without it: runs/{recipe}, runs/{recipe}-2, ...",
    "--resume": "go on with the run of --out, exactly where it stopped; without --out: with the last that this recipe\n"
    "                trained under runs/",
    "--from RUN": "start with the weights of an earlier run",
    "--no-report": "end without curves, laws and report.html, which take a few seconds",
    "--debug": "the whole traceback when something goes wrong",
}


# ── what `regard train` takes


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


def read_settings_options(recipe: Recipe, words: list[str], program: str, cls: Any) -> Mapping[str, Any]:
    """The options among the words of `regard train`, as a TrainRequest asks for them."""
    if cls is None:
        return {name: read_value(value, int | str) for name, value in _read_plainly(words).items()}
    if not issubclass(cls, Settings):  # of the data alone: the others are read, or refused, later
        return read_words(cls, words, "", lambda word: None)
    more = [each.split()[0] for each in (*recipe.help, *FIRST)]
    return read_all_words(cls, words, program, more=more, hidden=recipe.data_derived)


def _read_plainly(words: list[str]) -> dict[str, str]:
    """Each option with the word after it, before it is known which options there are."""
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=False):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            given = value if equals else "True" if after.startswith("--") else after
            found[name.removeprefix("--").replace("-", "_")] = given
    return found


# ── reading


def read_all_words(
    cls: type[Any], words: list[str], program: str, *, more: Collection[str] = (), hidden: Collection[str] = ()
) -> dict[str, Any]:
    """The options of a config that the words say, by dotted name; a word that is none is an error.

    more: options that are read elsewhere, to be suggested; hidden: options that follow from the data, not to be suggested
    """

    def refuse(word: str) -> None:
        raise unknown_option(word, [*options_of(cls), *more], program, hidden)

    return read_words(cls, words, program, refuse)


def read_options(cls: type[Any], words: list[str], program: str) -> tuple[Any, list[str]]:
    """The options of a config among the words of a command, and the words that are none.

    A text may begin with one dash, or hold spaces; a word that begins with two dashes and holds none is meant
    as an option.
    """
    rest: list[str] = []

    def keep(word: str) -> None:
        if word.startswith("--") and not any(each.isspace() for each in word):
            raise unknown_option(word, list(options_of(cls)), program)
        rest.append(word)

    return _made(cls, read_words(cls, words, program, keep), program), rest


def _made(cls: type[Any], given: dict[str, Any], program: str) -> Any:
    """The config with these options; an error names one as it is typed."""
    try:
        return override(cls(), given)
    except RegardError as error:
        said = error.about(error.option and as_option(error.option))
        raise RegardError(f"{said}{' ' if said.endswith('?') else '; '}see: {program} --help") from None


def take_options(cls: type[Any] | None, words: list[str], program: str) -> tuple[dict[str, Any], list[str]]:
    """The options of a config, by name, and those of the data of a run (--data.text body), by dotted name; and the words
    that are left, among which may be other options."""
    rest: list[str] = []
    own: dict[str, Any] = {}
    if cls is None:
        rest = words
    else:
        own = read_words(cls, words, program, rest.append)
        _made(cls, own, program)
    names = dict.fromkeys(word.partition("=")[0] for word in rest if word.startswith("--data."))
    data, rest = pop_options(rest, tuple(names))
    return own | {name.removeprefix("--").replace("-", "_"): value for name, value in data.items()}, rest


def one_word(words: list[str], command: str, what: str) -> str:
    """The run or target of a command that takes one."""
    if len(words) != 1:
        given = " ".join(words) or "none"
        raise RegardError(f"regard {command} takes one {what}, got {given}; see: regard {command} --help")
    return words[0]


def options_of(cls: type[Any]) -> dict[str, Any]:
    """Each option of a config (and of the configs in it) with its type: --train.steps: int | None."""
    return {as_option(name): hint for name, hint in types_of(cls).items()}


def as_option(name: str) -> str:
    """train.save_minutes as it is typed: --train.save-minutes"""
    return "--" + name.replace("_", "-")


def read_words(cls: type[Any], words: list[str], program: str, other: Callable[[str], None]) -> dict[str, Any]:
    """The options that the words say, by dotted name. other: what is done with a word that is none"""
    known = {as_option(name): (name, hint) for name, hint in types_of(cls).items()}
    found: dict[str, Any] = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        option, equals, value = word.partition("=")
        option = option.replace("_", "-")
        positive = re.sub(r"^--(.*\.)?no-", r"--\1", option)
        name, hint = known.get(option) or known.get(positive) or ("", None)
        flag = plain_type(hint) is bool
        if hint is None or not (option in known or flag):
            other(word)
            continue
        lists = [each for each in map(without_bounds, union_members(hint)) if get_origin(each) is tuple]
        inner = get_args(lists[0]) if lists else ()
        values = [value] if equals else []
        if flag and not equals:
            values = [waiting.pop(0)] if waiting and waiting[0] in ("True", "False") else ["True"]
        while not (equals or flag) and waiting and not waiting[0].startswith("--") and (inner or not values):
            values.append(waiting.pop(0))
            if inner and not is_unsplit(hint) and "," in values[-1].rstrip(","):
                break  # the whole list: what follows is another word of the command
        if not values:
            raise RegardError(f"{option} needs a value after it; see: {program} --help")
        if inner and values[0] not in ("None", *choices_of(hint)):
            parts = values if is_unsplit(hint) else [part for each in values for part in each.split(",") if part]
            found[name] = [read_value(each, inner[0]) for each in parts]
        else:
            found[name] = read_value(values[0], hint)
        if flag and option not in known:
            found[name] = not found[name]
    return found


def read_value(word: str, hint: Any) -> Any:
    """A word as the number, None or text that its option may hold; what is none of them stays a word, to be refused."""
    kinds = [without_bounds(each) for each in union_members(hint)]
    if word == "None" and NoneType in kinds:
        return None
    if bool in kinds and word in ("True", "False"):
        return word == "True"
    for kind in (int, float):
        if kind in kinds:
            with contextlib.suppress(ValueError):
                return kind(word)
    return word


def _looks_like_path(word: str) -> bool:
    """A file or folder that exists, or a word that is written like one: my.txt, texts/, *.csv."""
    suffix = os.path.splitext(word)[1].lstrip(".")
    return os.path.exists(word) or "/" in word or "*" in word or (suffix.isalnum() and not suffix.isdigit())


def unknown_option(word: str, known: list[str], program: str, hidden: Collection[str] = ()) -> RegardError:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        hope = ""
        if "--data" in known and _looks_like_path(word):
            hope = f"did you mean --data {word}? "
        return RegardError(f"'{word}' is no option and no value of one; {hope}see: {program} --help")
    settable = [each for each in known if each[2:].replace("-", "_") not in hidden]
    same = [each for each in settable if each.rpartition(".")[2] == name.lstrip("-").replace("_", "-")]
    near = same[0] if same else nearest(name, settable)
    return RegardError(f"there is no option {name}; {f'did you mean {near}? ' if near else ''}see: {program} --help")


# ── help


def help_text(recipe: Recipe, path: str | None, kind: str | None, words: list[str], *, every: bool = False) -> str:
    """The options of a recipe with their defaults: the usual ones, or every one."""
    default = recipe.defaults(path, kind, _read_plainly(words).keys())
    known = {**recipe.help, **{name: what.format(recipe=recipe.name) for name, what in FIRST.items()}}
    first = "\n".join(f"  {name:<14}{what}" for name, what in known.items())
    examples = "".join(f"\n  {each}" for each in recipe.examples)
    program = f"regard train {recipe.name}"
    hidden = {*recipe.data_derived, "data.path"}
    return (
        f"usage: {program} [--data PATH] [OPTIONS]\n\n{recipe.title}\nHere: {type(default).__doc__}\n\n"
        f"examples:{examples}\n\n"
        f"{first}\n\n--data and --model choose the defaults of all that follows: give them before --help "
        f"to see yours.\n\n{list_options(default, program, every=every, hidden=hidden)}"
    )


def options_help(cls: type[Any], program: str, *, every: bool = False) -> str:
    """The options of a command with their defaults: the usual ones, or every one."""
    return f"{describe(cls)}\n\n{list_options(cls(), program, every=every)}"

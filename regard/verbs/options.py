"""Words of the command line as options of a config, with errors of one line; and the help that lists them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from functools import reduce
from types import NoneType
from typing import Any, get_args, get_origin

from regard.config import choices_of, is_unsplit, override, plain_type, union_members, without_bounds
from regard.config import options_of as types_of
from regard.errors import RegardError, nearest
from regard.recipes.base import Recipe
from regard.recipes.request import TrainRequest
from regard.recipes.settings import Settings, data_alone, with_optimiser
from regard.verbs.help import describe, list_options

FIRST = {  # what `regard train` takes before the options of the recipe, besides --data and --model
    "--out DIR": "where the run is kept; without it: runs/{recipe}, runs/{recipe}-2, ...",
    "--resume": "go on with the run of --out, exactly where it stopped; without --out: with the last that this recipe\n"
    "                trained under runs/",
    "--from RUN": "start with the weights of an earlier run",
    "--no-report": "end without curves, laws and report.html, which take a few seconds",
    "--debug": "the whole traceback when something goes wrong",
}


def read_settings(request: TrainRequest, words: list[str], program: str) -> Settings:
    """The settings that the words of a command line ask for."""
    recipe = request.recipe
    default = request.defaults(_first_options(request, words, program))
    chosen = change_settings(recipe, default, words, program)
    refined = request.defaults(_typed_options(chosen, words))
    if refined == default:
        return chosen
    return change_settings(recipe, refined, words, program)


def _first_options(request: TrainRequest, words: list[str], program: str) -> dict[str, Any]:
    """The options on which defaults depend: those by which the data is read."""
    early = early_options(request.recipe, words)
    section = request.recipe.data_section(request.data, request.kind, early)
    if section is None:
        return early
    own: list[str] = []
    is_own = False
    for word in words:
        if word.startswith("--"):
            is_own = word.startswith("--data.")
        own += [word] if is_own else []
    of: Any = type(section)
    cls = data_alone(of)
    return _typed_options(parse(cls, own, cls(data=section), program), own)


def change_settings(recipe: Recipe, settings: Settings, words: list[str], program: str) -> Settings:
    """The settings, of which only what the words of a command line say is changed."""
    settings = with_optimiser(settings, _option_value(words, "--train.optimiser"))
    derived = recipe.derived_options(settings)
    more = tuple(each.split()[0] for each in (*recipe.help, *FIRST))
    chosen: Settings = parse(type(settings), words, settings, program, more, frozenset(derived))
    typed = _typed_options(chosen, words)
    for key, advice in derived.items():
        if key in typed:
            instead = f"; {advice}" if advice else ""
            raise RegardError(f"follows from the data, so it cannot be set{instead}", option=key)
    return chosen


def _typed_options(chosen: Any, words: list[str]) -> dict[str, Any]:
    """The options among the words with their values, by dotted name: also those that equal the default."""
    return {key: reduce(getattr, key.split("."), chosen) for key in read_words(type(chosen), words, "", _ignore)}


def _ignore(word: str) -> None:
    """Words that are no option were refused before."""


def _option_value(words: list[str], option: str) -> str | None:
    """The value of an option on which defaults depend (rates on the optimiser), before it is known whether it
    can be right."""
    found = None
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == option:
            found = value if equals else " ".join(words[number + 1 : number + 2])
    return found


def early_options(recipe: Recipe, words: list[str]) -> dict[str, Any]:
    """The options on which defaults of this recipe depend; whole numbers as such."""
    found = {each: value for each in recipe.early_options if (value := _option_value(words, f"--{each}"))}
    return {name: read_value(value, int | str) for name, value in found.items()}


# ── reading


def parse(
    cls: type[Any],
    words: list[str],
    default: Any,
    program: str,
    more: tuple[str, ...] = (),
    hidden: frozenset[str] = frozenset(),
) -> Any:
    """The default with the options that the words say.

    more    options that are read elsewhere, to be suggested
    hidden  options that follow from the data, not to be suggested
    """

    def refuse(word: str) -> None:
        raise unknown_option(word, [*options_of(cls), *more], program, hidden)

    return _change(default, read_words(cls, words, program, refuse), program)


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

    return _change(cls(), read_words(cls, words, program, keep), program), rest


def _change(default: Any, given: Mapping[str, Any], program: str) -> Any:
    try:
        return override(default, given)
    except RegardError as error:
        words = error.about(error.option and as_option(error.option))
        raise RegardError(f"{words}{' ' if words.endswith('?') else '; '}see: {program} --help") from None


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


def unknown_option(word: str, known: list[str], program: str, hidden: frozenset[str] = frozenset()) -> RegardError:
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
    default = recipe.defaults(path, kind, early_options(recipe, words))
    known = {**recipe.help, **{name: what.format(recipe=recipe.name) for name, what in FIRST.items()}}
    first = "\n".join(f"  {name:<14}{what}" for name, what in known.items())
    examples = "".join(f"\n  {each}" for each in recipe.examples)
    program = f"regard train {recipe.name}"
    hidden = {*recipe.derived_options(default), "data.path"}
    return (
        f"usage: {program} [--data PATH] [OPTIONS]\n\n{recipe.title}\nHere: {type(default).__doc__}\n\n"
        f"examples:{examples}\n\n"
        f"{first}\n\n--data and --model choose the defaults of all that follows: give them before --help "
        f"to see yours.\n\n{list_options(default, program, every=every, hidden=hidden)}"
    )


def options_help(cls: type[Any], program: str, *, every: bool = False) -> str:
    """The options of a command with their defaults: the usual ones, or every one."""
    return f"{describe(cls)}\n\n{list_options(cls(), program, every=every)}"

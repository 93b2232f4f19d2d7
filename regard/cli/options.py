"""Words of the command line as settings: read by tyro for one concrete dataclass, with errors of one line."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from regard.errors import RegardError, nearest
from regard.recipes.base import Recipe
from regard.recipes.request import TrainRequest
from regard.recipes.settings import Settings, data_alone, with_optimiser

ONE_COLUMN = 100  # characters; on a wider terminal tyro has two
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
            raise RegardError(f"--{key} follows from the data, so it cannot be set{instead}")
    return chosen


def _typed_options(chosen: Any, words: list[str]) -> dict[str, Any]:
    """The options among the words with their values, by dotted name: also those that equal the default."""
    names = {re.sub(r"^--(.*\.)?no-", r"--\1", word.partition("=")[0].replace("_", "-")) for word in words}
    names |= {word.partition("=")[0].replace("_", "-") for word in words}
    keys = [option[2:].replace("-", "_") for option in options_of(type(chosen)) if option in names]
    return {key: reduce(getattr, key.split("."), chosen) for key in keys}


def _option_value(words: list[str], option: str) -> str | None:
    """The value of an option on which defaults depend (rates on the optimiser), before it is known whether it
    can be right."""
    found = None
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == option:
            if equals:
                found = value
            else:
                found = " ".join(words[number + 1 : number + 2])
    return found


def early_options(recipe: Recipe, words: list[str]) -> dict[str, Any]:
    """The options on which defaults of this recipe depend; whole numbers as such."""
    found = {each: value for each in recipe.early_options if (value := _option_value(words, f"--{each}"))}
    short = {
        name: value.isdecimal() and len(value) < 20 for name, value in found.items()
    }  # others are refused
    return {name: int(value) if short[name] else value for name, value in found.items()}


def help_text(recipe: Recipe, path: str | None, kind: str | None, words: list[str]) -> str:
    """Every option of a recipe with its default."""
    default = recipe.defaults(path, kind, early_options(recipe, words))
    shown = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown), _one_column():
        tyro.cli(type(default), args=["--help"], default=default, prog=f"regard train {recipe.name}")
    known = {**recipe.help, **{name: what.format(recipe=recipe.name) for name, what in FIRST.items()}}
    first = "\n".join(f"  {name:<14}{what}" for name, what in known.items())
    examples = "".join(f"\n  {each}" for each in recipe.examples)
    return (
        f"usage: regard train {recipe.name} [--data PATH] [OPTIONS]\n\n{recipe.title}\nHere: "
        f"{type(default).__doc__}\n\n"
        f"examples:{examples}\n\n"
        f"{first}\n\n--data and --model choose the defaults of all that follows: give them before --help "
        "to see yours.\n\n" + _without_what_cannot_be_set(shown.getvalue(), recipe.derived_options(default))
    )


@contextlib.contextmanager
def _one_column() -> Iterator[None]:
    """On a wide terminal tyro sets options in several columns; here every line is one option's."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(min(ONE_COLUMN, shutil.get_terminal_size().columns))
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _without_what_cannot_be_set(text: str, derived: Mapping[str, str]) -> str:
    """tyro's help from the first section on, without what follows from the data or was said before."""
    kept, hidden = [], False
    for line in text[max(0, text.find("data options") - 1) :].splitlines():
        if (option := re.match(r"\W*--([a-z.-]+)", line)) or "options" in line:
            hidden = option is not None and option[1].replace("-", "_") in (*derived, "data.path")
        hidden = hidden and bool(line.strip())  # what comes between sections stays
        if not hidden:
            kept.append(line.rstrip())
    return "\n".join(kept)


def read_options(cls: type[Any], words: list[str], program: str) -> tuple[Any, list[str]]:
    """The options of a dataclass among the words of a command, and the words that are none.

    A text may begin with one dash, or hold spaces; a word that begins with two dashes and holds none is meant
    as an option.
    """
    known = options_of(cls)
    own: list[str] = []
    rest: list[str] = []
    words = list(words)
    while words:
        word = words.pop(0)
        name = word.partition("=")[0].replace("_", "-")
        hint = known.get(name, known.get(name.replace("--no-", "--", 1)))
        if hint is None:
            if name.startswith("--") and not any(each.isspace() for each in word):
                raise unknown_option(word, list(known), program)
            rest.append(word)
            continue
        own.append(word)
        several = get_origin(hint) is tuple
        while hint is not bool and "=" not in word and words and not words[0].startswith("--"):
            own.append(words.pop(0))
            if not several:
                break
    return parse(cls, own, cls(), program), rest


def options_help(cls: type[Any], program: str) -> str:
    """Every option of a dataclass with its default."""
    shown = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown), _one_column():
        tyro.cli(cls, args=["--help"], prog=program)
    return shown.getvalue().partition("\n\n")[2]  # the usage is said already


# ── what is wrong, in one line


def parse(
    cls: type[Any],
    words: list[str],
    default: Any,
    program: str,
    more: tuple[str, ...] = (),
    hidden: frozenset[str] = frozenset(),
) -> Any:
    """tyro, but what is wrong is a ValueError of one line.

    more    options that are read elsewhere, to be suggested
    hidden  options that follow from the data, not to be suggested
    """
    known = options_of(cls)
    _check_words(words, known, more, program, hidden)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # there it draws a box, in colours
            return tyro.cli(cls, args=words, default=default, prog=program)
    except SystemExit as error:
        raise RegardError(f"{_reason(error, known, hidden)}; see: {program} --help") from None


def options_of(cls: type[Any]) -> dict[str, Any]:
    """Each option of a dataclass (and of the dataclasses in it) with its type: --train.steps: int | None."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(cls).items():
        option = "--" + name.replace("_", "-")
        if isinstance(hint, type) and is_dataclass(hint):
            found |= {f"{option}.{each[2:]}": one for each, one in options_of(hint).items()}
        elif name in {field.name for field in fields(cls)}:
            found[option] = hint
    return found


def _check_words(
    words: list[str], known: Mapping[str, Any], more: tuple[str, ...], program: str, hidden: frozenset[str]
) -> None:
    """Raise a ValueError for the first word that is no option, or no value for one."""
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        positive = re.sub(r"^--(.*\.)?no-", r"--\1", name)
        hint = known.get(name, known.get(positive))
        if hint is None or (hint is not bool and name not in known):
            raise unknown_option(word, [*known, *more], program, hidden)
        if hint is bool:
            continue
        several = get_origin(hint) is tuple
        values = [value] if equals else []
        while not equals and waiting and not waiting[0].startswith("--") and (several or not values):
            values.append(waiting.pop(0))
        if not values:
            raise RegardError(f"{name} needs a value after it; see: {program} --help")
        for each in values:
            if not _fits(each, hint):
                choices = _choices(hint)
                near = nearest(each, choices)
                hope = f"; did you mean '{near}'?" if near else ""
                raise RegardError(f"{name} must be {describe_type(hint)}, got '{each}'{hope}")


def _choices(hint: Any) -> list[str]:
    """The words that a type allows, where it names them."""
    if get_origin(hint) in (Union, UnionType):
        return [choice for each in get_args(hint) for choice in _choices(each)]
    if get_origin(hint) is Literal:
        return [each for each in get_args(hint) if isinstance(each, str)]
    return []


def _looks_like_path(word: str) -> bool:
    """A file or folder that exists, or a word that is written like one: my.txt, texts/, *.csv."""
    suffix = os.path.splitext(word)[1].lstrip(".")
    return os.path.exists(word) or "/" in word or "*" in word or (suffix.isalnum() and not suffix.isdigit())


def unknown_option(
    word: str, known: list[str], program: str, hidden: frozenset[str] = frozenset()
) -> ValueError:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        hope = ""
        if "--data" in known and _looks_like_path(word):
            hope = f"did you mean --data {word}? "
        return RegardError(f"'{word}' is no option and no value of one; {hope}see: {program} --help")
    settable = [each for each in known if each[2:].replace("-", "_") not in hidden]
    same = [each for each in settable if each.rpartition(".")[2] == name.lstrip("-").replace("_", "-")]
    near = same[0] if same else nearest(name, settable)
    return RegardError(
        f"there is no option {name}; {f'did you mean {near}? ' if near else ''}see: {program} --help"
    )


def _fits(word: str, hint: Any) -> bool:
    """Can a word be read as this type?"""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(word, each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return word in get_args(hint)
    if hint in (int, float):
        with contextlib.suppress(ValueError):
            hint(word)
            return True
        return False
    return hint is not NoneType or word == "None"


def describe_type(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(describe_type(each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    return {int: "a whole number", float: "a number", NoneType: "None"}.get(hint, "text")


def _reason(error: BaseException, known: Mapping[str, Any], hidden: frozenset[str]) -> str:
    """Why a dataclass refused its values, with the option's name in place of the field's."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ValueError):
        cause = cause.__cause__ or cause.__context__
    words = str(cause or "the options could not be read")
    field = re.match(r"(\w+)(?: of \w+)? (?=must|is)", words)
    if field is None:
        return words
    same = [
        each
        for each in known
        if re.split(r"[.]|--", each)[-1] == field[1].replace("_", "-")
        and each[2:].replace("-", "_") not in hidden
    ]
    if len(same) == 1:
        return f"{same[0]} {words[field.end() :]}"
    return words

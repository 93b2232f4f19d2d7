"""The command line: one of the commands is run, and whatever it raises becomes one line on stderr and exit
code 2."""

import io
import os
import sys

from regard import registry
from regard.errors import RegardError, did_you_mean
from regard.verbs.commands import COMMANDS, Command, asks_for_help
from regard.verbs.list import format_table
from regard.verbs.memory import limit_memory, out_of_memory

SPINS = "1000"  # about as long as it takes to wake a thread


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 it ran and the answer is no, 2 it could not run."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if debug:
        _show_swallowed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show Σ shows ? instead of failing
    if arguments is None:  # the process is this command and nothing else
        limit_memory()
        wait_passively()
        speak_once()
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader went away, as in `regard list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("regard: stopped", file=sys.stderr)
        return 130
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # extensions written in Rust panic with what is no Exception
        if debug:
            raise
        if getattr(error, "told", False):  # by another process
            return 2
        print(f"regard: {_one_line(error, words[0] if words else '')}", file=sys.stderr)
        return 2


def _show_swallowed() -> None:
    """Exceptions that a command goes on after, such as a model that refuses what a check tries, are shown
    too."""
    import logging

    log = logging.getLogger("regard")
    if not log.handlers:
        log.addHandler(logging.StreamHandler())
    log.setLevel(logging.DEBUG)


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    name, *rest = words
    if name == "--version":
        from regard import __version__

        print(f"regard {__version__}")
        return 0
    if name not in COMMANDS:
        raise RegardError(_unknown(name))
    command = COMMANDS[name]
    if name == "train" and not asks_for_help(rest) and (not rest or rest[0].startswith("-")):
        raise RegardError(f"regard train needs the name of a recipe: {', '.join(registry.entries('recipes'))}")
    if asks_for_help(rest):
        print(_help_of(command, name, rest))
        return 0
    code: int = command.find(command.run)(rest)
    return code


def _help_of(command: Command, name: str, words: list[str]) -> str:
    """The help of one command; that of a training is about its recipe, if it names one."""
    if command.module == "train" and words[0].startswith("-"):
        rows = [(each, entry.sentence) for each, entry in registry.entries("recipes").items()]
        return f"{command.help()}\n\nrecipes:\n{format_table(rows)}"
    if command.options is None:
        more: str = command.find("explain")(words)
    else:
        from regard.verbs.options import options_help

        more = options_help(command.find(command.options), f"regard {name}", every="--help-all" in words)
    return more if more.startswith("usage:") else f"{command.help()}\n\n{more}"


def _help() -> str:
    width = max(len(each.usage) for each in COMMANDS.values())
    return "\n".join(
        [
            "regard: attention models whose symmetries are declared, checked and visible",
            "",
            "usage: regard COMMAND ...",
            "",
            *(f"  {each.usage:<{width}}  {each.sentence}" for each in COMMANDS.values()),
            "",
            "  --help     this text; after a command, more about it, and with --help-all its rare options, too",
            "  --version  the version",
            "  --debug    with any command: the whole traceback when something goes wrong",
            "",
            "examples:",
            *(f"  {example}" for each in COMMANDS.values() for example in each.examples),
        ]
    )


def _unknown(name: str) -> str:
    known = [*COMMANDS, "--help", "--version", "--debug"]
    what = "option" if name.startswith("-") else "command"
    return f"there is no {what} '{name}'; {did_you_mean(name, known)}see: regard --help"


def _one_line(error: BaseException, command: str = "") -> str:
    """What a user can mend says all there is to say. Anything else is a bug, and asks to be reported."""
    typed = error.as_typed() if isinstance(error, RegardError) else str(error)
    message = " ".join(vars(error).get("typed", typed).split())
    memory = out_of_memory(error, command)
    if memory is not None and not isinstance(error, RegardError):
        return memory
    if message and isinstance(error, RegardError | OSError):
        return message
    what = f"{type(error).__name__}{message and f': {message}'}"
    return f"this is a bug in regard: {what}; please report it, with what --debug shows"


def wait_passively() -> None:
    """Threads that wait for others soon sleep. By default they keep their core busy for milliseconds, and on a
    machine with other work to do a step may then take fifty times as long. What the user has set stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def speak_once() -> None:
    """Of several processes, each would print torch's advice to programmers. What the user has set stays."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

"""The command line. Each command is one function that imports what it needs inside, so that `regard --help`,
`--version` and `list` answer at once. A command takes the words after its name and returns the exit code; whatever it
raises becomes one line on stderr and exit code 2.
"""

import io
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from regard import manual

Run = Callable[[list[str]], int]


class Command(NamedTuple):
    """What `regard --help` says about a command, and the function behind it."""

    usage: str
    sentence: str
    examples: tuple[str, ...]
    run: Run


COMMANDS: dict[str, Command] = {}


def command(usage: str, sentence: str, *examples: str) -> Callable[[Run], Run]:
    """Offer a function as a command; its name is the first word of the usage."""

    def offer(run: Run) -> Run:
        COMMANDS[usage.split()[0]] = Command(usage, sentence, examples, run)
        return run

    return offer


@command("list [KIND]", "what there is to build with, one sentence each", "regard list", "regard list masks")
def list_parts(words: list[str]) -> int:
    from regard import names

    if len(words) > 1:
        raise ValueError(f"regard list takes one kind at most, got {len(words)}: {' '.join(words)}")
    if words:
        kind = words[0]
        parts = names.entries(kind).items()
        print(f"{kind}: {names.describe(kind)}\n")
        rows: list[tuple[str, ...]] = []
        for name, entry in parts:
            keeps = [f"keeps {entry.symmetry}"] if entry.symmetry else []
            rows.append((name, entry.target.replace(":", "."), *keeps, entry.sentence))
        _print_table(rows)
    else:
        for kind in names.kinds():
            _print_table([(kind.ljust(10), names.describe(kind)), ("", ", ".join(names.entries(kind)))])
        print("\nMore about one kind: regard list KIND")
    return 0


@command(
    "train RECIPE [--data PATH] ...",
    "a model from your own data (options: regard train text --help)",
    "regard train text",
    "regard train text --data my.txt --out runs/mine --train.minutes 5",
    "regard train text --data reviews.csv",
)
def train(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        from regard import names

        raise ValueError(f"regard train needs the name of a recipe: {', '.join(names.entries('recipes'))}")
    recipe, rest = words[0], words[1:]
    _refuse_several(rest)
    given, rest = _take_out(rest, ("--data", "--model", "--from", "--out"))
    resume, rest = "--resume" in rest, [word for word in rest if word != "--resume"]

    from regard import options, verbs
    from regard.jobs.job import work
    from regard.program import spoken
    from regard.training.progress import Ending, watch

    if "-h" in rest or "--help" in rest:
        print(options.help_text(recipe, given.get("--data"), given.get("--model"), rest))
        return 0
    default = verbs.asked_for(
        recipe, given.get("--data"), given.get("--model"), given.get("--out"), resume, given.get("--from"),
        options.told_first(recipe, rest),
    )
    settings = options.read(default, rest, f"regard train {recipe}")
    ending = Ending()
    run = verbs.train(
        recipe,
        data=given.get("--data"),
        model=given.get("--model"),
        start=given.get("--from"),
        out=given.get("--out"),
        resume=resume,
        options=settings,
        note=options.note(),
        observers=[watch(), ending],
    )
    samples = "samples/, " if (run.path / "samples").is_dir() else ""
    print(f"\n{run.path}: model.safetensors, report.html, curves.png, {samples}metrics.jsonl")
    if (laws := verbs.laws_of(run)) is not None and laws["laws"]:
        print(_laws_in_a_line(laws["laws"]))
    print(f"next: {spoken(work(recipe).then(run))}")
    return 130 if ending.stopped else 0  # as a command that Ctrl-C ended


@command(
    "generate RUN [--prompt TEXT] ...",
    "text from a trained model, written as it comes",
    'regard generate runs/text --prompt "def " --max-new 200 --seed 1',
)
def generate(words: list[str]) -> int:
    from regard import options

    if "-h" in words or "--help" in words:
        print(_help_for(COMMANDS["generate"]) + manual.GENERATE + options.sampling_help())
        return 0
    sampling, words = options.read_sampling(words)
    given, words = _take_out(words, ("--prompt",))
    if len(words) != 1:
        raise ValueError(f"regard generate takes one run, got {' '.join(words) or 'none'}; see: regard generate --help")
    from regard import verbs

    model, prompt = verbs.load(words[0]), given.get("--prompt", "")
    if (unknown := verbs.unknown_to(model, prompt)) is not None:
        print(f"regard: {unknown}", file=sys.stderr)
    if sampling.get("samples", 1) > 1:
        for number, text in enumerate(verbs.samples(model, prompt, **sampling), 1):
            print(f"── {number} ──\n{prompt}{text}")
        return 0
    pieces = verbs.generate(model, prompt, **sampling)
    print(prompt + next(pieces, ""), end="", flush=True)  # a prompt that cannot be read is refused before it is shown
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    return 0


@command(
    "predict RUN INPUT... [--json]",
    "what a trained model says of texts, or of files",
    'regard predict runs/text "what a film"',
    "regard predict runs/text review.txt --json",
    "regard predict runs/images photo.jpg --out looked.png",
)
def predict(words: list[str]) -> int:
    if "-h" in words or "--help" in words:
        print(_help_for(COMMANDS["predict"]) + manual.PREDICT)
        return 0
    as_json, words = "--json" in words, [word for word in words if word != "--json"]
    given, words = _take_out(words, ("--out",))
    _refuse_options(words, ("--json", "--out"), "regard predict")
    if len(words) < 2:
        raise ValueError("regard predict takes a run and one input at least: a text, or a file")
    import json

    from regard import verbs

    answers = verbs.predict(words[0], words[1:], out=given.get("--out"))
    for answer in answers:
        for note in answer.notes:
            print(f"regard: {note}", file=sys.stderr)
        print(json.dumps(answer.to_json(), ensure_ascii=False) if as_json else answer.say())
    drawn = dict.fromkeys(answer.picture for answer in answers if answer.picture is not None)
    if drawn and not as_json:
        print("\n".join(["where it looked:", *(f"  {file}" for file in drawn)]))
    return 0


@command(
    "check TARGET [--laws A,B] ...",
    "does a model keep its promises? exit 0: yes, 1: a law is broken",
    "regard check runs/text",
    "regard check path/to/huggingface-model --laws padding,causality",
    "regard check my_package.my_module:make_model --json",
)
def check(words: list[str]) -> int:
    if "-h" in words or "--help" in words:
        print(_help_for(COMMANDS["check"]) + manual.CHECK)
        return 0
    as_json, words = "--json" in words, [word for word in words if word != "--json"]
    given, words = _take_out(words, ("--laws", "--seed", "--trials", "--dtype", "--device"))
    if len(words) != 1:
        raise ValueError(f"regard check takes one target, got {' '.join(words) or 'none'}; see: regard check --help")

    from regard import names

    laws = [law.strip() for law in given["--laws"].split(",")] if "--laws" in given else None
    for law in laws or ():
        if law not in names.entries("laws"):
            names.find("laws", law)  # says which there are
    numbers = {name: _whole(f"--{name}", given[f"--{name}"]) for name in ("seed", "trials") if f"--{name}" in given}

    from regard import verbs

    report = verbs.check(words[0], laws=laws, **numbers, **_dtype_and_device(given))
    if as_json:
        import json

        print(json.dumps(report.to_json(), indent=2))
    else:
        from regard.look.terminal import laws_table

        laws_table(report)
    if not any(finding.measured != "unknown" for finding in report):
        return 2
    return 0 if report.ok else 1


@command(
    "look TARGET [--input ...] ...",
    "what a model attends to: exact weights, in pictures",
    'regard look runs/text --input "def f(x):" --out page.html',
    "regard look runs/images --input photo.png",
    "regard look path/to/huggingface-vit --input cat.png",
    "regard look my_package.my_module:make_model --out heads.svg",
)
def look(words: list[str]) -> int:
    if "-h" in words or "--help" in words:
        print(_help_for(COMMANDS["look"]) + manual.LOOK)
        return 0
    laws, words = "--laws" in words, [word for word in words if word != "--laws"]
    given, words = _take_out(words, ("--input", "--target", "--out", "--port"))
    if len(words) != 1:
        raise ValueError(f"regard look takes one target, got {' '.join(words) or 'none'}; see: regard look --help")
    port = _whole("--port", given["--port"]) if "--port" in given else None
    if port is not None and port > 65535:
        raise ValueError(f"--port must be a whole number from 0 to 65535, got {port}")
    if port is not None and "--out" in given:
        raise ValueError("--port is for a page that is served, and --out writes one; give one of them")

    from regard import options, verbs

    def tell(note: str) -> None:
        print(f"note: {note}", file=sys.stderr)

    how: dict[str, Any] = {"answer": given.get("--target"), "laws": laws, "tell": tell}
    with options.waiting(f"looking at {words[0]}"):
        if "--out" in given:
            path = verbs.look(words[0], given.get("--input"), out=given["--out"], **how)
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; open it in a browser" if path.suffix == ".html" else path)
            return 0
        live = verbs.living(words[0], given.get("--input"), **how)
        live.show({})  # what is wrong with target or input is said now, not in the browser

    from regard.look.server import serve

    serve(live, port=port, ready=lambda address: print(f"{address}   (Ctrl-C ends it)", flush=True))
    return 0


def _refuse_several(words: list[str]) -> None:
    """A glob without quotes becomes many words."""
    for number, word in enumerate(words):
        after = words[number + 1 + (word == "--data") :][:1]
        if word.partition("=")[0] == "--data" and after and not after[0].startswith("-") and os.path.exists(after[0]):
            raise ValueError(f"--data takes one path, and after it comes another: {after[0]}; for several files give "
                             f"their folder, or a glob in quotes: --data '*.txt'")


def _refuse_options(words: list[str], known: tuple[str, ...], program: str) -> None:
    """What is left and looks like an option is none that is known. A text may begin with one dash, or hold spaces."""
    for word in words:
        if word.startswith("--") and not any(each.isspace() for each in word):
            from regard import options

            raise options.unknown(word, list(known), program)


def _whole(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {text!r}")
    return int(text)


def _dtype_and_device(given: dict[str, str]) -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {}
    if "--dtype" in given:
        known = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
        if given["--dtype"] not in known:
            raise ValueError(f"--dtype must be one of {', '.join(known)}, got {given['--dtype']!r}")
        found["dtype"] = known[given["--dtype"]]
    if "--device" in given:
        try:
            found["device"] = torch.empty(0, device=given["--device"]).device
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"--device {given['--device']} cannot be used here: {str(error).splitlines()[0]}") from None
    return found


def _take_out(words: list[str], names: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
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


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 it ran and the answer is no, 2 it could not run."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")        # a terminal that cannot show Σ shows ? instead of failing
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:                             # the reader went away, as in `regard list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("regard: stopped", file=sys.stderr)
        return 130
    except Exception as error:
        if debug:
            raise
        print(f"regard: {_one_line(error)}", file=sys.stderr)
        return 2


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
        raise ValueError(_unknown(name))
    more = name in ("generate", "predict", "check", "look") or (name == "train" and len(rest) > 1)  # have a help of their own
    if ("-h" in rest or "--help" in rest) and not more:
        print(_help_for(COMMANDS[name]))
        return 0
    return COMMANDS[name].run(rest)


def _help() -> str:
    width = max(len(each.usage) for each in COMMANDS.values())
    return "\n".join([
        "regard: attention models whose symmetries are declared, checked and visible",
        "",
        "usage: regard COMMAND ...",
        "",
        *(f"  {each.usage:<{width}}  {each.sentence}" for each in COMMANDS.values()),
        "",
        "  --help     this text; after a command, more about it",
        "  --version  the version",
        "  --debug    with any command: the whole traceback when something goes wrong",
        "",
        "examples:",
        *(f"  {example}" for each in COMMANDS.values() for example in each.examples),
    ])


def _help_for(each: Command) -> str:
    examples = [f"  {example}" for example in each.examples]
    return "\n".join([f"usage: regard {each.usage}", "", each.sentence, "", "examples:", *examples])


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    known = [*COMMANDS, "--help", "--version", "--debug"]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    what = "option" if name.startswith("-") else "command"
    return f"there is no {what} '{name}'; " + (f"did you mean '{near[0]}'? " if near else "") + "see: regard --help"


def _one_line(error: Exception) -> str:
    """Our own errors (ValueError, OSError) say all there is to say; any other is a surprise, so it keeps its name."""
    message = " ".join(str(error).split())
    if message and isinstance(error, ValueError | OSError):
        return message
    return f"{type(error).__name__}{message and f': {message}'} (add --debug to see where)"


def _laws_in_a_line(laws: list[dict[str, Any]]) -> str:
    """laws that hold: permutation, padding; broken: shift. What is not promised, and is not kept, is no news."""
    found: dict[str, list[str]] = {}
    for law in (law for law in laws if (law["declared"], law["measured"]) != ("broken", "broken")):
        found.setdefault(str(law["measured"]), []).append(law["law"])
    hold = found.pop("holds", ["none"])
    return "; ".join([f"laws that hold: {', '.join(hold)}", *(f"{how}: {', '.join(each)}" for how, each in found.items())])


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        print("  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))

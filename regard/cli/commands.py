"""The commands. Each is one function that imports what it needs inside, so that `regard --help`, `--version` and `list` answer
at once. A command takes the words after its name and returns the exit code.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from regard.cli import manual
from regard.cli.words import dtype_and_device, refuse_options, refuse_several, take_out, whole

Run = Callable[[list[str]], int]


class Command(NamedTuple):
    """What `regard --help` says about a command, and the function behind it."""

    usage: str
    sentence: str
    examples: tuple[str, ...]
    run: Run


COMMANDS: dict[str, Command] = {}
LISTED = 10  # files that are named one by one


def command(usage: str, sentence: str, *examples: str) -> Callable[[Run], Run]:
    """Offer a function as a command; its name is the first word of the usage."""

    def offer(run: Run) -> Run:
        COMMANDS[usage.split()[0]] = Command(usage, sentence, examples, run)
        return run

    return offer


def help_for(each: Command) -> str:
    examples = [f"  {example}" for example in each.examples]
    return "\n".join([f"usage: regard {each.usage}", "", each.sentence, "", "examples:", *examples])


@command("list [KIND]", "what there is to build with, one sentence each", "regard list", "regard list masks")
def list_parts(words: list[str]) -> int:
    from regard import registry

    if len(words) > 1:
        raise ValueError(f"regard list takes one kind at most, got {len(words)}: {' '.join(words)}")
    if words:
        kind = words[0]
        parts = registry.entries(kind).items()
        print(f"{kind}: {registry.describe(kind)}\n")
        rows: list[tuple[str, ...]] = []
        for name, entry in parts:
            keeps = [f"keeps {entry.symmetry}"] if entry.symmetry else []
            rows.append((name, entry.target.replace(":", "."), *keeps, entry.sentence))
        print_table(rows)
    else:
        for kind in registry.kinds():
            print_table([(kind.ljust(10), registry.describe(kind)), ("", ", ".join(registry.entries(kind)))])
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
        from regard import registry

        raise ValueError(f"regard train needs the name of a recipe: {', '.join(registry.entries('recipes'))}")
    recipe, rest = words[0], words[1:]
    refuse_several(rest)
    given, rest = take_out(rest, ("--data", "--model", "--from", "--out"))
    resume, rest = "--resume" in rest, [word for word in rest if word != "--resume"]

    from regard.api import train as training
    from regard.api.finish import files_in_a_line, laws_in_a_line
    from regard.api.look import laws_of
    from regard.api.start import asked_for
    from regard.cli import options
    from regard.recipes.job import work
    from regard.runs.command import spoken
    from regard.training.progress import Ending, watch

    if "-h" in rest or "--help" in rest:
        print(options.help_text(recipe, given.get("--data"), given.get("--model"), rest))
        return 0
    default = asked_for(
        recipe,
        given.get("--data"),
        given.get("--model"),
        given.get("--out"),
        resume,
        given.get("--from"),
        options.told_first(recipe, rest),
    )
    kind = f" --model {given['--model']}" if "--model" in given else ""
    settings = options.read(default, rest, f"regard train {recipe}{kind}")
    ending = Ending()
    run = training.train(
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
    print(f"\n{files_in_a_line(run)}")
    if (laws := laws_of(run)) is not None and laws["laws"]:
        print(laws_in_a_line(laws["laws"]))
    print(f"next: {spoken(work(recipe).then(run))}")
    return 130 if ending.stopped else 0  # as a command that Ctrl-C ended


@command(
    "generate RUN [--prompt TEXT] ...",
    "text from a trained model, written as it comes",
    'regard generate runs/text --prompt "def " --max-new 200 --seed 1',
)
def generate(words: list[str]) -> int:
    from regard.cli import options

    if "-h" in words or "--help" in words:
        print(help_for(COMMANDS["generate"]) + manual.GENERATE + options.sampling_help())
        return 0
    sampling, words = options.read_sampling(words)
    given, words = take_out(words, ("--prompt",))
    if len(words) != 1:
        raise ValueError(
            f"regard generate takes one run, got {' '.join(words) or 'none'}; see: regard generate --help"
        )
    from regard.api import generate as writing
    from regard.api.load import load

    model, prompt = load(words[0]), given.get("--prompt", "")
    if (unknown := writing.unknown_to(model, prompt)) is not None:
        print(f"regard: {unknown}", file=sys.stderr)
    if sampling.get("samples", 1) > 1:
        for number, text in enumerate(writing.samples(model, prompt, **sampling), 1):
            print(f"── {number} ──\n{prompt}{text}")
        return 0
    pieces = writing.generate(model, prompt, **sampling)
    print(
        prompt + next(pieces, ""), end="", flush=True
    )  # a prompt that cannot be read is refused before it is shown
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
        print(help_for(COMMANDS["predict"]) + manual.PREDICT)
        return 0
    as_json, words = "--json" in words, [word for word in words if word != "--json"]
    given, words = take_out(words, ("--out",))
    refuse_options(words, ("--json", "--out"), "regard predict")
    if len(words) < 2:
        raise ValueError("regard predict takes a run and one input at least: a text, or a file")
    import json

    from regard.api.predict import answers

    drawn: dict[str, None] = {}
    answered = errors = 0
    for answer in answers(words[0], words[1:], out=given.get("--out")):
        for note in answer.notes:
            print(f"regard: {note}", file=sys.stderr, flush=True)
        if as_json:
            print(json.dumps(answer.to_json(), ensure_ascii=False), flush=True)
        elif answer.error is not None:
            print(f"regard: {answer.error}", file=sys.stderr, flush=True)
        else:
            print(answer.say(), flush=True)  # also where it goes into a pipe: each may have taken a while
        if answer.picture is not None:
            drawn[answer.picture] = None
        answered, errors = answered + (answer.error is None), errors + (answer.error is not None)
    if drawn and not as_json:
        files = [*drawn] if len(drawn) <= LISTED else [f"{len(drawn):,} files in {given['--out']}"]
        print("\n".join(["where it looked:", *(f"  {file}" for file in files)]))
    return 0 if not errors else 1 if answered else 2


@command(
    "check TARGET [--laws A,B] ...",
    "does a model keep its promises? exit 0: yes, 1: a law is broken",
    "regard check runs/text",
    "regard check path/to/huggingface-model --laws padding,causality",
    "regard check my_package.my_module:make_model --json",
)
def check(words: list[str]) -> int:
    if "-h" in words or "--help" in words:
        print(help_for(COMMANDS["check"]) + manual.CHECK)
        return 0
    as_json, words = "--json" in words, [word for word in words if word != "--json"]
    given, words = take_out(words, ("--laws", "--seed", "--trials", "--dtype", "--device"))
    if len(words) != 1:
        raise ValueError(
            f"regard check takes one target, got {' '.join(words) or 'none'}; see: regard check --help"
        )

    from regard import registry

    laws = [law.strip() for law in given["--laws"].split(",")] if "--laws" in given else None
    for law in laws or ():
        if law not in registry.entries("laws"):
            registry.find("laws", law)  # says which there are
    numbers = {
        name: whole(f"--{name}", given[f"--{name}"]) for name in ("seed", "trials") if f"--{name}" in given
    }

    from regard.api.check import check as measure

    report = measure(words[0], laws=laws, **numbers, **dtype_and_device(given))
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
        print(help_for(COMMANDS["look"]) + manual.LOOK)
        return 0
    laws, words = "--laws" in words, [word for word in words if word != "--laws"]
    given, words = take_out(words, ("--input", "--target", "--out", "--port"))
    if len(words) != 1:
        raise ValueError(
            f"regard look takes one target, got {' '.join(words) or 'none'}; see: regard look --help"
        )
    port = whole("--port", given["--port"]) if "--port" in given else None
    if port is not None and port > 65535:
        raise ValueError(f"--port must be a whole number from 0 to 65535, got {port}")
    if port is not None and "--out" in given:
        raise ValueError("--port is for a page that is served, and --out writes one; give one of them")

    from regard.api import look as looking
    from regard.cli import options

    def tell(note: str) -> None:
        print(f"note: {note}", file=sys.stderr)

    how: dict[str, Any] = {"answer": given.get("--target"), "laws": laws, "tell": tell}
    with options.waiting(f"looking at {words[0]}"):
        if "--out" in given:
            path = looking.look(words[0], given.get("--input"), out=given["--out"], **how)
            print(
                f"{path}: {path.stat().st_size / 1e6:.1f} MB; open it in a browser"
                if path.suffix == ".html"
                else path
            )
            return 0
        live = looking.living(words[0], given.get("--input"), **how)
        live.show({})  # what is wrong with target or input is said now, not in the browser

    from regard.look.server import serve

    serve(live, port=port, ready=lambda address: print(f"{address}   (Ctrl-C ends it)", flush=True))
    return 0


def print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        print(
            "  "
            + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        )

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
    name, rest = words[0], words[1:]
    refuse_several(rest)
    given, rest = take_out(rest, ("--data", "--model", "--from", "--out"))
    resume, report = "--resume" in rest, "--no-report" not in rest
    rest = [word for word in rest if word not in ("--resume", "--no-report")]

    from regard.api.finish import files_in_a_line, laws_in_a_line
    from regard.api.look import read_laws
    from regard.cli import options
    from regard.recipes.base import get_recipe
    from regard.runs.command import spoken
    from regard.training.progress import Ending

    recipe = get_recipe(name)
    if "-h" in rest or "--help" in rest:
        print(options.help_text(recipe, given.get("--data"), given.get("--model"), rest))
        return 0
    ending = Ending()
    run = train_as_asked(recipe, given, rest, ending, resume=resume, report=report)
    print(f"\n{files_in_a_line(run)}")
    if (laws := read_laws(run)) is not None and laws["laws"]:
        print(laws_in_a_line(laws["laws"]))
    print(f"next: {spoken(recipe.next_command(run))}")
    return 130 if ending.stopped else 0  # as a command that Ctrl-C ended


def train_as_asked(
    recipe: Any, given: dict[str, str], words: list[str], ending: Any, *, resume: bool, report: bool
) -> Any:
    """Settings from the words of the command, read once, and the training with them."""
    from regard.api import train as training
    from regard.api.start import resolve_defaults
    from regard.cli import options
    from regard.data.scan import scanning_once
    from regard.recipes.base import settings_of
    from regard.recipes.settings import apply_settings
    from regard.runs.locations import fresh, latest
    from regard.runs.run import Run, check_free
    from regard.training.progress import watch

    data, kind, start, out = (given.get(name) for name in ("--data", "--model", "--from", "--out"))
    program = f"regard train {recipe.name}" + ("" if kind is None else f" --model {kind}")
    how: dict[str, Any] = {"note": options.note(), "observers": [watch(), ending], "report": report}
    if resume:
        run = Run.open(out or latest(recipe.name))
        training.check_resumable(run, recipe, model=kind, start=start, given=None)
        settings = apply_settings(settings_of(run), {} if data is None else {"data.path": data})
        return training.resume_run(run, options.read_settings(recipe, settings, words, program), **how)
    with scanning_once():
        origin = None if start is None else Run.open(start)
        settings = resolve_defaults(recipe, data, kind, options.early_options(recipe, words), origin)
        settings = options.read_settings(recipe, settings, words, program)
        place = out or fresh(recipe.name)
        check_free(place)  # before any work on data
        return training.train_recipe(recipe, settings, out=place, start=origin, **how)


@command(
    "generate RUN [--prompt TEXT] ...",
    "what a trained model makes by itself: text, written as it comes",
    'regard generate runs/text --prompt "def " --max-new 200 --seed 1',
)
def generate(words: list[str]) -> int:
    from regard.cli import options

    if "-h" in words or "--help" in words:
        print(help_for(COMMANDS["generate"]) + manual.GENERATE + generate_help())
        return 0
    path = words[0] if words else ""
    if not path or path.startswith("-"):
        raise ValueError(
            f"regard generate takes one run first, got {path or 'none'}; see: regard generate --help"
        )
    from regard.recipes.base import recipe_of
    from regard.runs.run import Run

    run = Run.open(path)
    recipe = recipe_of(run)
    if recipe.generate_options is None:
        raise ValueError(
            f"{run.path} was trained on {recipe.name}, which generates nothing; use regard predict"
        )
    chosen, rest = options.read_options(recipe.generate_options, words[1:], "regard generate")
    if rest:
        raise ValueError(
            f"regard generate takes one run, got {' '.join([path, *rest])}; see: regard generate --help"
        )
    for piece in recipe.generate(run, chosen, lambda note: print(f"regard: {note}", file=sys.stderr)):
        print(piece, end="", flush=True)
    return 0


def generate_help() -> str:
    """The options of every recipe that generates something."""
    from regard import registry
    from regard.cli import options
    from regard.recipes.base import get_recipe

    recipes = [get_recipe(name) for name in registry.entries("recipes")]
    parts = [
        f"a run of {recipe.name}:\n{options.options_help(recipe.generate_options, 'regard generate')}"
        for recipe in recipes
        if recipe.generate_options is not None
    ]
    return "\n".join(parts)


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

    from regard.api.predict import iter_predictions

    drawn: dict[str, None] = {}
    answered = errors = 0
    for answer in iter_predictions(words[0], words[1:], out=given.get("--out")):
        for note in answer.notes:
            print(f"regard: {note}", file=sys.stderr, flush=True)
        if as_json:
            print(json.dumps(answer.to_json(), ensure_ascii=False), flush=True)
        elif answer.error is not None:
            print(f"regard: {answer.error}", file=sys.stderr, flush=True)
        else:
            print(answer.format(), flush=True)  # also where it goes into a pipe: each may have taken a while
        if answer.picture is not None:
            drawn[answer.picture] = None
        answered, errors = answered + (answer.error is None), errors + (answer.error is not None)
    if drawn and not as_json:
        files = [*drawn] if len(drawn) <= LISTED else [f"{len(drawn):,} files in {given['--out']}"]
        print("\n".join(["where it looked:", *(f"  {file}" for file in files)]))
    return 0 if not errors else 1 if answered else 2


@command(
    "evaluate RUN [--data PATH]",
    "how good a model is: on its test split, or on another file",
    "regard evaluate runs/text",
    "regard evaluate runs/images --data other-photos --json",
)
def evaluate(words: list[str]) -> int:
    if "-h" in words or "--help" in words:
        print(help_for(COMMANDS["evaluate"]) + manual.EVALUATE)
        return 0
    as_json, words = "--json" in words, [word for word in words if word != "--json"]
    refuse_several(words)
    given, words = take_out(words, ("--data",))
    refuse_options(words, ("--data", "--json"), "regard evaluate")
    if len(words) != 1:
        raise ValueError(
            f"regard evaluate takes one run, got {' '.join(words) or 'none'}; see: regard evaluate --help"
        )
    import json

    from regard.api.evaluate import evaluate as measure
    from regard.cli import options

    with options.waiting(f"evaluating {words[0]}"):
        found = measure(words[0], given.get("--data"))
    for note in found.notes:
        print(f"regard: {note}", file=sys.stderr)
    print(json.dumps(found.to_json(), ensure_ascii=False) if as_json else found.format())
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
        session = looking.open_session(words[0], given.get("--input"), **how)
        session.show({})  # what is wrong with target or input is said now, not in the browser

    from regard.look.server import serve

    serve(session, port=port, ready=lambda address: print(f"{address}   (Ctrl-C ends it)", flush=True))
    return 0


def print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        print(
            "  "
            + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        )

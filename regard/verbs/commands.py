"""The commands. Each is one function that imports what it needs inside, so that `regard --help`, `--version`
and `list` answer at once. A command takes the words after its name and returns the exit code.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from regard.errors import RegardError
from regard.verbs.launch import is_worker, launch, wanted_processes
from regard.verbs.words import check_single_path, pop_data_options, pop_options

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


def asks_for_help(words: list[str]) -> bool:
    return not {"-h", "--help", "--help-all"}.isdisjoint(words)


def help_for(each: Command) -> str:
    examples = [f"  {example}" for example in each.examples]
    return "\n".join([f"usage: regard {each.usage}", "", each.sentence, "", "examples:", *examples])


@command(
    "list [CATEGORY]",
    "list masks, layers, models and other parts, one sentence each",
    "regard list",
    "regard list masks",
)
def list_parts(words: list[str]) -> int:
    from regard import registry

    if len(words) > 1:
        raise RegardError(f"regard list takes one category at most, got {len(words)}: {' '.join(words)}")
    if words:
        category = words[0]
        parts = registry.entries(category).items()
        print(f"{category}: {registry.describe(category)}\n")
        rows: list[tuple[str, ...]] = []
        for name, entry in parts:
            if entry.symmetry:
                keeps = [f"keeps {entry.symmetry}"]
            else:
                keeps = []
            rows.append((name, entry.target.replace(":", "."), *keeps, entry.sentence))
        print_table(rows)
    else:
        for category in registry.categories():
            print_table(
                [(category.ljust(10), registry.describe(category)), ("", ", ".join(registry.entries(category)))]
            )
        print("\nMore about one category: regard list CATEGORY")
    return 0


@command(
    "train RECIPE [--data PATH] ...",
    "train a model on your data (options: regard train text --help)",
    "regard train text",
    "regard train text --data my.txt --out runs/mine --train.minutes 5",
    "regard train text --data reviews.csv",
)
def train(words: list[str]) -> int:
    from regard import registry

    if len(words) == 1 and asks_for_help(words):
        print(f"{help_for(COMMANDS['train'])}\n\nrecipes:")
        print_table([(name, each.sentence) for name, each in registry.entries("recipes").items()])
        return 0
    if not words or words[0].startswith("-"):
        raise RegardError(f"regard train needs the name of a recipe: {', '.join(registry.entries('recipes'))}")
    name, rest = words[0], words[1:]
    check_single_path(rest)
    given, rest = pop_options(rest, ("--data", "--model", "--task", "--from", "--out"))
    resume, report = "--resume" in rest, "--no-report" not in rest
    rest = [word for word in rest if word not in ("--resume", "--no-report")]

    from regard.recipes.base import get_recipe
    from regard.runs.environment import shell_command
    from regard.runs.run_group import Repeats
    from regard.training.memory import retain_freed_memory
    from regard.training.progress import Ending
    from regard.training.ranks import current_ranks
    from regard.verbs import options
    from regard.verbs.finish import files_in_a_line, laws_in_a_line
    from regard.verbs.look import read_laws

    recipe = get_recipe(name)
    asks_help = asks_for_help(rest)
    if not asks_help and not is_worker():
        processes = wanted_processes(rest, resume, given.get("--out"), recipe.name)
        if processes > 1:
            return launch(processes, words)
    if asks_help:
        data = given.get("--data")
        kind = recipe.choose_kind(given.get("--model"), given.get("--task"), data)
        print(options.help_text(recipe, data, kind, rest, every="--help-all" in rest))
        return 0
    ending = Ending()
    with retain_freed_memory():
        run = train_as_asked(recipe, given, rest, ending, resume=resume, report=report)
    if not current_ranks().leads:
        return 0
    print(f"\n{files_in_a_line(run)}")
    if isinstance(run, Repeats):
        run = run.runs[0]
    if (laws := read_laws(run)) is not None and laws["laws"]:
        print(laws_in_a_line(laws["laws"]))
    print(f"next: {shell_command(recipe.next_command(run))}")
    # as a command that Ctrl-C ended
    if ending.stopped:
        return 130
    return 0


def train_as_asked(
    recipe: Any, given: dict[str, str], words: list[str], ending: Any, *, resume: bool, report: bool
) -> Any:
    """Settings from the words of the command, read once, and the training with them."""
    from regard.data.scan import scanning_once
    from regard.recipes.base import settings_of
    from regard.recipes.request import TrainRequest
    from regard.recipes.settings import apply_settings, moved_data
    from regard.runs.new_run import latest_run_path
    from regard.runs.run import Run
    from regard.runs.run_group import Repeats
    from regard.targets.imported import open_run
    from regard.training.progress import watch
    from regard.training.ranks import join_ranks, started_by_torchrun, telling_errors
    from regard.verbs import options, repeat
    from regard.verbs import train as training
    from regard.verbs.console import progress_printer

    data, kind, start, out = (given.get(name) for name in ("--data", "--model", "--from", "--out"))
    task = given.get("--task")
    chosen = {"--model": kind, "--task": None if kind else task}  # as the help is asked for
    program = " ".join([f"regard train {recipe.name}", *(f"{name} {each}" for name, each in chosen.items() if each)])
    how: dict[str, Any] = {"note": progress_printer(), "observers": [watch(), ending], "report": report}
    if started_by_torchrun():
        how["note"] = None
    with scanning_once(), telling_errors():
        if resume:
            place = out or latest_run_path(recipe.name)
            if Repeats.exists(place):
                several, settings = repeat.open_to_resume(place, recipe, model=kind, start=start, given=None)
                settings = apply_settings(settings, moved_data(settings, data))
                settings = options.change_settings(recipe, settings, words, program)
                return repeat.resume_repeats(several, settings, **how)
            run = Run.open(place)
            recipe.choose_kind(run.config.kind, task)
            training.check_resumable(run, recipe, model=kind, start=start, given=None)
            settings = settings_of(run)
            settings = apply_settings(settings, moved_data(settings, data))
            settings = options.change_settings(recipe, settings, words, program)
            return training.resume_run(run, settings, **how)
        origin = None if start is None else open_run(start)
        kind = recipe.choose_kind(kind, task, data)
        request = TrainRequest(recipe=recipe, data=data, kind=kind, start=origin, note=how["note"])
        settings = options.read_settings(request, words, program)
        folder, again = join_ranks(settings.train).choose_place(recipe.name, out)
        if again:  # torchrun has started all processes again
            run = Run.open(folder)
            settings = options.change_settings(recipe, settings_of(run), words, program)
            return training.resume_run(run, settings, **how)
        how["examples"] = request.examples
        return repeat.train_settings(recipe, settings, out=folder, start=origin, **how)


@command(
    "generate RUN [--prompt TEXT] ...",
    "text, new samples, or a dreamed episode",
    'regard generate runs/text --prompt "def " --max-new 200 --seed 1',
    'regard generate runs/chat --chat "What is 3 + 4?"',
    'regard generate model.gguf --prompt "Once upon" --weights int4 --stats',
    "regard generate runs/autoencoder --count 64 --out sheet.png",
    "regard generate runs/world --steps 200 --out dream.gif",
)
def generate(words: list[str]) -> int:
    from regard.verbs import options

    if asks_for_help(words):
        print(f"{help_for(COMMANDS['generate'])}\n\n{generate_help(every='--help-all' in words)}")
        return 0
    path = words[0] if words else ""
    if not path or path.startswith("-"):
        raise RegardError(f"regard generate takes one run first, got {path or 'none'}; see: regard generate --help")
    from regard.recipes.base import recipe_of
    from regard.targets.imported import open_run

    run = open_run(path)
    recipe = recipe_of(run)
    if recipe.generate_options is None:
        raise RegardError(f"{run.path} was trained on {recipe.name}, which generates nothing; use regard predict")
    chosen, rest = options.read_options(recipe.generate_options, words[1:], "regard generate")
    if rest:
        raise RegardError(f"regard generate takes one run, got {' '.join([path, *rest])}; see: regard generate --help")
    for piece in recipe.generate(run, chosen, _print_note):
        print(piece, end="", flush=True)
    return 0


def generate_help(*, every: bool) -> str:
    """The options of every recipe that generates something."""
    from regard import registry
    from regard.recipes.base import get_recipe
    from regard.verbs import options

    recipes = [get_recipe(name) for name in registry.entries("recipes")]
    return "\n".join(
        f"a run of {recipe.name}:\n{options.options_help(recipe.generate_options, 'regard generate', every=every)}"
        for recipe in recipes
        if recipe.generate_options is not None
    )


@command(
    "predict RUN INPUT... [--out FILE]",
    "predictions for texts, files, or the rows of a table",
    'regard predict runs/text "what a film"',
    "regard predict runs/text reviews.csv --out answers.csv",
    "regard predict all-MiniLM-L6-v2 texts.txt --embeddings out.npz",
    "regard predict runs/text letters.parquet --data.text body --out answers.parquet",
    "regard predict runs/translation input.txt --out output.txt --beams 5",
    "regard predict runs/images photo.jpg --out looked.png",
    "regard predict runs/autoencoder noisy.png --out clean.png --codes codes.npz",
    "regard predict runs/world episodes.npz --out answers.csv",
)
def predict(words: list[str]) -> int:
    data, words = pop_data_options(words)
    own, words = pop_recipe_options("predict", words)
    options = command_options("predict", "PredictOptions", words)
    if options is None:
        return 0
    chosen, words = options
    if len(words) < 2:
        raise RegardError("regard predict takes a run and one input at least: a text, or a file")
    if chosen.embeddings is not None:
        from regard.verbs.embed import embed

        if chosen.out is not None:
            raise RegardError("--embeddings and --out are two questions; give one of them")
        column = data.pop("data.text", None)
        _, vectors = embed(words[0], words[1:], chosen.embeddings, column=column, options=data, note=_print_note)
        print(f"{chosen.embeddings}: {len(vectors):,} vectors of {vectors.shape[1]} numbers")
        return 0
    from regard.training.memory import retain_freed_memory
    from regard.verbs.answers import AnswersPrinter
    from regard.verbs.predict import iter_predictions

    printer = AnswersPrinter(out=chosen.out, json=chosen.json)
    with retain_freed_memory():
        for prediction in iter_predictions(words[0], words[1:], out=chosen.out, options=data | own):
            printer.show(prediction)
    return printer.finish()


def _print_note(note: str) -> None:
    print(f"regard: {note}", file=sys.stderr)


@command(
    "evaluate RUN [--data PATH]",
    "loss and accuracy on the test split, or on another file",
    "regard evaluate runs/text",
    "regard evaluate runs/text --memory 2048",
    "regard evaluate runs/images --data other-photos --json",
    "regard evaluate runs/text --data other.csv --data.text body --data.label stars",
    "regard evaluate runs/translation --data test.en --data.beside test.de",
    "regard evaluate runs/autoencoder --samples 1000",
    "regard evaluate runs/world --episodes 100 --seed 1",
)
def evaluate(words: list[str]) -> int:
    check_single_path(words)
    data, words = pop_data_options(words)
    own, words = pop_recipe_options("evaluate", words)
    options = command_options("evaluate", "EvaluateOptions", words)
    if options is None:
        return 0
    chosen, words = options
    path = one_word(words, "evaluate", "run")
    from regard.files import json_text
    from regard.training.memory import retain_freed_memory
    from regard.verbs.console import spinner
    from regard.verbs.evaluate import evaluate as measure

    with spinner(f"evaluating {path}"), retain_freed_memory():
        found = measure(path, chosen.data, options=data | own)
    for note in found.notes:
        print(f"regard: {note}", file=sys.stderr)
    print(json_text(found.to_json()) if chosen.json else found.format())
    return 0


@command(
    "check TARGET [--laws A,B] ...",
    "does a model keep its symmetries? if not, at which layer?",
    "regard check runs/text",
    "regard check path/to/huggingface-model --laws padding,causality",
    "regard check my_package.my_module:make_model --json",
    "regard check runs/text --laws precision --length 600",
)
def check(words: list[str]) -> int:
    options = command_options("check", "CheckOptions", words)
    if options is None:
        return 0
    chosen, words = options
    target = one_word(words, "check", "target")

    from regard import registry

    for law in chosen.laws:
        registry.find("laws", law)  # or say which there are

    import torch

    from regard.verbs.check import check as measure

    how: dict[str, Any] = {
        "seed": chosen.seed,
        "trials": chosen.trials,
        "laws": chosen.laws or None,
        "length": chosen.length,
    }
    if chosen.dtype is not None:
        how["dtype"] = getattr(torch, chosen.dtype)
    if chosen.device is not None:
        from regard.training.step import open_device

        how["device"] = open_device(chosen.device, advice="try --device cpu")
    report = measure(target, **how)
    if chosen.json:
        from regard.files import json_text

        print(json_text(report.to_json(), indent=2))
    else:
        from regard.look.terminal import laws_table

        laws_table(report)
    if not any(finding.measured != "unknown" for finding in report):
        return 2
    if report.ok:
        return 0
    if all(finding.unmeasured for finding in report.wrong):
        return 2
    return 1


@command(
    "look TARGET [--input ...] ...",
    "what a model attends to: exact weights, as a page or picture",
    'regard look runs/text --input "def f(x):" --out page.html',
    "regard look runs/images --input photo.png",
    "regard look path/to/huggingface-vit --input cat.png",
    "regard look my_package.my_module:make_model --out heads.svg",
)
def look(words: list[str]) -> int:
    options = command_options("look", "LookOptions", words)
    if options is None:
        return 0
    chosen, words = options
    target = one_word(words, "look", "target")

    from regard.verbs import look as looking
    from regard.verbs.console import spinner

    def tell(note: str) -> None:
        print(f"note: {note}", file=sys.stderr)

    how: dict[str, Any] = {"answer": chosen.target, "laws": chosen.laws, "tell": tell}
    with spinner(f"looking at {target}"):
        if chosen.out is not None:
            path = looking.look(target, chosen.input, out=chosen.out, **how)
            if path.suffix == ".html":
                size = f": {path.stat().st_size / 1e6:.1f} MB; open it in a browser"
            else:
                size = ""
            print(f"{path}{size}")
            return 0
        session = looking.open_session(target, chosen.input, **how)
        session.show({})  # what is wrong with target or input is said now, not in the browser

    from regard.look.server import serve

    serve(session, port=chosen.port, ready=lambda address: print(f"{address}   (Ctrl-C ends it)", flush=True))
    return 0


def command_options(name: str, cls: Any, words: list[str]) -> tuple[Any, list[str]] | None:
    """The options of a command, of a class or of one that verbs/command_options.py has by this name, and the words
    that are none; None if it was asked for help, which is printed."""
    from regard.verbs import command_options, options

    owner = getattr(command_options, cls) if isinstance(cls, str) else cls
    if asks_for_help(words):
        listed = options.options_help(owner, f"regard {name}", every="--help-all" in words)
        print(f"{help_for(COMMANDS[name])}\n\n{listed}")
        return None
    return options.read_options(owner, words, f"regard {name}")


def pop_recipe_options(command: str, words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The options that only runs of one recipe have (--beams 8), by name, and the words that are left. A run
    that comes first says which there are."""
    import os

    if asks_for_help(words) or not words or not os.path.isdir(words[0]):
        return {}, words
    from dataclasses import asdict

    from regard.recipes.base import recipe_of
    from regard.targets.imported import open_run
    from regard.verbs import options

    cls = recipe_of(open_run(words[0])).predict_options
    if cls is None:
        return {}, words
    known = options.options_of(cls)
    spelled = [f"--{name[2:].replace('-', '_')}" for name in known]
    found, rest = pop_options(words, (*known, *spelled))
    own = [part for name, value in found.items() for part in (name.replace("_", "-"), value)]
    return asdict(options.read_options(cls, own, f"regard {command}")[0]), rest


def one_word(words: list[str], command: str, what: str) -> str:
    """The run or target of a command that takes one."""
    if len(words) != 1:
        given = " ".join(words) or "none"
        raise RegardError(f"regard {command} takes one {what}, got {given}; see: regard {command} --help")
    return words[0]


def print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        print("  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))

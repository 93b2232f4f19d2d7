"""The commands for weights of others: in, and out."""

import sys

from regard.errors import RegardError
from regard.verbs.commands import command, command_options, one_word


@command(
    "import PATH --out RUN",
    "weights of others (Hugging Face, GGUF) as a run",
    "regard import SmolLM2-135M --out runs/smollm",
    "regard import model.gguf --out runs/model",
)
def import_weights(words: list[str]) -> int:
    options = command_options("import", "ImportOptions", words)
    if options is None:
        return 0
    chosen, words = options
    path = one_word(words, "import", "path")
    if chosen.out is None:
        raise RegardError(f"regard import needs a folder for the run: regard import {path} --out runs/NAME")

    from regard.targets.imported import import_weights as imported
    from regard.verbs.console import spinner

    with spinner(f"reading {path}"):
        run, found = imported(path, chosen.out)
    for note in found.notes:
        print(f"regard: {note}", file=sys.stderr)
    count = sum(tensor.numel() for tensor in found.state.values())
    print(f"{run.path}: {found.kind} with {count:,} parameters, from {found.origin}")
    return 0


@command(
    "export RUN --to hf --out DIR",
    "the model of a run as a Hugging Face directory",
    "regard export runs/text --to hf --out mine",
)
def export(words: list[str]) -> int:
    options = command_options("export", "ExportOptions", words)
    if options is None:
        return 0
    chosen, words = options
    path = one_word(words, "export", "run")
    if chosen.out is None:
        raise RegardError(f"regard export needs a new folder: regard export {path} --to hf --out NAME")

    from regard.verbs.console import spinner
    from regard.verbs.export import export_run

    with spinner(f"writing {chosen.out}"):
        out, notes = export_run(path, chosen.out)
    for note in notes:
        print(f"regard: {note}", file=sys.stderr)
    print(f"{out}: open it with transformers, from_pretrained({str(out)!r})")
    return 0

"""regard import and regard export: weights of others as a run, and a run as a directory of Hugging Face with its weights,
configuration, tokenizer or preprocessing, and a model card."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

from regard import files
from regard.config import config
from regard.errors import RegardError, name_keywords
from regard.pretrained.export import export
from regard.recipes.base import ExportFiles, recipe_of
from regard.runs.load import load_model
from regard.runs.number_format import say_measure
from regard.runs.run import Run
from regard.targets.imported import import_weights
from regard.verbs.console import spinner
from regard.verbs.look import read_laws
from regard.verbs.options import one_word, read_options

Place = str | os.PathLike[str]
COUNTS = ("files", "pictures", "rows", "train", "validation", "test", "tokens", "vocabulary")


@config
class ImportOptions:
    """PATH is a Hugging Face directory (config.json and safetensors) or a GGUF file. Known are GPT-2, Llama,
    Mistral, Qwen2, Qwen3, GPT-NeoX, BERT, RoBERTa, DistilBERT, ViT, DeiT, DINOv2 and Swin. What cannot be
    represented is refused by its name. Other commands take such a path, too, without an import.
    """

    out: str | None = None  # a new folder for the run


@config
class ExportOptions:
    """RUN is the folder of a run whose model Hugging Face knows, too: regard import made it, or its options are
    those of such a model. The folder opens with from_pretrained of transformers, and gives the same logits.
    """

    to: Literal["hf"] = "hf"  # hf: Hugging Face's transformers
    out: str | None = None  # a new folder for the files


@name_keywords
def export_run(path: Place, out: Place) -> tuple[Path, tuple[str, ...]]:
    """Write the model of a run as transformers opens it: from_pretrained(out). Returns the folder, and what a
    reader should know."""
    run, out = Run.open(path), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} is there already; choose another folder with --out")
    if run.config.kind is None:
        raise RegardError(f"{run.path} holds a module of your own, which has no name elsewhere")
    model: Any = load_model(run)
    along = ExportFiles()
    if run.config.recipe is not None:
        along = recipe_of(run).export_files(run)
    plain, tensors = export(run.config.kind, model.config, model.state_dict(), run.config.imported)
    if along.labels:
        plain["id2label"] = {str(i): label for i, label in enumerate(along.labels)}
        plain["label2id"] = {label: i for i, label in enumerate(along.labels)}
    files.make_folder(out.parent, parents=True)
    part = out.parent / f".{out.name}-{os.getpid()}.part"
    try:
        files.make_folder(part)
        for name, value in along.files.items():
            files.write_json(part / name, value)
        files.write_text(part / "README.md", _model_card(run, plain))
        files.write_tensors(part / "model.safetensors", tensors, metadata={"format": "pt"})
        files.write_json(part / "config.json", {**plain, "dtype": "float32"})
        os.replace(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return out, along.notes


def _model_card(run: Run, plain: dict[str, Any]) -> str:
    """In Markdown, with the head that Hugging Face reads."""
    name = plain["architectures"][0]
    lines = ["---", "library_name: transformers", "tags:", "- regard", "---", "", f"# {run.path.resolve().name}", ""]
    lines += [f"Kind: {run.config.kind} of regard {run.config.regard}, exported as {name}.", ""]
    if run.config.imported is not None:
        lines += [f"It began with weights of others, a model of the type {run.config.imported}.", ""]
    lines += [*_data(run), *_figures(run), *_laws(run)]
    lines += [
        "## Use",
        "",
        "```python",
        f"from transformers import {name}",
        "",
        f'model = {name}.from_pretrained(".")',
        "```",
        "",
    ]
    return "\n".join(lines)


def _data(run: Run) -> list[str]:
    known = run.config.counts or {}
    counts = [f"- {name}: {known[name]:,}" for name in COUNTS if type(known.get(name)) is int and known[name]]
    labels = run.config.labels
    if not counts and not labels:
        return ["## Data", "", "Nothing is recorded about its data.", ""]
    if labels:
        counts.append(f"- classes: {', '.join(labels[:20])}")
    return ["## Data", "", *counts, ""]


def _figures(run: Run) -> list[str]:
    test = run.config.test
    if not test:
        return ["## Figures", "", "It was not evaluated on a test split.", ""]
    figures = [f"- {say_measure(name, value)}" for name, value in test.items()]
    return ["## Figures", "", "On the test split of its data:", "", *figures, ""]


def _laws(run: Run) -> list[str]:
    found = (read_laws(run) or {}).get("laws") or []
    if not found:
        return ["## Laws", "", "Its laws were not measured; `regard check` measures them.", ""]
    rows = [f"| {law['law']} | {law['declared'] or ''} | {law['measured']} |" for law in found]
    return ["## Laws", "", "| law | declared | measured |", "|---|---|---|", *rows, ""]


# ── the commands


def run_import(words: list[str]) -> int:
    """regard import PATH --out RUN"""
    options, words = read_options(ImportOptions, words, "regard import")
    path = one_word(words, "import", "path")
    if options.out is None:
        raise RegardError(f"regard import needs a folder for the run: regard import {path} --out runs/NAME")
    with spinner(f"reading {path}"):
        run, found = import_weights(path, options.out)
    for note in found.notes:
        print(f"regard: {note}", file=sys.stderr)
    count = sum(tensor.numel() for tensor in found.state.values())
    print(f"{run.path}: {found.kind} with {count:,} parameters, from {found.origin}")
    return 0


def run_export(words: list[str]) -> int:
    """regard export RUN --to hf --out DIR"""
    options, words = read_options(ExportOptions, words, "regard export")
    path = one_word(words, "export", "run")
    if options.out is None:
        raise RegardError(f"regard export needs a new folder: regard export {path} --to hf --out NAME")
    with spinner(f"writing {options.out}"):
        out, notes = export_run(path, options.out)
    for note in notes:
        print(f"regard: {note}", file=sys.stderr)
    print(f"{out}: open it with transformers, from_pretrained({str(out)!r})")
    return 0

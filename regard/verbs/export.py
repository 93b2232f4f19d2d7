"""A run as a directory of Hugging Face: weights, configuration, tokenizer or preprocessing, and a model card."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from regard import files
from regard.errors import RegardError
from regard.pretrained.export import export
from regard.recipes.base import ExportFiles, recipe_of
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.verbs.model_card import model_card

Place = str | os.PathLike[str]


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
        files.write_text(part / "README.md", model_card(run, plain))
        files.write_tensors(part / "model.safetensors", tensors, metadata={"format": "pt"})
        files.write_json(part / "config.json", {**plain, "dtype": "float32"})
        os.replace(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return out, along.notes

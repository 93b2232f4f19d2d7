"""What goes along with an exported model of text: its tokenizer, and the names of its classes."""

from __future__ import annotations

from regard.data import tokenizer as tokenizers
from regard.errors import RegardError
from regard.pretrained.export_tokenizer import export_tokenizer
from regard.recipes.base import ExportFiles
from regard.runs.run import Run


def export_files(run: Run) -> ExportFiles:
    """tokenizer.json and its settings; labels of a classifier."""
    target = (run.config.processor or {}).get("target")
    labels = run.config.labels
    if target is not None and (not labels or target.get("several")):
        raise RegardError(
            f"{run.path} predicts no single class, and Hugging Face's classifiers know nothing else; only one class of "
            "each text is exported"
        )
    if not run.tokenizer_file.exists():
        return ExportFiles(labels, notes=("there is no tokenizer, so none is written",))
    tokenizer = tokenizers.load(run.verify("tokenizer.json"))
    data, settings = export_tokenizer(tokenizer, int((run.config.model or {})["context"]))
    return ExportFiles(labels, {"tokenizer.json": data, "tokenizer_config.json": settings})

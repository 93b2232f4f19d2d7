"""What goes along with an exported model of text: its tokenizer, and the names of its classes."""

from __future__ import annotations

from regard.data import tokenizer as tokenizers
from regard.errors import RegardError
from regard.pretrained.export_tokenizer import export_tokenizer
from regard.recipes.base import ExportFiles
from regard.recipes.text.defaults import is_classifier
from regard.recipes.text.labelled import LabelledInfo
from regard.runs.run import Run


def export_files(run: Run) -> ExportFiles:
    """tokenizer.json and its settings; labels of a classifier."""
    labels: tuple[str, ...] = ()
    if is_classifier(run.config):
        info = run.section(LabelledInfo, "corpus")
        if info.numbers is not None:
            raise RegardError(
                f"{run.path} predicts a number in its own units, which Hugging Face's classifiers do not know; "
                f"only classes are exported"
            )
        labels = info.labels
    if not run.tokenizer_file.exists():
        return ExportFiles(labels, notes=("there is no tokenizer, so none is written",))
    tokenizer = tokenizers.load(run.verify("tokenizer.json"))
    data, settings = export_tokenizer(tokenizer, int((run.config.model or {})["context"]))
    return ExportFiles(labels, {"tokenizer.json": data, "tokenizer_config.json": settings})

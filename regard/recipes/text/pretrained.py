"""Weights of others as a run of the text recipe, and what goes along when such a run is exported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.data import tokenizer as tokenizers
from regard.errors import RegardError
from regard.pretrained.export_tokenizer import export_tokenizer
from regard.pretrained.weights import Pretrained
from regard.recipes.base import ExportFiles
from regard.recipes.target import Target
from regard.recipes.text.config import LabelledTextConfig, TextConfig
from regard.recipes.text.processor import TextsFitted, TextsProcessor
from regard.runs.run import Run
from regard.training.config import TrainConfig

LONGEST = 1024  # tokens per window, unless more is asked for: memory grows with it
BATCH = 8  # rows: such models are large


def adopt(found: Pretrained) -> Mapping[str, Any] | None:
    """The sections of config.json; None: it reads no text."""
    if found.kind not in ("decoder", "encoder"):
        return None
    context = min(found.config.context, LONGEST)
    train = TrainConfig(batch=BATCH)
    if found.predicts != "classes":
        problem = "next" if found.kind == "decoder" else "masked"
        return {"problem": problem, "train": train, "data": TextConfig(context=context)}
    data = LabelledTextConfig(context=context)
    fitted = TextsFitted(kind="subwords", vocabulary=found.config.vocab)
    processor = TextsProcessor(data, fitted, Target(classes=found.labels))
    return {"problem": "supervised", "train": train, "data": data, "processor": processor.store()}


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

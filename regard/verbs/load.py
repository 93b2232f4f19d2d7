"""The model of a run, ready for use."""

from __future__ import annotations

import os

from torch import nn

from regard.errors import name_keywords
from regard.recipes.base import problem_of_run
from regard.runs.load import load_model
from regard.targets.imported import open_run


@name_keywords
def load(path: str | os.PathLike[str]) -> nn.Module:
    """The model of a run, of a Hugging Face directory or of a GGUF file, in eval mode; if it reads text, with
    its tokenizer as `model.tokenizer`."""
    run = open_run(path)
    if run.config.recipe is None:
        return load_model(run)
    return problem_of_run(run).load(run)

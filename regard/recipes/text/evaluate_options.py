"""Options of `regard evaluate` that only runs of text have."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from regard.config import config
from regard.errors import RegardError
from regard.models.decoder import DecoderConfig
from regard.recipes.settings import Settings


@config
class TextEvaluateOptions:
    """How a language model is evaluated."""

    # tokens before a segment that a causal LM sees; 0: none; None: as many as in training
    memory: Annotated[int, Field(ge=0, le=2**22)] | None = None

    def apply(self, settings: Settings) -> Settings:
        """The settings of a run, with this memory."""
        if self.memory is None:
            return settings
        if not isinstance(settings.model, DecoderConfig):
            raise RegardError(
                f"--memory {self.memory} is for a causal LM with attention (--model decoder), and this run is "
                "none; leave it out"
            )
        return replace(settings, model=replace(settings.model, memory=self.memory))

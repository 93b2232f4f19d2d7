"""Options of `regard evaluate` that only runs of text have."""

from __future__ import annotations

from dataclasses import dataclass, replace

from regard.config import check_sizes
from regard.errors import RegardError
from regard.models.decoder import DecoderConfig
from regard.recipes.settings import Settings


@dataclass(frozen=True, kw_only=True)
class TextEvaluateOptions:
    """How a language model is evaluated."""

    # tokens before a segment that a causal LM sees; 0: none; None: as many as in training
    memory: int | None = None

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.memory is not None and self.memory < 0:
            raise RegardError(f"memory must be a whole number from 0 on, got {self.memory}")

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

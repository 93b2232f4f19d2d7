"""An episode as the model reads it: one token for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch

from regard.data.array import Array
from regard.errors import RegardError
from regard.look.model_input import ModelInput, Tokens
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.spaces import Spaces

if TYPE_CHECKING:
    from regard.look.scene import Scene

SHOWN = 128  # steps of an episode
KEPT = 24  # things that are kept
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class EpisodeInput(ModelInput):
    """Steps of one of some episodes."""

    kind = "episode"
    part = "step"

    episode: Episodes  # the steps that are shown
    spaces: Spaces
    environment: str | None = None  # its name, where there is one
    learned: bool = False  # has the model a policy that learned?
    episodes: Episodes  # all that can be shown; errors are measured on them
    names: tuple[str, ...]  # of them
    chosen: int  # which of them is shown
    about: tuple[str, ...] = ()  # notes on all of them
    origin: Literal["held out", "learned from"] | None = None  # of a run's own; None: somebody gave them
    changes: Mapping[int, Array] = field(default_factory=dict)  # step -> another action, as the model takes it
    # what was computed of these episodes before, for a served page that asks again and again
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    def once(self, scene: Scene, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, computed once for the same episode and the same silenced heads."""
        key = (name, self.chosen, tuple(scene.silence))
        if key not in self.kept:
            if len(self.kept) >= KEPT:
                self.kept.clear()
            self.kept[key] = make()
        found: T = self.kept[key]
        return found

    def choose(self, number: int) -> EpisodeInput:
        """Another one of the episodes."""
        if not 0 <= number < len(self.names):
            raise RegardError(f"episodes are numbered 0 … {len(self.names) - 1}, got {number}")
        whole = self.episodes.episode(number)
        episode = whole.take(np.arange(min(SHOWN, len(whole))))
        notes = self.about
        if len(whole) > SHOWN:
            notes += (f"The episode has {len(whole):,} steps, of which the first {SHOWN} are shown.",)
        labels = tuple(str(step + 1) for step in range(len(episode)))  # people count from 1
        return replace(
            self,
            inputs={"steps": torch.from_numpy(episode.steps)[None]},
            streams=(Tokens("steps", labels, "items"),),
            name=self.names[number],
            notes=notes,
            episode=episode,
            chosen=number,
        )

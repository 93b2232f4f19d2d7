"""An episode as the model reads it: one token for each step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.look.model_input import ModelInput, Tokens
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.spaces import Spaces


@dataclass(frozen=True, kw_only=True)
class EpisodeInput(ModelInput):
    """Steps of one episode."""

    kind = "episode"
    part = "step"

    episode: Episodes
    spaces: Spaces


def episode_input(
    episode: Episodes, spaces: Spaces, name: str | None, notes: tuple[str, ...] = ()
) -> EpisodeInput:
    labels = tuple(str(number) for number in range(len(episode)))
    return EpisodeInput(
        inputs={"steps": torch.from_numpy(episode.steps)[None]},
        streams=(Tokens("steps", labels, "items"),),
        name=name,
        notes=notes,
        episode=episode,
        spaces=spaces,
    )

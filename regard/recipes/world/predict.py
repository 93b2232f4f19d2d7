"""One-step predictions for recorded episodes: what comes after each step, from it and those before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from regard.models.world_model import WorldModel
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.world.codes import encode_episodes
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.read_episodes import find_files, read_episodes
from regard.recipes.world.settings import WorldDataConfig, WorldInfo
from regard.runs.load import load_model
from regard.runs.run import Run

TOGETHER = 512  # steps of an episode that are read at once


def predict(run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
    """A prediction for each file, with a part for each step."""
    model, info = load_model(run), run.section(WorldInfo, "corpus")
    config = run.section(WorldDataConfig, "data")
    assert isinstance(model, WorldModel)

    def predict_file(path: str) -> list[Prediction]:
        return [_of_file(model, each, info, config) for each in find_files(path)]

    return predict_each(inputs, predict_file)


def _of_file(model: WorldModel, path: str, info: WorldInfo, config: WorldDataConfig) -> Prediction:
    found = read_episodes([path], info.spaces, config=config)
    episodes = encode_episodes(model, found.episodes)
    parts: list[Prediction] = []
    missed: list[Any] = []
    for number in range(len(episodes.starts)):
        episode = episodes.episode(number)
        out = predict_steps(model, episode)
        missed.append((out[:, :-2] - episode.following) / model.scale.numpy())
        parts += [_of_step(number, step, row, info) for step, row in enumerate(out)]
    error = float(np.sqrt(np.square(np.concatenate(missed)).mean()))
    return Prediction(input=path, values={"error": error}, each=tuple(parts), notes=found.notes)


def _of_step(episode: int, step: int, row: Any, info: WorldInfo) -> Prediction:
    numbers = info.spaces.observed or tuple(range(info.spaces.observations))
    what = "next_observation" if info.spaces.image is None else "next_code"
    values = {f"{what}_{number}": float(row[i]) for i, number in enumerate(numbers)}
    values |= {"reward": float(row[-2]), "continue": float(row[-1])}
    return Prediction(input=f"episode {episode}, step {step}", values=values, row={"episode": episode, "step": step})


@torch.no_grad()
def predict_steps(model: WorldModel, episode: Episodes) -> Any:
    """The next observation, the reward and the probability of *continue* after each step.   n -> n (o + 2)"""
    steps = torch.from_numpy(episode.steps)[None].to(model.mean)
    caches = model.caches()
    parts = [model(part, caches=caches) for part in steps.split(TOGETHER, 1)]
    out = torch.cat(parts, 1)[0]
    out[:, -1] = out[:, -1].sigmoid()
    return out.cpu().numpy()

"""How a run reads an episode, to be looked at: of a file, or one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.batch import generator
from regard.look.model_input import ModelInput
from regard.look.reader import GONE, Control, Reader, at_path
from regard.models.world_model import WorldModel
from regard.recipes.world.codes import encode_episodes
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.model_input import EpisodeInput
from regard.recipes.world.read_episodes import find_files, read_episodes
from regard.recipes.world.settings import WorldDataConfig, WorldInfo, WorldTrainConfig
from regard.recipes.world.store import EpisodeStore
from regard.recipes.world.views.changed_actions import ACTIONS, read_changes
from regard.recipes.world.views.episode import EpisodeView
from regard.recipes.world.views.horizons import HorizonsView
from regard.recipes.world.views.moments import MomentsView
from regard.recipes.world.views.returns import ReturnsView
from regard.runs.run import Run

FILE = Control(
    name="file",
    type="file",
    label="episodes",
    accept=".npz,.csv",  # bytes without a name say no more than that
    example="application/octet-stream",
)
EPISODE = Control(name="episode", type="number", label="episode")
DRAWN = 32  # steps of an episode that is drawn at random


class EpisodeReader(Reader):
    """Reads the first episode of a file; without one, the last episode that the run did not learn from. A served
    page can show the others, and change actions."""

    views = (EpisodeView(), MomentsView(), HorizonsView(), ReturnsView())
    controls = (FILE, EPISODE, ACTIONS)

    def __init__(self, run: Run, model: WorldModel) -> None:
        self.run, self.model = run, model
        self.info = run.section(WorldInfo, "corpus")
        self.last: tuple[str | bytes | None, EpisodeInput] | None = None  # what was read, and what it became
        self.learned = run.section(WorldTrainConfig, "train").policy != "none"

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> EpisodeInput:
        if self.last is None or self.last[0] != given:
            self.last = given, self._open(given)
        return self.last[1]

    def _open(self, given: str | bytes | None) -> EpisodeInput:
        if given is None:
            return self.example()
        with at_path(given) as path:
            config = self.run.section(WorldDataConfig, "data")
            found = read_episodes(find_files(str(path)), self.info.spaces, config=config)
        episodes = encode_episodes(self.model, found.episodes)
        count = len(episodes.starts)
        before = f"{Path(given).name}, " if isinstance(given, str) else ""
        names = tuple(f"{before}episode {number + 1:,}" for number in range(count))
        return self._make(episodes, names, found.notes).choose(0)

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        assert isinstance(given, EpisodeInput)
        if "episode" in values:
            given = given.choose(values["episode"])
        if "actions" in values:
            changes = read_changes(values["actions"], given.spaces, len(given.episode))
            given = replace(given, changes=changes)
        return given

    def example(self) -> EpisodeInput:
        """The last episode of the run's own data that was held out."""
        data = self.run.section(WorldDataConfig, "data")
        try:
            store = self._open_store(data)
        except (OSError, ValueError):
            return self._drawn_at_random()
        if not store.rounds:
            return self._drawn_at_random()
        held = len(store.held_rows) > 0
        rows = store.held_rows if held else store.train_rows
        numbers = np.unique(store.all.of[rows])
        names = tuple(f"episode {number + 1:,}" for number in numbers)
        found = self._make(store.all.take(rows), names, ())
        return replace(found, origin="held out" if held else "learned from").choose(len(names) - 1)

    def _open_store(self, data: WorldDataConfig) -> EpisodeStore:
        if self.info.environment is None:
            found = read_episodes(find_files(str(data.path)), self.info.spaces, config=data)
            episodes = encode_episodes(self.model, found.episodes)
            return EpisodeStore(self.info.spaces, data.validation, episodes)
        store = EpisodeStore(self.info.spaces, data.validation)
        store.read_from(self.run)
        store.encode(self.model)
        return store

    def _drawn_at_random(self) -> EpisodeInput:
        """An episode that the model itself makes up, where there is no other."""
        steps = self.model.sample_inputs(tokens=DRAWN + 1, rows=1)["steps"][0].cpu().numpy()
        o = self.info.spaces.observations
        last = np.arange(DRAWN) == DRAWN - 1
        episode = Episodes(
            observations=steps[:-1, :o].astype(np.float32),
            actions=self.info.spaces.draw(generator(0, 23), DRAWN),
            rewards=np.zeros(DRAWN, np.float32),
            following=steps[1:, :o].astype(np.float32),
            terminated=np.zeros(DRAWN, bool),
            last=last,
        )
        return self._make(episode, ("drawn at random",), (GONE,)).choose(0)

    def _make(self, episodes: Episodes, names: tuple[str, ...], notes: tuple[str, ...]) -> EpisodeInput:
        """Some episodes, of which none is chosen yet."""
        return EpisodeInput(
            inputs={"steps": torch.zeros(1, 0, 0)},
            episode=episodes,
            spaces=self.info.spaces,
            environment=self.info.environment,
            learned=self.learned,
            episodes=episodes,
            names=names,
            chosen=0,
            about=notes,
        )

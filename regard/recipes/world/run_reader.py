"""How a run reads an episode, to be looked at: of a file, or one of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regard.look.reader import Control, Reader, at_path
from regard.models.world_model import WorldModel
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.model_input import EpisodeInput, episode_input
from regard.recipes.world.read_episodes import SUFFIXES, find_files, read_episodes
from regard.recipes.world.settings import WorldDataConfig, WorldInfo
from regard.recipes.world.store import EpisodeStore
from regard.runs.run import Run

SHOWN = 128  # steps of an episode
FILE = Control(
    name="file",
    type="file",
    label="episodes",
    accept=",".join(SUFFIXES),
    example="application/octet-stream",
)


class EpisodeReader(Reader):
    """Reads the first episode of a file; without one, the last episode that the run did not learn from."""

    controls = (FILE,)

    def __init__(self, run: Run, model: WorldModel) -> None:
        self.run, self.model = run, model
        self.info = run.section(WorldInfo, "corpus")

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> EpisodeInput:
        spaces = self.info.spaces
        if given is None:
            own, called = self.example()
            return episode_input(_cut(own), spaces, called, _note(own))
        with at_path(given) as path:
            found = read_episodes(find_files(str(path)), spaces)
        episode = found.episodes.episode(0)
        name = Path(given).name if isinstance(given, str) else None
        return episode_input(_cut(episode), spaces, name, (*found.notes, *_note(episode)))

    def example(self) -> tuple[Episodes, str]:
        """An episode of the run's own data."""
        data = self.run.section(WorldDataConfig, "data")
        if self.info.environment is None:
            found = read_episodes(find_files(str(data.path)), self.info.spaces)
            store = EpisodeStore(self.info.spaces, data.validation, found.episodes)
        else:
            store = EpisodeStore(self.info.spaces, data.validation)
            store.read_from(self.run)
        rows = store.held_rows if len(store.held_rows) else store.train_rows
        number = int(np.unique(store.all.of[rows])[-1])
        return store.all.episode(number), f"episode {number + 1:,}"


def _cut(episode: Episodes) -> Episodes:
    return episode.take(np.arange(min(SHOWN, len(episode))))


def _note(episode: Episodes) -> tuple[str, ...]:
    if len(episode) <= SHOWN:
        return ()
    return (f"The episode has {len(episode):,} steps, of which the first {SHOWN} are shown.",)

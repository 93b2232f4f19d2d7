"""The episodes of a run: a file for each round of acting, written whole, so that a kill loses no round and counts
none twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from regard import files
from regard.data.array import Array
from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.world.codes import encode_episodes
from regard.recipes.world.episodes import Episodes, join, write_episodes
from regard.recipes.world.read_episodes import read_episodes
from regard.recipes.world.spaces import Spaces
from regard.runs.run import Run


def episodes_folder(run: Run) -> Path:
    return run.state / "episodes"


class EpisodeStore:
    """Episodes of rounds 0, 1, ...; each is acted once, however often the run is killed."""

    def __init__(self, spaces: Spaces, validation: float, recorded: Episodes | None = None) -> None:
        self.spaces, self.validation = spaces, validation
        self.folder: Path | None = None
        self.rounds: list[Episodes] = []
        self.train_rows = self.held_rows = self.end_rows = np.zeros(0, dtype=np.int64)
        self.recorded = recorded is not None
        if recorded is not None:
            self._add(recorded)

    def bind(self, run: Run) -> None:
        """Keep the episodes in this run."""
        if self.recorded:
            return
        self.folder = episodes_folder(run)
        files.make_folder(run.state)
        files.make_folder(self.folder)
        files.sweep(self.folder, older=-np.inf)

    def read_from(self, run: Run) -> None:
        """Have all episodes of a run; nothing is written."""
        if not self.recorded:
            self.folder = episodes_folder(run)
            self.load_rounds()

    def file_of(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"round-{number:03}.npz"

    def open_round(self, number: int, act: Callable[[], Episodes] | None) -> None:
        """Have the episodes of all rounds up to this one. act: acts in the environment, for the last of them; None:
        it was acted before"""
        if self.recorded:
            return
        while len(self.rounds) <= number:
            file = self.file_of(len(self.rounds))
            if file.exists():
                self._add(read_episodes([str(file)], self.spaces).episodes)
                continue
            if act is None or len(self.rounds) < number:
                raise RegardError(
                    f"{file} is missing, so this run cannot go on as it began; start a new run, with --from if you "
                    "want its weights"
                )
            # then read as after a kill, so that both go on with the same numbers
            write_episodes(file, act(), self.spaces)

    def encode(self, model: WorldModel) -> None:
        """Have the codes that this model gives the images; nothing to do for vectors."""
        if self.spaces.image is None or not self.rounds:
            return
        self.rounds = [encode_episodes(model, each) for each in self.rounds]
        self.all = join(self.rounds)

    def load_rounds(self) -> None:
        """Read all rounds that there are in the folder."""
        while not self.recorded and self.file_of(len(self.rounds)).exists():
            self.open_round(len(self.rounds), None)

    def _add(self, found: Episodes) -> None:
        self.rounds.append(found)
        self.all = join(self.rounds)
        held = self._held()
        rows = np.arange(len(self.all))
        self.train_rows, self.held_rows = rows[~held], rows[held]
        self.end_rows = rows[~held & self.all.terminated]

    def rows_near_ends(self, steps: int) -> Array:
        """Steps that are learned from, and at most so many steps before the end of an episode that terminated."""
        if not len(self.end_rows):
            return self.end_rows
        following = np.searchsorted(self.end_rows, self.train_rows)
        end = self.end_rows[np.minimum(following, len(self.end_rows) - 1)]
        same = (self.all.of[end] == self.all.of[self.train_rows]) & (end >= self.train_rows)
        found: Array = self.train_rows[same & (end - self.train_rows < steps)]
        return found

    def _held(self) -> Array:
        """Which steps are of episodes that are held out: one of so many, from the end of each group.   bool n"""
        if not self.validation:
            return np.zeros(len(self.all), dtype=bool)
        every = max(2, round(1 / self.validation))
        found: Array = self.all.of % every == every - 1
        return found

    @property
    def real_steps(self) -> int:
        return sum(map(len, self.rounds))

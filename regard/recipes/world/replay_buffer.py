"""The episodes that a run learns from, and the batches that are made of them.

Each round of acting is a file, written whole, so that a kill loses no round and counts none twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from regard import files
from regard.data.array import Array
from regard.data.batch import Batch, Source, generator
from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.world.episodes import Episodes, join, write_episodes
from regard.recipes.world.images import encode_episodes
from regard.recipes.world.read_episodes import read_episodes
from regard.recipes.world.spaces import Spaces
from regard.runs.run import Run

AROUND_ENDS = 0.25  # of the rows of a batch: few steps are ends, and all that is known of *continue* is in them


def episodes_folder(run: Run) -> Path:
    return run.state / "episodes"


class ReplayBuffer:
    """Episodes of rounds 0, 1, ...; each is acted once, however often the run is killed. Recorded episodes are the only
    round there is."""

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

    def read_from(self, run: Run, model: WorldModel | None = None) -> None:
        """Have all episodes of a run, with the codes that this model gives their images; nothing is written."""
        if not self.recorded:
            self.folder = episodes_folder(run)
            while self.file_of(len(self.rounds)).exists():
                self.open_round(len(self.rounds), None)
        if model is not None:
            self.encode(model)

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
                self._add(read_episodes(str(file), self.spaces).episodes)
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

    def _add(self, found: Episodes) -> None:
        self.rounds.append(found)
        self.all = join(self.rounds)
        # one episode of so many is held out, from the end of each group
        held = np.zeros(len(self.all), dtype=bool)
        if self.validation:
            every = max(2, round(1 / self.validation))
            held = self.all.of % every == every - 1
        rows = np.arange(len(self.all))
        self.train_rows, self.held_rows = rows[~held], rows[held]
        self.end_rows = rows[~held & self.all.terminated]

    @property
    def judged_rows(self) -> Array:
        """The steps that the model is judged on: those that were held out, or all if none were."""
        return self.held_rows if len(self.held_rows) else self.train_rows

    def rows_near_ends(self, steps: int) -> Array:
        """Steps that are learned from, and at most so many steps before the end of an episode that terminated."""
        if not len(self.end_rows):
            return self.end_rows
        following = np.searchsorted(self.end_rows, self.train_rows)
        end = self.end_rows[np.minimum(following, len(self.end_rows) - 1)]
        same = (self.all.of[end] == self.all.of[self.train_rows]) & (end >= self.train_rows)
        found: Array = self.train_rows[same & (end - self.train_rows < steps)]
        return found

    @property
    def real_steps(self) -> int:
        return sum(map(len, self.rounds))


class EpisodeSource(Source):
    """Batches of steps in a row. Batch `number` depends on the seed, the number, and the episodes that there are.
    before: steps ahead of each row that are only looked back on"""

    def __init__(self, buffer: ReplayBuffer, rows: int, length: int, seed: int, before: int = 0) -> None:
        self.buffer, self.rows, self.length, self.seed = buffer, rows, length, seed
        self.before = before

    def batch(self, step: int) -> Batch:
        random, buffer = generator(self.seed, 11, step), self.buffer
        at = random.choice(buffer.train_rows, self.rows)
        ends = int(AROUND_ENDS * self.rows)
        if len(buffer.end_rows):
            at[:ends] = random.choice(buffer.end_rows, ends)
        begins = buffer.all.starts[buffer.all.of[at]]
        first = np.maximum(begins, at - random.integers(self.length, size=self.rows))
        return buffer.all.chunk(first, self.length, self.before)

    def validation(self) -> Iterator[Batch]:
        return self._in_order(self.buffer.held_rows)

    def every(self) -> Iterator[Batch]:
        """All episodes, in order."""
        return self._in_order(np.arange(len(self.buffer.all)))

    def _in_order(self, rows: Array) -> Iterator[Batch]:
        if not len(rows):
            return
        episodes = self.buffer.all
        inside = rows - episodes.starts[episodes.of[rows]]
        first = rows[inside % self.length == 0]
        for start in range(0, len(first), self.rows):
            yield episodes.chunk(first[start : start + self.rows], self.length, self.before)

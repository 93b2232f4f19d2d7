"""How a run reads an episode, to be looked at: of a file, or one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import generator
from regard.errors import RegardError
from regard.look.model_input import Kept, ModelInput, Tokens
from regard.look.reader import GONE, Control, Reader, at_path
from regard.look.view import View
from regard.models.world_model import WorldModel
from regard.recipes.world.config import WorldTrainConfig
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.spaces import Spaces
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.look.scene import Scene
    from regard.recipes.world.problem import World

SHOWN = 128  # steps of an episode
DRAWN = 32  # steps of an episode that is drawn at random
FINEST = 1000  # an action's number from −1 to 1 is asked for in thousandths
FILE = Control(
    name="file",
    type="file",
    label="episodes",
    accept=".npz,.csv",  # bytes without a name say no more than that
    example="application/octet-stream",
)
EPISODE = Control(name="episode", type="number", label="episode")
ACTIONS = Control(name="actions", type="numbers", label="changed actions")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class EpisodeInput(ModelInput):
    """Steps of one of some episodes, one token for each step."""

    kind = "episode"
    part = "step"

    episode: Episodes  # the steps that are shown
    spaces: Spaces
    learned: bool = False  # has the model a policy that learned?
    episodes: Episodes  # all that can be shown; errors are measured on them
    names: tuple[str, ...]  # of them
    chosen: int  # which of them is shown
    about: tuple[str, ...] = ()  # notes on all of them
    origin: Literal["held out", "learned from"] | None = None  # of a run's own; None: somebody gave them
    changes: Mapping[int, Array] = field(default_factory=dict)  # step -> another action, as the model takes it
    # what was computed of these episodes before, for a served page that asks again and again
    kept: Kept = field(default_factory=Kept, repr=False)

    def once(self, scene: Scene, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, computed once for the same episode and the same silenced heads."""
        return self.kept.once((name, self.chosen, tuple(scene.silence)), make)

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


class EpisodeReader(Reader):
    """Reads the first episode of a file; without one, the last episode that the run did not learn from. A served
    page can show the others, and change actions."""

    controls = (FILE, EPISODE, ACTIONS)

    def __init__(self, problem: World, run: Run, model: WorldModel, views: tuple[View, ...]) -> None:
        self.problem, self.run, self.model, self.views = problem, run, model, views
        self.spaces = run.section(Spaces, "processor")
        self.learned = run.section(WorldTrainConfig, "train").policy != "none"
        self.last: tuple[str | bytes | None, EpisodeInput] | None = None  # what was read, and what it became

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> EpisodeInput:
        if self.last is None or self.last[0] != given:
            self.last = given, self._own() if given is None else self._given(given)
        return self.last[1]

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        assert isinstance(given, EpisodeInput)
        if "episode" in values:
            given = given.choose(values["episode"])
        if "actions" in values:
            changes = read_changes(values["actions"], given.spaces, len(given.episode))
            given = replace(given, changes=changes)
        return given

    def _given(self, given: str | bytes) -> EpisodeInput:
        """Episodes of a file."""
        with at_path(given) as path:
            found = self.problem.read_as_trained(self.run, self.model, str(path))
        before = f"{Path(given).name}, " if isinstance(given, str) else ""
        names = tuple(f"{before}episode {number + 1:,}" for number in range(len(found.episodes.starts)))
        return self._make(found.episodes, names, about=found.notes).choose(0)

    def _own(self) -> EpisodeInput:
        """The last episode of the run's own data that was held out; one that the model makes up if they are gone."""
        try:
            buffer = self.problem.open_buffer(self.run, self.model)
        except (OSError, ValueError):
            buffer = None
        if buffer is None or not buffer.rounds:
            return self._make(self._draw_episode(), ("drawn at random",), about=(GONE,)).choose(0)
        names = tuple(f"episode {number + 1:,}" for number in np.unique(buffer.all.of[buffer.judged_rows]))
        origin: Literal["held out", "learned from"] = "held out" if len(buffer.held_rows) else "learned from"
        return self._make(buffer.all.take(buffer.judged_rows), names, origin=origin).choose(len(names) - 1)

    def _draw_episode(self) -> Episodes:
        steps = self.model.sample_inputs(tokens=DRAWN + 1, rows=1)["steps"][0].cpu().numpy()
        o = self.spaces.observations
        return Episodes(
            observations=steps[:-1, :o].astype(np.float32),
            actions=self.spaces.draw(generator(0, 23), DRAWN),
            rewards=np.zeros(DRAWN, np.float32),
            following=steps[1:, :o].astype(np.float32),
            terminated=np.zeros(DRAWN, bool),
            last=np.arange(DRAWN) == DRAWN - 1,
        )

    def _make(self, episodes: Episodes, names: tuple[str, ...], **how: Any) -> EpisodeInput:
        """Some episodes, of which none is chosen yet."""
        return EpisodeInput(
            inputs={"steps": torch.zeros(1, 0, 0)},
            episode=episodes,
            spaces=self.spaces,
            learned=self.learned,
            episodes=episodes,
            names=names,
            chosen=0,
            **how,
        )


# ── actions that a reader of a served page changes


def read_changes(asked: Sequence[int], spaces: Spaces, steps: int) -> dict[int, Array]:
    """Step after step, counted from 0, each with its kind of action, or with each of its numbers in thousandths
    from the middle of its limits to one of them."""
    wide = 1 if spaces.discrete else spaces.actions
    if len(asked) % (1 + wide):
        raise RegardError(
            f"actions must be groups of {1 + wide} whole numbers, a step and its action, got {len(asked)} numbers"
        )
    found: dict[int, Array] = {}
    for k in range(0, len(asked), 1 + wide):
        step, *action = asked[k : k + 1 + wide]
        if not 0 <= step < steps:
            raise RegardError(f"the steps of this episode are 0 … {steps - 1}, got {step}")
        if spaces.discrete:
            if not 0 <= action[0] < spaces.actions:
                raise RegardError(f"actions are 0 … {spaces.actions - 1}, got {action[0]}")
            found[step] = np.eye(spaces.actions, dtype=np.float32)[action[0]]
        else:
            if max(map(abs, action)) > FINEST:
                raise RegardError(f"numbers of an action are −{FINEST} … {FINEST}, got {max(action, key=abs)}")
            found[step] = np.array(action, dtype=np.float32) / FINEST
    return found


def write_changes(changes: Mapping[int, Array], spaces: Spaces) -> list[list[int]]:
    """The same again, for the page: a list for each change."""
    found = []
    for step, action in sorted(changes.items()):
        if spaces.discrete:
            found.append([step, int(action.argmax())])
        else:
            found.append([step, *(round(float(each) * FINEST) for each in action)])
    return found

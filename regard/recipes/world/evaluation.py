"""How good a world is: the return of its policy in the real environment, and how far its predictions drift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.config import Seed, Size, config
from regard.data.array import Array
from regard.data.batch import generator
from regard.models.world_model import WorldModel
from regard.recipes.evaluation import Evaluation
from regard.recipes.world.act import Actor, policy_actions, random_actions
from regard.recipes.world.codes import see_fn
from regard.recipes.world.environments import open_environments
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.imagine import Choose, imagine
from regard.recipes.world.learn_policy import history_length
from regard.recipes.world.settings import WorldDataConfig
from regard.recipes.world.store import EpisodeStore

HORIZONS = (1, 5, 10, 25, 50)
# of them, those that are told with the measures
MEASURED = {1: "error after 1 step", 10: "error after 10 steps", 50: "error after 50 steps"}
STARTS = 256  # moments from which predictions are compared with what came
TOGETHER = 50  # environments that are judged at the same time
LONGEST = 10_000  # steps of an episode of an environment that sets no end
RIVALS = ("model", "linear", "persistence")


@config
class EvaluateOptions:
    """How a world is evaluated."""

    episodes: Size = 100  # real episodes of the policy, each with a start of its own
    seed: Seed = 1  # of their starts
    # the run's environment again, if it is in a module of yours (my_module:MyWorld-v0), which is imported then
    environment: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class WorldEvaluation(Evaluation):
    """Returns of real episodes, and errors of predictions k steps ahead."""

    returns: tuple[float, ...] = ()  # of each real episode; none: there is no environment
    errors: dict[str, dict[int, float]]  # model, linear map, persistence -> k -> error in units of the data's scale
    real_steps: int | None = None  # steps in the environment that were learned from

    def to_json(self) -> dict[str, Any]:
        found = super().to_json() | {"errors": {name: dict(each) for name, each in self.errors.items()}}
        if self.returns:
            found["returns"] = list(self.returns)
        return found if self.real_steps is None else found | {"real_steps": self.real_steps}

    def format(self) -> str:
        return self.details()

    def details(self) -> str:
        lines = []
        if self.returns:
            mean, error = mean_and_error(self.returns)
            learned = "" if self.real_steps is None else f"; learned from {self.real_steps:,} real steps"
            lines.append(f"mean return {mean:.1f} ± {error:.1f} of {len(self.returns):,} episodes{learned}")
        names = {"model": "this model", "linear": "linear map", "persistence": "no change"}
        for name, errors in self.errors.items():
            said = "  ".join(f"{k}: {value:.3g}" for k, value in errors.items())
            lines.append(f"error after k steps, {names[name]:<10}  {said}")
        return "\n".join(lines)


def mean_and_error(returns: tuple[float, ...]) -> tuple[float, float]:
    """The mean, and its standard error."""
    mean = float(np.mean(returns))
    if len(returns) < 2:
        return mean, 0.0
    return mean, float(np.std(returns, ddof=1)) / math.sqrt(len(returns))


def evaluate_world(
    model: WorldModel, store: EpisodeStore, data: WorldDataConfig, options: EvaluateOptions, *, learned: bool
) -> WorldEvaluation:
    """Act in the real environment if there is one, with the policy frozen, and compare predictions with what came;
    for recorded episodes only the latter, on those that were held out."""
    if data.environment is None:
        held = len(store.held_rows) > 0
        judged = store.all.take(store.held_rows if held else store.train_rows)
        return _make(model, judged, "validation" if held else "train", options)
    judged = act_real(model, data, options, learned=learned)
    returns = tuple(judged.returns.tolist()) if learned else ()
    return _make(model, judged, "test", options, returns, store.real_steps or None)


def evaluate_recorded(model: WorldModel, store: EpisodeStore, name: str, options: EvaluateOptions) -> WorldEvaluation:
    """Compare predictions with recorded episodes."""
    return _make(model, store.all, name, options)


def _make(
    model: WorldModel,
    judged: Episodes,
    split: str,
    options: EvaluateOptions,
    returns: tuple[float, ...] = (),
    real_steps: int | None = None,
) -> WorldEvaluation:
    errors = {name: horizon_errors(model, judged, rival=name, seed=options.seed) for name in RIVALS}
    measures = {MEASURED[k]: value for k, value in errors["model"].items() if k in MEASURED}
    if returns:
        measures = {"return": mean_and_error(returns)[0]} | measures
    return WorldEvaluation(
        split=split,
        count=len(judged.starts),
        unit="episodes",
        measures=measures,
        returns=returns,
        errors=errors,
        real_steps=real_steps,
    )


def act_real(model: WorldModel, data: WorldDataConfig, options: EvaluateOptions, *, learned: bool) -> Episodes:
    """Whole episodes of the policy, which takes its likeliest action; of chance where no policy was learned."""
    assert data.environment is not None
    together = min(TOGETHER, options.episodes)
    with open_environments(
        data.environment, together, processes=data.processes, seconds=data.timeout, sight=data.sight
    ) as environments:
        if learned:
            act = policy_actions(model, None)
        else:
            act = random_actions(environments, options.seed, 0)
        actor = Actor(environments, act, see_fn(model), model.config.frames)
        return actor.act_episodes(options.episodes, options.seed, LONGEST)


@torch.no_grad()
def horizon_errors(model: WorldModel, episodes: Episodes, *, rival: str = "model", seed: int = 0) -> dict[int, float]:
    """The root of the mean squared error k steps ahead, in units of the data's scale, with the actions that were
    taken. A horizon that no episode is long enough for is left out."""
    found: dict[int, float] = {}
    ends = (episodes.starts + episodes.lengths)[episodes.of]
    for k in HORIZONS:
        fitting = np.flatnonzero(np.arange(len(episodes)) + k <= ends)
        if not len(fitting):
            continue
        at = generator(seed, 31, k).choice(fitting, min(STARTS, len(fitting)), replace=False)
        rows = at[:, None] + np.arange(k)
        truth = model.normalise(torch.from_numpy(episodes.following[rows[:, -1]]).to(model.mean))
        first = torch.from_numpy(episodes.observations[at]).to(model.mean)
        actions = torch.from_numpy(episodes.actions[rows]).to(model.mean)
        if rival == "persistence":
            reached = model.normalise(first)
        elif rival == "linear":
            reached = _go_linear(model, episodes, at, first, actions)
        else:
            history, real = episodes.history(at, history_length(model))
            reached = imagine(model, history.to(first), real, first, k, follow(actions)).observations[:, -1]
        found[k] = float((reached - truth).square().mean().sqrt())
    return found


def follow(actions: torch.Tensor) -> Choose:
    """Who does what was done.   b k a"""
    return lambda seen, t: actions[:, t]


def _go_linear(
    model: WorldModel, episodes: Episodes, at: Array, first: torch.Tensor, actions: torch.Tensor
) -> torch.Tensor:
    """The linear map alone, again and again.   b o, b k a -> b o"""
    caches = model.caches()
    history, real = episodes.history(at, model.config.frames - 1)
    if history.shape[1]:
        model.look_back(model.scale_steps(history.to(first), real), real=real, caches=caches)
    x = model.normalise(first)
    for t in range(actions.shape[1]):
        z = model.look_back(torch.cat((x, actions[:, t]), -1)[:, None], caches=caches)
        x = torch.clamp(model.linear(z)[:, 0, :-1], model.low, model.high)
    return x

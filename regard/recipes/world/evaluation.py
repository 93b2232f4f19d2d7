"""How good a world is: the return of its policy in the real environment, and how far its predictions drift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import Seed, Size, config
from regard.data.array import Array
from regard.data.batch import generator
from regard.models.world_model import WorldModel
from regard.recipes.evaluation import Evaluation
from regard.recipes.world.act import open_actor, policy_actions, random_actions
from regard.recipes.world.config import WorldDataConfig
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.imagination import follow, history_length, imagine
from regard.recipes.world.replay_buffer import ReplayBuffer

HORIZONS = (1, 5, 10, 25, 50)
# of them, those that are told with the measures
MEASURED = {1: "error after 1 step", 10: "error after 10 steps", 50: "error after 50 steps"}
STARTS = 256  # moments from which predictions are compared with what came
TOGETHER = 50  # environments that are judged at the same time
LONGEST = 10_000  # steps of an episode of an environment that sets no end
RIVALS = {"model": "this model", "linear": "linear map", "persistence": "no change"}  # what is compared, in words


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
            count = len(self.returns)
            error = float(np.std(self.returns, ddof=1)) / math.sqrt(count) if count > 1 else 0.0
            learned = "" if self.real_steps is None else f"; learned from {self.real_steps:,} real steps"
            lines.append(f"mean return {np.mean(self.returns):.1f} ± {error:.1f} of {count:,} episodes{learned}")
        for name, errors in self.errors.items():
            said = "  ".join(f"{k}: {value:.3g}" for k, value in errors.items())
            lines.append(f"error after k steps, {RIVALS[name]:<10}  {said}")
        return "\n".join(lines)


def evaluate_policy(
    model: WorldModel, buffer: ReplayBuffer, data: WorldDataConfig, options: EvaluateOptions, *, learned: bool
) -> WorldEvaluation:
    """Act in the real environment with the policy frozen, by its likeliest actions, and compare predictions with what came;
    without a policy act by chance, and only compare."""
    act = policy_actions(model) if learned else random_actions(buffer.spaces, options.seed)
    with open_actor(model, data, min(TOGETHER, options.episodes), act) as actor:
        acted = actor.act_episodes(options.episodes, options.seed, LONGEST)
    returns = tuple(acted.returns.tolist()) if learned else ()
    return evaluate_predictions(model, acted, "test", options.seed, returns, buffer.real_steps or None)


def evaluate_predictions(
    model: WorldModel,
    episodes: Episodes,
    split: str,
    seed: int,
    returns: tuple[float, ...] = (),
    real_steps: int | None = None,
) -> WorldEvaluation:
    """Compare predictions with what came in some episodes."""
    errors = {rival: horizon_errors(model, episodes, rival=rival, seed=seed) for rival in RIVALS}
    measures = {MEASURED[k]: value for k, value in errors["model"].items() if k in MEASURED}
    if returns:
        measures = {"return": float(np.mean(returns))} | measures
    return WorldEvaluation(
        split=split,
        count=len(episodes.starts),
        unit="episodes",
        measures=measures,
        returns=returns,
        errors=errors,
        real_steps=real_steps,
    )


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


def _go_linear(model: WorldModel, episodes: Episodes, at: Array, first: Tensor, actions: Tensor) -> Tensor:
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

"""What can be set of a world: where episodes come from, how often the policy acts, how it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.config import check_positive, check_sizes
from regard.errors import RegardError
from regard.recipes.world.draw_states import check_drawn
from regard.recipes.world.environments import PREFIX, environment_of
from regard.recipes.world.images import LEAST_SIDE, MOST_SIDE, Sight
from regard.recipes.world.spaces import Spaces
from regard.training.config import TrainConfig

DEFAULT = f"{PREFIX}CartPole-v1"


@dataclass(frozen=True, kw_only=True)
class WorldDataConfig:
    """Where episodes come from."""

    # gymnasium:NAME, or recorded episodes: a file (.npz, .parquet, .csv, .jsonl) or a folder of them
    path: str | None = None
    real_steps: int = 1500  # steps in the environment in all, random ones included
    rounds: int = 3  # each acts in the environment for its share of the real steps; the first one at random
    environments: int = 1  # environments that are acted in at the same time
    processes: int = 1  # processes that they are spread over
    timeout: float = 60.0  # seconds after which an environment that gives no answer is said to hang
    # which numbers of an observation are seen, counted from 0: 0 2 hides the velocities of CartPole; none: all
    observed: tuple[int, ...] = ()
    # draw each state as a grey image and see only that (CartPole, Pendulum, Acrobot, MountainCar)
    images: bool = False
    side: int = 32  # images: pixels of a side, to which larger and smaller ones are scaled
    code: int = 16  # images: numbers of their code, two for each place in an image
    # images: gradient steps of the autoencoder in the first round, and half as many in each of the others
    code_steps: int = 400
    # random steps that an episode begins with, at most, in rounds in which the policy acts: it then also sees where it
    # would not go by itself
    random_steps: int = 0
    context: int = 16  # steps in a row that the world model learns from
    validation: float = 0.1  # share of the episodes that are held out

    paths: ClassVar[tuple[str, ...]] = ("path",)
    largest: ClassVar[dict[str, int]] = {"rounds": 2**20}

    def __post_init__(self) -> None:
        check_sizes(self)
        names = ("real_steps", "rounds", "environments", "processes", "context", "timeout", "code_steps")
        check_positive(self, *names)
        if self.random_steps < 0:
            raise RegardError(f"random_steps must be at least 0, got {self.random_steps}")
        if not 0 <= self.validation < 1:
            raise RegardError(f"validation must be at least 0 and below 1, got {self.validation}")
        if not LEAST_SIDE <= self.side <= MOST_SIDE:
            raise RegardError(f"side must be from {LEAST_SIDE} to {MOST_SIDE} pixels, got {self.side}")
        if self.code < 2 or self.code % 2:
            raise RegardError(
                f"code must be even and at least 2, two numbers for each place, got {self.code}"
            )
        if self.images and self.environment is None:
            raise RegardError(
                f"--data.images draws the states of an environment, and {self.path} is recorded; leave it out: recorded "
                "images are seen as images anyway"
            )
        if self.images:
            check_drawn(str(self.environment))
        if self.images and self.observed:
            raise RegardError("--data.images shows an image, and --data.observed some numbers; leave one out")
        if any(number < 0 for number in self.observed):
            raise RegardError(f"observed must be numbers from 0 on, got {', '.join(map(str, self.observed))}")
        if self.real_steps < self.rounds * self.environments:
            raise RegardError(
                f"real_steps must be at least rounds × environments = {self.rounds * self.environments}, got "
                f"{self.real_steps}"
            )

    @property
    def sight(self) -> Sight:
        """What is seen of an observation."""
        return Sight(
            observed=self.observed or None,
            drawn=self.environment if self.images else None,
            side=self.side,
            code=self.code,
        )

    @property
    def environment(self) -> str | None:
        """The name of the environment; None: recorded episodes."""
        return environment_of(DEFAULT if self.path is None else self.path)


@dataclass(frozen=True, kw_only=True)
class WorldTrainConfig(TrainConfig):
    """How a world and a policy are learned. A step is `world_steps` steps of the world model, then one of the
    policy on what it imagines."""

    policy: Literal["ppo", "none"] = "ppo"  # how the policy learns in imagination; none: learn the world only
    world_steps: int = 12  # gradient steps of the world model in a step
    first_steps: int = 25  # steps at the beginning that learn the world only, each twice as long
    round_steps: int = 25  # steps of a round
    imagined: int = 512  # episodes that are imagined in a step
    horizon: int = 32  # steps of each
    epochs: int = 4  # times that the policy learns from them
    minibatch: int = 4096  # imagined steps of each of its gradient steps
    policy_lr: float = 1e-3  # learning rate of actor and critic
    discount: float = 0.99  # what a reward is worth one step later
    trace: float = 0.95  # λ: how far rewards are looked at before the critic is believed
    entropy: float = 0.01  # weight of the actor's entropy, which keeps it exploring
    episodes: int = 100  # real episodes by which the policy is judged at the end; they are not learned from
    ratio: float = 0.2  # largest relative change of an action's probability that is learned from

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(
            self,
            "world_steps",
            "first_steps",
            "round_steps",
            "imagined",
            "horizon",
            "epochs",
            "minibatch",
            "episodes",
            "policy_lr",
            "ratio",
        )
        for name, usual in (("accumulate", 1), ("compile", False), ("recompute", False)):
            if getattr(self, name) != usual:
                raise RegardError(f"{name} is not for worlds, got {getattr(self, name)}; leave it out")
        for name in ("discount", "trace"):
            if not 0 <= getattr(self, name) < 1:
                raise RegardError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if not self.entropy >= 0:
            raise RegardError(f"entropy must be at least 0, got {self.entropy}")

    def total_steps(self, rounds: int) -> int:
        """The steps of so many rounds."""
        return self.first_steps + rounds * self.round_steps


@dataclass(frozen=True, kw_only=True)
class WorldInfo:
    """What later commands need to know of the data: `corpus` in config.json."""

    path: str
    environment: str | None  # None: recorded episodes
    spaces: Spaces
    steps: int | None = None  # of recorded episodes
    episodes: int | None = None

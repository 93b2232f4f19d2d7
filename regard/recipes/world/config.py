"""What can be set of a world: where episodes come from, how often the policy acts, how it learns."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from regard.config import Amount, Length, Rare, Share, Size, Weight, config
from regard.data.dialect import TableConfig
from regard.errors import RegardError
from regard.recipes.world.draw_states import check_drawn
from regard.recipes.world.spaces import LEAST_SIDE, MOST_SIDE
from regard.training.config import TrainConfig

PREFIX = "gymnasium:"
DEFAULT = f"{PREFIX}CartPole-v1"
# environments that have settings of their own, by their names without a version
VERSIONS = {"CartPole": "CartPole-v1", "Pendulum": "Pendulum-v1"}
Steps = Annotated[int, Field(ge=1, le=10**9)]
Few = Annotated[int, Field(ge=1, le=256)]


@config
class WorldDataConfig(TableConfig):
    """Where episodes come from."""

    # gymnasium:NAME, or recorded episodes: a file (.npz, .parquet, .csv, .jsonl) or a folder of them
    path: str | None = None
    real_steps: Steps = 1500  # steps in the environment in all, random ones included
    rounds: Size = 3  # each acts in the environment for its share of the real steps; the first one at random
    environments: Few = 1  # environments that are acted in at the same time
    processes: Rare[Few] = 1  # processes that they are spread over
    timeout: Rare[Amount] = 60.0  # seconds after which an environment that gives no answer is said to hang
    # which numbers of an observation are seen, counted from 0: 0 2 hides the velocities of CartPole; none: all
    observed: Rare[tuple[Annotated[int, Field(ge=0, le=2**16)], ...]] = ()
    # draw each state as a grey image and see only that (CartPole, Pendulum, Acrobot, MountainCar)
    images: bool = False
    # images: pixels of a side, to which larger and smaller ones are scaled
    side: Rare[Annotated[int, Field(ge=LEAST_SIDE, le=MOST_SIDE)]] = 32
    # images: numbers of their code, two for each place in an image
    code: Rare[Annotated[int, Field(ge=2, le=1024, multiple_of=2)]] = 16
    # images: gradient steps of the autoencoder in the first round, and half as many in each of the others
    code_steps: Rare[Steps] = 400
    # random steps that an episode begins with, at most, in rounds in which the policy acts: it then also sees where it
    # would not go by itself
    random_steps: Rare[Annotated[int, Field(ge=0, le=10**9)]] = 0
    context: Length = 16  # steps in a row that the world model learns from
    validation: Share = 0.1  # share of the episodes that are held out

    paths: ClassVar[tuple[str, ...]] = ("path",)

    def __post_init__(self) -> None:
        if self.environment is not None and not self.environment.strip():
            raise RegardError(f"--data {PREFIX} needs the name of an environment, such as {DEFAULT}")
        if self.images and self.environment is None:
            raise RegardError(
                f"--data.images draws the states of an environment, and {self.path} is recorded; leave it out: recorded "
                "images are seen as images anyway"
            )
        if self.images:
            check_drawn(str(self.environment))
        if self.images and self.observed:
            raise RegardError("--data.images shows an image, and --data.observed some numbers; leave one out")
        if self.real_steps < self.rounds * self.environments:
            raise RegardError(
                f"must be at least rounds × environments = {self.rounds * self.environments}, got {self.real_steps}",
                option="real_steps",
            )

    @property
    def environment(self) -> str | None:
        """CartPole-v1 for gymnasium:CartPole-v1 and gymnasium:CartPole; None: recorded episodes."""
        path = DEFAULT if self.path is None else self.path
        if not path.startswith(PREFIX):
            return None
        name = path.removeprefix(PREFIX)
        return VERSIONS.get(name, name)


@config
class WorldTrainConfig(TrainConfig):
    """How a world and a policy are learned. A step is `world_steps` steps of the world model, then one of the
    policy on what it imagines."""

    policy: Literal["ppo", "none"] = "ppo"  # how the policy learns in imagination; none: learn the world only
    world_steps: Steps = 12  # gradient steps of the world model in a step
    first_steps: Rare[Steps] = 25  # steps at the beginning that learn the world only, each twice as long
    round_steps: Steps = 25  # steps of a round
    imagined: Rare[Size] = 512  # episodes that are imagined in a step
    horizon: Size = 32  # steps of each
    epochs: Rare[Few] = 4  # times that the policy learns from them
    minibatch: Rare[Size] = 4096  # imagined steps of each of its gradient steps
    policy_lr: Amount = 1e-3  # learning rate of actor and critic
    discount: Share = 0.99  # what a reward is worth one step later
    trace: Rare[Share] = 0.95  # λ: how far rewards are looked at before the critic is believed
    entropy: Rare[Weight] = 0.01  # weight of the actor's entropy, which keeps it exploring
    episodes: Size = 100  # real episodes by which the policy is judged at the end; they are not learned from
    ratio: Rare[Amount] = 0.2  # largest relative change of an action's probability that is learned from

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, usual in (("accumulate", 1), ("compile", False), ("recompute", False)):
            if getattr(self, name) != usual:
                raise RegardError(f"is not for worlds, got {getattr(self, name)}; leave it out", option=name)

    def total_steps(self, rounds: int) -> int:
        """The steps of so many rounds."""
        return self.first_steps + rounds * self.round_steps

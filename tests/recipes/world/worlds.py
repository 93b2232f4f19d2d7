"""Episodes for tests of views: a made one for any small model, and one in which a tiny run learned."""

import numpy as np

from regard.models.world import TransformerWorld, TransformerWorldConfig
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.reader import EpisodeInput
from regard.recipes.world.spaces import Spaces


def spaces_of(discrete=True, observations=3, **how):
    limits = {} if discrete else {"low": (-2.0, 0.0), "high": (2.0, 1.0)}
    return Spaces(observations=observations, actions=2, discrete=discrete, **limits, **how)


def small_world(discrete=True, cls=TransformerWorld, **changes):
    if cls is TransformerWorld:
        size = {"observations": 3, "actions": 2, "dim": 16, "depth": 1, "hidden": 8, "window": 4}
        model = cls(TransformerWorldConfig(**{**size, "discrete": discrete, **changes}))
    else:
        model = cls.tiny()[0]
    model.mean.copy_(model.mean + 1.5)
    model.scale.copy_(model.scale * 0.5)
    # what is done moves the first and the last number, and the reward
    model.skip[[0, -2, -1], -1] = 0.4
    return model.eval()


def made_episodes(lengths=(12, 9), discrete=True, observations=3, seed=0):
    """Episodes that wander at random; the first one ends, the others are cut off."""
    random = np.random.default_rng(seed)
    spaces = spaces_of(discrete, observations=observations)
    parts = {name: [] for name in ("observations", "actions", "rewards", "following", "terminated", "last")}
    for number, length in enumerate(lengths):
        seen = 1.5 + random.normal(size=(length + 1, observations)).cumsum(0) / 5
        last = np.arange(length) == length - 1
        parts["observations"].append(seen[:-1])
        parts["following"].append(seen[1:])
        parts["actions"].append(spaces.draw(random, length))
        parts["rewards"].append(random.normal(size=length))
        parts["terminated"].append(last & (number == 0))
        parts["last"].append(last)
    joined = {name: np.concatenate(each) for name, each in parts.items()}
    return Episodes(**{name: each if each.dtype == bool else each.astype(np.float32) for name, each in joined.items()})


def input_of(episodes, discrete=True, environment=None, **how):
    names = tuple(f"episode {number + 1}" for number in range(len(episodes.starts)))
    spaces = spaces_of(discrete, observations=episodes.observations.shape[1], environment=environment)
    given = {"spaces": spaces, "learned": True, "episode": episodes, "episodes": episodes, "names": names}
    return EpisodeInput(inputs={}, chosen=0, **{**given, **how}).choose(0)

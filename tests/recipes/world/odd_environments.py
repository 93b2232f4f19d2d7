"""Environments that misbehave: registered when this module is imported, as gymnasium imports module:Name-v0."""

import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Odd(gymnasium.Env):
    """Counts its steps; what happens at the third one is told by `kind`."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, kind="fine"):
        self.kind, self.count = kind, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.seen(), {}

    def seen(self):
        return np.array([self.count / 10, 0.5], dtype=np.float32)

    def step(self, action):
        self.count += 1
        print("an environment may print")
        if self.count == 3:
            if self.kind == "raises":
                raise RuntimeError("the robot\nfell over")
            if self.kind == "hangs":
                time.sleep(30)
            if self.kind == "exits":
                os._exit(7)
            if self.kind == "nan":
                return np.array([np.nan, 0], dtype=np.float32), 0.0, False, False, {}
            if self.kind == "wordy":
                return np.array(["left", 0], dtype=object), 0.0, False, False, {}
            if self.kind == "vague":
                return np.array([None, object()], dtype=object), 0.0, False, False, {}
            if self.kind == "huge":
                return np.array([0, -1e300]), 0.0, False, False, {}
            if self.kind == "rich":
                return self.seen(), 1e30, False, False, {}
            if self.kind == "longer":
                return np.zeros(3, dtype=np.float32), 0.0, False, False, {}
        return self.seen(), 1.0, False, self.count == 8, {}


class Picture(Odd):
    observation_space = spaces.Box(0, 1, (4, 4, 3), np.float32)


class Film(Odd):
    """Brighter from left to right, in bytes."""

    observation_space = spaces.Box(0, 255, (12, 20, 3), np.uint8)

    def seen(self):
        return np.broadcast_to(np.linspace(0, 255, 20).astype(np.uint8)[:, None], (12, 20, 3))


class Grey(Odd):
    observation_space = spaces.Box(-1, 1, (16, 16), np.float32)

    def seen(self):
        return np.broadcast_to(np.linspace(-1, 1, 16, dtype=np.float32), (16, 16))


class Unlit(Odd):
    observation_space = spaces.Box(-np.inf, np.inf, (16, 16), np.float32)


class Endless(Odd):
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)


for kind in ("fine", "raises", "hangs", "exits", "nan", "huge", "rich", "longer", "wordy", "vague"):
    gymnasium.register(f"Odd{kind.title()}-v0", entry_point=Odd, kwargs={"kind": kind}, disable_env_checker=True)
gymnasium.register("OddPicture-v0", entry_point=Picture, disable_env_checker=True)
for cls in (Film, Grey, Unlit):
    gymnasium.register(f"Odd{cls.__name__}-v0", entry_point=cls, disable_env_checker=True)
gymnasium.register("OddEndless-v0", entry_point=Endless, disable_env_checker=True)

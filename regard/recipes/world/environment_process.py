"""A process that holds environments of gymnasium: python -m regard.recipes.world.environment_process FD NAME COUNT.

Over the socket whose number it is given it says what the spaces are, then answers one message after another: reset, step.
All of it is JSON. What an environment raises is an answer, too. It ends with the socket, so with the program that started it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from regard.files import json_text


def describe_space(space: Any) -> dict[str, Any]:
    """A space as JSON; of one that is no vector and no choice only its name."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "count": int(space.n), "first": int(space.start)}
    if isinstance(space, spaces.Box):
        low, high = space.low.reshape(-1).tolist(), space.high.reshape(-1).tolist()
        if len(space.shape) > 1 and low:  # an image has one black and one white
            low, high = [min(low)], [max(high)]
        limits = [None if abs(x) > 1e30 else x for x in low], [None if abs(x) > 1e30 else x for x in high]
        return {"kind": "box", "shape": list(space.shape), "low": limits[0], "high": limits[1]}
    return {"kind": type(space).__name__}


def act(environments: list[Any], message: dict[str, Any]) -> list[Any]:
    """The observations after resets, and what steps gave."""
    found: list[Any] = []
    for number, seed in message.get("reset", ()):
        observation, _ = environments[number].reset(seed=seed)
        found.append(_numbers(observation))
    for number, action in message.get("step", ()):
        environment = environments[number]
        if isinstance(action, list):
            space = environment.action_space
            action = np.asarray(action, dtype=space.dtype).reshape(space.shape)
        observation, reward, terminated, truncated, _ = environment.step(action)
        found.append([_numbers(observation), float(reward), bool(terminated), bool(truncated)])
    return found


def _numbers(observation: Any) -> list[float]:
    numbers = np.asarray(observation).reshape(-1)
    found: list[float] = (numbers if numbers.dtype.kind in "iuf" else numbers.astype(float)).tolist()
    return found


def tell(connection: Connection, compute: Callable[[], Any]) -> None:
    """Say what is computed, or what was raised."""
    try:
        said = {"answer": compute()}
    except Exception as error:  # whatever an environment raises
        said = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    try:
        text = json_text(said)
    except ValueError:
        text = json_text({"error": "an observation or a reward is NaN or infinite"})
    connection.send_bytes(text.encode())


def main(number: str, name: str, count: str) -> None:
    environments: list[Any] = []

    def make() -> dict[str, Any]:
        import gymnasium

        environments.extend(gymnasium.make(name) for _ in range(int(count)))
        of = environments[0]
        return {"observation": describe_space(of.observation_space), "action": describe_space(of.action_space)}

    # what an environment prints is not for the output of the program
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with Connection(int(number)) as connection:
        tell(connection, make)
        while True:
            try:
                message = json.loads(connection.recv_bytes())
            except EOFError:
                break
            tell(connection, partial(act, environments, message))
    for environment in environments:
        environment.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

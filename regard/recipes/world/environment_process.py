"""A process that holds environments of gymnasium: python -m regard.recipes.world.environment_process FD.

It answers one message after another, each JSON, over the socket whose number it is given: make, reset, step. What
an environment raises is an answer, too. It ends with the socket, so with the program that started it.
"""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from typing import Any

from regard.files import json_text

Answer = dict[str, Any]


def make(name: str, count: int) -> tuple[list[Any], Answer]:
    """Environments of this name, and their spaces."""
    import gymnasium

    environments = [gymnasium.make(name) for _ in range(count)]
    first = environments[0]
    spaces = {"observation": first.observation_space, "action": first.action_space}
    return environments, {key: describe_space(space) for key, space in spaces.items()}


def describe_space(space: Any) -> Answer:
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


def answer(environments: list[Any], message: dict[str, Any]) -> list[Any]:
    """The observations after resets, or what steps gave."""
    found: list[Any] = []
    if "reset" in message:
        for number, seed in message["reset"]:
            observation, _ = environments[number].reset(seed=seed)
            found.append(plain(observation))
    for number, action in message.get("step", ()):
        environment = environments[number]
        given = action
        if isinstance(action, list):
            import numpy as np

            space = environment.action_space
            given = np.asarray(action, dtype=space.dtype).reshape(space.shape)
        observation, reward, terminated, truncated, _ = environment.step(given)
        found.append([plain(observation), float(reward), bool(terminated), bool(truncated)])
    return found


def plain(observation: Any) -> list[float]:
    """An observation as numbers in a row."""
    import numpy as np

    if np.isscalar(observation) or np.ndim(observation) == 0:
        return [float(observation)]
    numbers = np.asarray(observation).reshape(-1)
    found: list[float] = numbers.tolist() if numbers.dtype.kind in "iuf" else [float(x) for x in numbers]
    return found


def to_json(value: Any) -> str:
    try:
        return json_text(value)
    except ValueError as error:
        raise ValueError("an observation or a reward is NaN or infinite") from error


def main(number: str) -> None:
    environments: list[Any] = []
    # what an environment prints is not for the output of the program
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with Connection(int(number)) as connection:
        while True:
            try:
                message = read_message(connection)
            except EOFError:
                break
            try:
                if "make" in message:
                    environments, found = make(message["make"], message["count"])
                    said = json_text({"answer": found})
                else:
                    said = to_json({"answer": answer(environments, message)})
            except Exception as error:  # whatever an environment raises is told to who asked
                said = json_text({"error": f"{type(error).__name__}: {' '.join(str(error).split())}"})
            connection.send_bytes(said.encode())
    for environment in environments:
        environment.close()


def read_message(connection: Connection) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(connection.recv_bytes())
    return found


if __name__ == "__main__":
    main(sys.argv[1])

"""Environments of gymnasium in processes of their own: one that raises or hangs is named, and all are closed.

gymnasium has vector environments, too, but they step all or none: an environment whose episode is over would be stepped on.
benchmarks/results.md has what else was measured.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from typing import Any, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.files import json_text
from regard.recipes.world.config import PREFIX, WorldDataConfig
from regard.recipes.world.draw_states import draw_states
from regard.recipes.world.images import to_bytes, to_squares
from regard.recipes.world.spaces import LARGEST, Spaces, spaces_of_environment

MODULE = "regard.recipes.world.environment_process"
STARTS = 60.0  # seconds until a process must have made its environments
ENDS = 2.0  # seconds until one that was asked to end is killed


class Step(NamedTuple):
    """What an environment gave for an action."""

    observation: Array  # of which the model may see a part
    reward: float
    terminated: bool  # a state from which nothing comes
    truncated: bool  # the episode was cut off


def check_installed() -> None:
    """Raise if gymnasium is missing."""
    if importlib.util.find_spec("gymnasium") is None:
        raise RegardError(
            'environments need gymnasium, which is not installed: pip install "regard[world]"; recorded episodes '
            "(--data episodes.npz) do without it"
        )


def check_trusted(name: str | None, given: str | None) -> None:
    """Raise if acting would import a module that only a file names: it must be named by who asks, too."""
    if name is None or ":" not in name:
        return
    if given is None or given.removeprefix(PREFIX) != name:
        raise RegardError(
            f"the environment {name} of this run imports the module {name.partition(':')[0]}; if you trust it, name it: "
            f"--environment {name}"
        )


class Process:
    """One process with some environments."""

    def __init__(self, name: str, count: int, seconds: float) -> None:
        self.name, self.count, self.seconds = name, count, seconds
        self.connection, theirs = Pipe()
        # it finds what this program finds: the same regard, and environments of the user's own modules
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(theirs.fileno()), name, str(count)],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C ends the program, which then closes this
                env={**os.environ, "PYTHONPATH": paths},
            )

    def send(self, message: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer says why it is gone
            self.connection.send_bytes(json_text(dict(message)).encode())

    def receive(self, seconds: float | None = None) -> Any:
        """The answer to the last message."""
        wait = self.seconds if seconds is None else seconds
        try:
            if not self.connection.poll(wait):
                raise RegardError(
                    f"the environment {self.name} gave no answer for {wait:g} seconds, so it seems to hang; give it "
                    "more with --data.timeout"
                )
            found = json.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionResetError) as error:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(ENDS)
            code = self.process.returncode
            raise RegardError(
                f"the process of the environment {self.name} ended by itself, with code {code}; what it wrote is above"
            ) from error
        if "error" in found:
            raise RegardError(f"the environment {self.name} failed: {found['error']}")
        return found["answer"]


class Environments:
    """Several environments of one name, numbered from 0, spread over processes."""

    def __init__(self, data: WorldDataConfig, processes: Sequence[Process]) -> None:
        self.name, self.processes = data.environment, list(processes)
        found = [each.receive(max(STARTS, each.seconds)) for each in self.processes]
        self.spaces: Spaces = spaces_of_environment(found[0], data)
        self.given = found[0]["observation"]
        self.whole = math.prod(self.given["shape"])  # numbers of an observation, hidden ones too

    @property
    def count(self) -> int:
        return sum(each.count for each in self.processes)

    def reset(self, seeds: Mapping[int, int]) -> dict[int, Array]:
        """The first observation of each of these environments: a vector o, or an image h w c in bytes."""
        found = self._ask("reset", seeds)
        return {number: self._see(each) for number, each in found.items()}

    def step(self, actions: Mapping[int, Array]) -> dict[int, Step]:
        """What each of these environments gives for its action, as the model takes actions.   number -> a"""
        numbers = list(actions)
        if not numbers:
            return {}
        decoded = self.spaces.decode(np.stack([actions[number] for number in numbers]))
        found = self._ask("step", dict(zip(numbers, decoded.tolist(), strict=True)))
        for each in found.values():
            self._check_largest(each[1], "a reward")
        return {number: Step(self._see(each[0]), *each[1:]) for number, each in found.items()}

    def _see(self, observation: list[float]) -> Array:
        if len(observation) != self.whole:
            raise RegardError(
                f"the environment {self.name} gave an observation of {len(observation):,} numbers, and its "
                f"observation_space says {self.whole:,}; make them agree"
            )
        self._check_largest(max(observation, key=abs), "an observation")
        if self.spaces.image is None:
            vector = np.asarray(observation, dtype=np.float32)
            return vector if self.spaces.observed is None else vector[list(self.spaces.observed)]
        side = self.spaces.image[0]
        if self.spaces.drawn:
            return draw_states(str(self.name), np.asarray([observation]), side)[0]
        image = np.asarray(observation).reshape(1, *self.given["shape"])
        return to_squares(to_bytes(image, self.given["low"][0], self.given["high"][0]), side)[0]

    def _check_largest(self, value: float, what: str) -> None:
        if abs(value) > LARGEST:
            raise RegardError(
                f"the environment {self.name} gave {what} with {value:g}; numbers must be from {-LARGEST:g} to "
                f"{LARGEST:g}, so divide them by a number in a wrapper"
            )

    def _ask(self, what: str, values: Mapping[int, Any]) -> dict[int, Any]:
        """Send all, then wait for all."""
        waiting: list[tuple[Process, list[int]]] = []
        start = 0
        for process in self.processes:
            own = [number for number in values if start <= number < start + process.count]
            if own:
                process.send({what: [[number - start, values[number]] for number in own]})
                waiting.append((process, own))
            start += process.count
        found: dict[int, Any] = {}
        for process, own in waiting:
            found |= dict(zip(own, process.receive(), strict=True))
        return {number: found[number] for number in values}


@contextmanager
def open_environments(data: WorldDataConfig, count: int) -> Iterator[Environments]:
    """So many of these environments, which are closed in the end, whatever happens."""
    check_installed()
    shares = np.array_split(np.arange(count), min(data.processes, count))
    started: list[Process] = []
    try:
        for share in shares:
            started.append(Process(str(data.environment), len(share), data.timeout))
        yield Environments(data, started)
    finally:
        for each in started:
            each.connection.close()
        deadline = time.monotonic() + ENDS
        for each in started:
            with suppress(subprocess.TimeoutExpired):
                each.process.wait(max(0.0, deadline - time.monotonic()))
        for each in started:
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait()

"""The processes that train together: who they are, how they meet, what they tell each other.

torchrun starts them and says by the environment how many there are. Each has a rank from 0 on. Rank 0 plans,
writes the run and talks; the others follow. What they tell each other is numbers, or JSON: nothing is unpickled.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from regard.errors import RegardError
from regard.machine import memory_of_machine

ORDER = 5  # numbers in an order of rank 0
GRACE = 2.0  # seconds that the others have to say that they are waiting, too
JOIN = 300.0  # seconds in which all must have started


class LostRank(RegardError):
    """Another process ended, or does not answer."""


class RankError(RegardError):
    """An error that another process tells."""

    told = True


@dataclass(eq=False)
class Ranks:
    """This process among all that train together."""

    rank: int
    world: int
    local: int  # its number on its machine
    restart: int  # how often torchrun has started all of them again
    store: Any  # small values that all can read
    shared: Any  # the same, kept when torchrun starts all again
    timeout: float  # seconds
    trainings: int = 0  # that this process has begun
    prepared: int = 0  # for which it has read the data

    @property
    def leads(self) -> bool:
        return self.rank == 0

    # ── what they tell each other

    def tell(self, order: Sequence[float]) -> None:
        """Rank 0 says what is done next."""
        found = torch.zeros(ORDER, dtype=torch.float64)
        found[: len(order)] = torch.tensor(order, dtype=torch.float64)
        with self.noticing():
            dist.broadcast(found, 0)

    def hear(self) -> list[float]:
        """What rank 0 says is done next."""
        found = torch.zeros(ORDER, dtype=torch.float64)
        with self.noticing():
            dist.broadcast(found, 0)
        return list(found.tolist())

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        with self.noticing():
            dist.all_reduce(numbers)
        return numbers

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Every rank gets the values that rank 0 has, in place."""
        with self.noticing(), torch.no_grad():
            for tensor in tensors:
                whole = tensor.detach().contiguous()
                dist.broadcast(whole, 0)
                if whole.data_ptr() != tensor.data_ptr():
                    tensor.copy_(whole)

    def gather(self, value: Any) -> list[Any]:
        """What each rank has, in the order of ranks: anything that JSON can say."""
        mine = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world)]
        with self.noticing():
            dist.all_gather(sizes, torch.tensor([len(mine)]))
            padded = torch.zeros(max(int(size) for size in sizes), dtype=torch.uint8)
            padded[: len(mine)] = mine
            parts = [torch.empty_like(padded) for _ in range(self.world)]
            dist.all_gather(parts, padded)
        pairs = zip(parts, sizes, strict=True)
        return [json.loads(bytes(part[: int(size)].tolist())) for part, size in pairs]

    def wait(self, key: str) -> bytes:
        """What rank 0, or the first process of this machine, says under a key of the store."""
        while not self._has(key):
            told = self._said_before()
            if told is not None:
                raise RankError(told)
            time.sleep(0.02)
        return bytes(self.store.get(key))

    # ── trouble

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """An error of the network becomes one that names the ranks that are gone, or that do not answer."""
        began = time.monotonic()
        try:
            yield
        except RegardError:
            raise
        except RuntimeError as error:
            if not _is_of_network(error):
                raise
            raise self._explain(time.monotonic() - began) from error

    def _explain(self, waited: float) -> RegardError:
        missing = self._missing()
        where = [self._where(rank) for rank in missing]
        names = " and ".join(f"rank {rank}{place}" for rank, place in zip(missing, where, strict=True))
        told = self._said_before()
        if told is not None:
            return RankError(told)
        if not missing:
            return LostRank(
                f"rank {self.rank}: the connection to the other processes broke; go on with --resume"
            )
        if waited >= 0.9 * self.timeout:
            return LostRank(
                f"{names} did not answer for {waited:.0f} seconds; look at what it does there, then {_next()}; a "
                "longer --train.timeout waits longer"
            )
        return LostRank(f"{names} ended without a word (killed, or out of memory?); {_next()}")

    def _missing(self) -> list[int]:
        """Ranks that do not say within a moment that they noticed something, too."""
        try:
            self.store.set(f"noticed/{self.rank}", "1")
            until = time.monotonic() + GRACE
            others = [rank for rank in range(self.world) if rank != self.rank]
            while time.monotonic() < until:
                others = [rank for rank in others if not self._has(f"noticed/{rank}")]
                if all(self._is_gone(rank) for rank in others):
                    break
                time.sleep(0.05)
        except RuntimeError:  # the store went, with rank 0 or with torchrun
            return [0] if not self.leads else []
        return others

    def _has(self, key: str) -> bool:
        return bool(self.store.check([key]))

    def _is_gone(self, rank: int) -> bool:
        """Has a process of this machine ended? False: it has not, or it is on another machine."""
        if os.name != "posix" or not self._has(f"where/{rank}"):
            return False
        _, number, _, host = self.store.get(f"where/{rank}").decode().split(maxsplit=3)
        if host != socket.gethostname():
            return False
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False

    def _where(self, rank: int) -> str:
        try:
            found = self.store.get(f"where/{rank}").decode() if self._has(f"where/{rank}") else ""
        except RuntimeError:
            return ""
        return f" ({found})" if found else ""

    def say_error(self, message: str) -> bool:
        """Leave an error for the others to read; returns whether it has to be printed: the same error of all
        ranks is printed by rank 0 alone."""
        try:
            self.store.set(f"error/{self.rank}", message)
            self.store.set(f"noticed/{self.rank}", "1")
            if self.leads:
                return True
            until = time.monotonic() + GRACE
            while time.monotonic() < until:
                if self._has("error/0"):
                    return self.store.get("error/0").decode() != message
                time.sleep(0.05)
        except RuntimeError:
            pass
        return True

    def _said_before(self) -> str | None:
        """The error that another rank left."""
        try:
            for rank in range(self.world):
                if rank != self.rank and self._has(f"error/{rank}"):
                    return f"rank {rank}: {self.store.get(f'error/{rank}').decode()}"
        except RuntimeError:
            pass
        return None


_joined: Ranks | None = None


def current_ranks() -> Ranks | None:
    """The processes that this one trains with; None: it is alone."""
    return _joined


def restarts() -> int:
    """How often torchrun has started this process again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _next() -> str:
    """What happens, or is to be done, after a process was lost."""
    if restarts() < int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")):
        return "torchrun starts all processes again, from the last checkpoint"
    return "go on with --resume"


def started_by_torchrun() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def join_ranks(timeout: float = 600.0, device: str = "auto") -> Ranks | None:
    """Meet the other processes, once; None: there are none. timeout: seconds; device: as in TrainConfig

    Each start of all processes has its own part of the store. Else those that are started again would read the
    addresses of those that died.
    """
    global _joined
    if _joined is not None or not started_by_torchrun():
        return _joined
    rank, world, local, port = (
        int(_from_environment(name)) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
    )
    address = _from_environment("MASTER_ADDR")
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun has the store
    try:
        server = TCPStore(
            address,
            port,
            world,
            is_master=rank == 0 and not hosted,
            timeout=timedelta(seconds=JOIN),
            wait_for_workers=False,
        )
    except (RuntimeError, ValueError) as error:
        if "EADDRINUSE" in str(error) or "address already in use" in str(error).lower():
            raise RegardError(
                f"port {port} of {address} is taken by another program; choose another with --master-port"
            ) from error
        raise RegardError(f"rank {rank} cannot reach {address}:{port}: {_first_line(error)}") from error
    shared = PrefixStore("regard", server)
    store = PrefixStore(f"regard/{restarts()}", server)
    store.set(f"where/{rank}", f"process {os.getpid()} on {socket.gethostname()}")
    backend = _choose_backend(device, local)
    try:
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=world, timeout=timedelta(seconds=timeout)
        )
    except RuntimeError as error:
        raise RegardError(f"rank {rank} cannot join the others: {_first_line(error)}") from error
    atexit.register(_leave_ranks)
    _joined = Ranks(rank, world, local, restarts(), store, shared, timeout)
    return _joined


def _leave_ranks() -> None:
    """Part from the other processes, when this one ends. (A script can train several times, and may have parted itself.)"""
    if dist.is_initialized():
        dist.destroy_process_group()


def memory_of_rank(ranks: Ranks) -> int:
    """Bytes that this process may use: its GPU's, or its share of the machine's."""
    if dist.get_backend() != "gloo" and torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(ranks.local).total_memory)
    return memory_of_machine() // int(os.environ.get("LOCAL_WORLD_SIZE", ranks.world))


def choose_device(name: str, ranks: Ranks) -> str:
    """The device of this rank: of several GPUs, the one of its number on its machine."""
    if name == "auto" and torch.cuda.is_available():
        return f"cuda:{ranks.local}"
    if name == "cuda":
        return f"cuda:{ranks.local}"
    return name


def _choose_backend(device: str, local: int) -> str:
    """gloo between processors, nccl between GPUs."""
    wants_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if not wants_gpu:
        return "gloo"
    if local >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise RegardError(
            f"there {'is 1 GPU' if count == 1 else f'are {count} GPUs'} here, and process {local + 1} of this machine "
            f"needs one of its own; use --nproc-per-node {max(count, 1)}, or --train.device cpu"
        )
    torch.cuda.set_device(local)
    return "cpu:gloo,cuda:nccl"


def _from_environment(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise RegardError(
            f"WORLD_SIZE is set and {name} is not; start several processes by torchrun, which sets both"
        )
    return found


def _is_of_network(error: RuntimeError) -> bool:
    words = str(error).lower()
    return any(
        each in words
        for each in ("gloo", "connection", "timed out", "timeout", "nccl", "socket", "peer", "reset")
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__

"""The processes that train together: how they meet, talk, lose each other and part.

torchrun starts them (`--train.processes N` asks it to). All run the same loop. Rank 0 writes the run, and what must
agree (where the run is, stops, plans, measures) is what rank 0 says. What they tell each other is numbers, or JSON:
nothing is unpickled.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from regard.errors import RegardError
from regard.machine import memory_of_machine
from regard.runs.new_run import new_run_path
from regard.runs.run import Run
from regard.training.config import TrainConfig

T = TypeVar("T")
GRACE = 2.0  # seconds that the others have to say that they are waiting, too
JOIN = 300.0  # seconds in which all must have started


class LostRank(RegardError):
    """Another process ended, or does not answer."""


class RankError(RegardError):
    """An error that another process tells."""

    told = True


@dataclass(eq=False)
class Ranks:
    """This process among all that train together. Without anything else it is alone."""

    rank: int = 0
    world: int = 1
    local: int = 0  # its number on its machine
    store: Any = None  # small values that all can read
    shared: Any = None  # the same, kept when torchrun starts all again
    timeout: float = 600.0  # seconds
    trainings: int = 0  # that this process has begun
    prepared: int = 0  # for which it has read the data

    @property
    def leads(self) -> bool:
        return self.rank == 0

    # ── what they tell each other

    def same(self, *numbers: float) -> list[float]:
        """The numbers that rank 0 has."""
        found = torch.tensor(numbers, dtype=torch.float64)
        self.spread([found])
        return list(found.tolist())

    def agree(self, value: Any) -> Any:
        """What rank 0 has: anything that JSON can say."""
        return self.gather(value if self.leads else None)[0]

    def gather(self, value: Any) -> list[Any]:
        """What each rank has, in the order of ranks: anything that JSON can say."""
        if self.world == 1:
            return [value]
        mine = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = self.stack(torch.tensor(len(mine))).tolist()
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(mine)] = mine
        pairs = zip(self.stack(padded), sizes, strict=True)
        return [json.loads(bytes(each[:size].tolist())) for each, size in pairs]

    def stack(self, x: Tensor) -> Tensor:
        """The tensors of all ranks, which have one shape.   ... -> ranks ..."""
        everyone = x.new_empty(self.world, *x.shape)
        with self.noticing():
            dist.all_gather(list(everyone), x)
        return everyone

    def sum(self, x: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        with self.noticing():
            dist.all_reduce(x)
        return x

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Every rank gets the values that rank 0 has, in place."""
        if self.world == 1:
            return
        with self.noticing(), torch.no_grad():
            for tensor in tensors:
                whole = tensor.detach().contiguous()
                dist.broadcast(whole, 0)
                if whole.data_ptr() != tensor.data_ptr():
                    tensor.copy_(whole)

    # ── before the first step, which may take longer than an answer

    def choose_place(self, recipe: str, out: str | os.PathLike[str] | None) -> tuple[str, bool]:
        """Where a new run goes, and whether it is there already because torchrun has started all processes again."""
        self.trainings += 1
        key = f"place/{self.trainings}"
        if not self.leads:
            place, again = json.loads(self._wait(key))
            return str(place), bool(again)
        if self.world > 1 and restarts() and self.shared.check([key]):
            place = self.shared.get(key).decode()
        else:
            place = os.fspath(new_run_path(recipe) if out is None else out)
        again = restarts() > 0 and Run.exists(place)
        if self.world > 1:
            self.shared.set(key, place)
            self.store.set(key, json.dumps([place, again]))
        return place, again

    def one_after_another(self, work: Callable[[], T]) -> T:
        """Work whose result is cached on disk: the first process of a machine does it, then the others read it."""
        if self.world == 1:
            return work()
        self.prepared += 1
        key = f"prepared/{socket.gethostname()}/{self.prepared}"
        if self.local:
            self._wait(key)
        found = work()
        if not self.local:
            self.store.set(key, "1")
        return found

    def _wait(self, key: str) -> bytes:
        """What rank 0, or the first process of this machine, says under a key of the store."""
        while not self._has(key):
            told = self._error_of_others()
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
            if self.world == 1 or not _is_of_network(error):
                raise
            raise self._explain(time.monotonic() - began) from error

    def _explain(self, waited: float) -> RegardError:
        missing = self._missing()
        told = self._error_of_others()
        if told is not None:
            return RankError(told)
        if not missing:
            return LostRank(f"rank {self.rank}: the connection to the other processes broke; go on with --resume")
        names = " and ".join(f"rank {rank}{self._where(rank)}" for rank in missing)
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
            pass
        return False

    def _where(self, rank: int) -> str:
        try:
            return f" ({self.store.get(f'where/{rank}').decode()})" if self._has(f"where/{rank}") else ""
        except RuntimeError:
            return ""

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

    def _error_of_others(self) -> str | None:
        """The error that another rank left."""
        try:
            for rank in range(self.world):
                if rank != self.rank and self._has(f"error/{rank}"):
                    return f"rank {rank}: {self.store.get(f'error/{rank}').decode()}"
        except RuntimeError:
            pass
        return None


ALONE = Ranks()
_joined = ALONE


def current_ranks() -> Ranks:
    """The processes that this one trains with."""
    return _joined


@contextmanager
def telling_errors() -> Iterator[None]:
    """An error is told by one process: that of all by rank 0, that of one by itself, with its rank."""
    try:
        yield
    except RankError:
        raise
    except BaseException as error:
        ranks, message = current_ranks(), " ".join(str(error).split()) or type(error).__name__
        if ranks.world == 1:  # they have not met: each machine tells it once
            if started_by_torchrun() and (restarts() or _from_environment("LOCAL_RANK") != "0"):
                raise RankError(message) from error
            raise
        if isinstance(error, Exception) and not isinstance(error, LostRank):
            ranks.shared.set("told", "1")  # to start again would not help
        if not ranks.say_error(message):
            raise RankError(message) from error
        if isinstance(error, RegardError) and not isinstance(error, LostRank) and not ranks.leads:
            raise RegardError(f"rank {ranks.rank}: {message}") from error
        raise


# ── how they meet and part


def started_by_torchrun() -> bool:
    """As one of several?"""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def restarts() -> int:
    """How often torchrun has started this process again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _next() -> str:
    """What happens, or is to be done, after a process was lost."""
    if restarts() < int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")):
        return "torchrun starts all processes again, from the last checkpoint"
    return "go on with --resume"


def join_ranks(config: TrainConfig) -> Ranks:
    """Meet the other processes, once, if torchrun started several.

    Each start of all processes has its own part of the store. Else those that are started again would read the
    addresses of those that died.
    """
    global _joined
    if _joined is ALONE and started_by_torchrun():
        _joined = _join(60 * config.timeout, config.device)
    if _joined.world == 1 and (config.processes or 1) > 1:
        raise RegardError(
            f"train.processes={config.processes} is for the command line; in Python, start your script by torchrun "
            f"--nproc-per-node {config.processes}"
        )
    if restarts() and _joined.world > 1 and _joined.shared.check(["told"]):
        raise RankError("an error was told before all processes were started again")
    return _joined


def _join(timeout: float, device: str) -> Ranks:
    rank, world, local, port = (
        int(_from_environment(name)) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
    )
    address = _from_environment("MASTER_ADDR")
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun has the store
    first, wait = rank == 0 and not hosted, timedelta(seconds=JOIN)
    try:
        server = TCPStore(address, port, world, is_master=first, timeout=wait, wait_for_workers=False)
    except (RuntimeError, ValueError) as error:
        if "EADDRINUSE" in str(error) or "address already in use" in str(error).lower():
            raise RegardError(
                f"port {port} of {address} is taken by another program; choose another with --master-port"
            ) from error
        raise RegardError(f"rank {rank} cannot reach {address}:{port}: {_first_line(error)}") from error
    store = PrefixStore(f"regard/{restarts()}", server)
    store.set(f"where/{rank}", f"process {os.getpid()} on {socket.gethostname()}")
    backend = _choose_backend(device, local)
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timedelta(seconds=timeout))
    except RuntimeError as error:
        raise RegardError(f"rank {rank} cannot join the others: {_first_line(error)}") from error
    atexit.register(_leave)
    return Ranks(rank, world, local, store, PrefixStore("regard", server), timeout)


def _leave() -> None:
    """Part from the others when this process ends. (A script can train several times, and may have parted itself.)"""
    if dist.is_initialized():
        dist.destroy_process_group()


def _choose_backend(device: str, local: int) -> str:
    """gloo between processors, nccl between GPUs."""
    wants_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if not wants_gpu:
        return "gloo"
    count = torch.cuda.device_count()
    if local >= count:
        raise RegardError(
            f"there {'is 1 GPU' if count == 1 else f'are {count} GPUs'} here, and process {local + 1} of this machine "
            f"needs one of its own; use --nproc-per-node {max(count, 1)}, or --train.device cpu"
        )
    torch.cuda.set_device(local)
    return "cpu:gloo,cuda:nccl"


def _from_environment(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise RegardError(f"WORLD_SIZE is set and {name} is not; start several processes by torchrun, which sets both")
    return found


def _is_of_network(error: RuntimeError) -> bool:
    words = ("gloo", "connection", "timed out", "timeout", "nccl", "socket", "peer", "reset")
    return any(each in str(error).lower() for each in words)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def memory_of_rank(ranks: Ranks) -> int:
    """Bytes that this process may use: its GPU's, or its share of the machine's."""
    if dist.get_backend() != "gloo" and torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(ranks.local).total_memory)
    return memory_of_machine() // int(os.environ.get("LOCAL_WORLD_SIZE", ranks.world))


def choose_device(name: str, ranks: Ranks) -> str:
    """The device of this rank: of several GPUs, the one of its number on its machine."""
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        return f"cuda:{ranks.local}"
    return name

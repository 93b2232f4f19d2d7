"""One of two processes that train together; test_training_distributed.py starts both and reads what rank 0 prints.

Everything that needs processes is done here, one after another, because starting them takes longest.
"""

import atexit
import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

import regard
from regard.errors import RegardError
from regard.training import ranks as ranks_module
from regard.training.config import TrainConfig
from regard.training.muon import Muon
from tests.training.distributed_cases import CASES, CHANCE, train_case, train_seeds

SHARDED = {"train.parallel": "fsdp", "train.save_beside": True, "train.average": None}


def losses_of(run):
    return [each["loss"] for each in run.metrics() if "loss" in each]


class Matrices(nn.Module):
    """Matrices of several shapes, and experts, which are several matrices."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        shapes = [(5, 6), (7, 4), (5, 6), (3, 4, 6), (5, 6)]
        self.all = nn.ParameterList(torch.randn(shape, dtype=torch.float64) for shape in shapes)

    def step(self, rule):
        found = dict(self.named_parameters())
        rule(found, stacked={"all.3": 3}).step(0.1)


def muon_errors():
    """The largest difference of weights after a step of Muon by one process, and on shards, and shared."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import distribute_tensor

    from regard.training.muon import ShardedMuon, SharedMuon

    plain, shards, shared = Matrices(), Matrices(), Matrices()
    fully_shard(shards)
    for one, other, third in zip(plain.all, shards.all, shared.all, strict=True):
        one.grad = torch.randn_like(one)
        other.grad = distribute_tensor(one.grad, other.device_mesh, other.placements)
        third.grad = one.grad.clone()
    for rule, module in ((Muon, plain), (ShardedMuon, shards), (SharedMuon, shared)):
        module.step(rule)
    pairs = zip(plain.all, shards.all, shared.all, strict=True)
    errors = [[one - other.full_tensor(), one - third] for one, other, third in pairs]
    return [max(float(each[k].abs().max()) for each in errors) for k in range(2)]


def table_gradients(rank, ranks):
    """The largest error of the mean gradient of each table, and which of them were summed by their rows."""
    from regard.training import distributed as module

    torch.manual_seed(0)
    module.LARGE = 1  # all are large
    model = nn.ModuleDict({name: nn.Embedding(40, 3) for name in ("few", "many", "one rank", "none", "head")})
    model["tied"] = nn.Linear(3, 40)
    model["tied"].weight = model["head"].weight
    both = torch.zeros(2, 40, 3)
    both[0, [1, 5]], both[1, [5, 39, 7]] = torch.randn(2, 3), torch.randn(3, 3)
    gradients = {"few": both, "many": torch.randn(2, 40, 3), "one rank": both * torch.tensor([0, 1])[:, None, None]}
    for name, each in gradients.items():
        if name != "one rank" or rank == 1:
            model[name].weight.grad = each[rank].clone()
    dense = []
    total = ranks.sum
    ranks.sum = lambda x: dense.append(x.shape[0]) or total(x)
    found = module.find_tables(model)
    module.average_tables(list(found.values()), ranks)
    ranks.sum = total
    errors = {name: float((model[name].weight.grad - each.mean(0)).abs().max()) for name, each in gradients.items()}
    return {"errors": errors, "tables": list(found), "dense": len(dense), "none": model["none"].weight.grad}


def refused(folder, **options):
    """The error of a training that cannot be."""
    try:
        regard.train(**options, out=folder, observers=[], report=False)
    except RegardError as error:
        return str(error)
    return None


def main(folder):
    rank = int(os.environ["RANK"])
    found = {}
    for name in CASES:
        run = train_case(name, folder, folder / f"two-{name}")
        found[name] = losses_of(run) if rank == 0 else None
    for name in CHANCE:
        found[name] = train_seeds(name, folder, folder / f"two-{name}")
    run = train_case("language", folder, folder / "two-sharded", **SHARDED)
    found["sharded"] = losses_of(run) if rank == 0 else None
    found["sharded files"] = [path.name for path in sorted((folder / "two-sharded/state").rglob("shard*"))]
    run = train_case("experts", folder, folder / "sharded-experts", **SHARDED)
    found["sharded experts"] = losses_of(run) if rank == 0 else None
    if rank == 0:
        found["load"] = [each["load"] for each in run.metrics() if each["event"] == "experts"]
    found["muon"] = muon_errors()
    found["tables"] = table_gradients(rank, ranks_module.current_ranks())
    found["one graph"] = refused(folder / "y", recipe="graphs", steps=2)
    ranks = ranks_module.current_ranks()
    for key in ("error", "noticed"):
        ranks.store.delete_key(f"{key}/{rank}")
    torch.distributed.barrier()
    if rank == 1:
        os._exit(3)  # as if it were killed
    try:
        ranks.sum(torch.ones(1))
    except RegardError as error:
        found["lost"] = str(error)
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


def hang():
    """Rank 1 does not answer; what rank 0 says of it."""
    ranks = ranks_module.join_ranks(TrainConfig(timeout=2.0 / 60))
    ranks.sum(torch.ones(1))
    if ranks.rank == 1:
        time.sleep(6)
        os._exit(0)
    try:
        ranks.sum(torch.ones(1))
    except RegardError as error:
        print(json.dumps({"hung": str(error)}))
    sys.stdout.flush()
    os._exit(0)


def end(folder):
    """Rank 0 ends; rank 1 ends by an error, with a sum on its way that rank 0 never sends. What is left of the group then."""
    rank = int(os.environ["RANK"])
    left = folder / f"left-{rank}"
    atexit.register(lambda: left.write_text(str(torch.distributed.is_initialized())))  # the first is called last
    ranks_module.join_ranks(TrainConfig(timeout=4.0)).sum(torch.ones(1))
    if rank == 1:
        torch.distributed.all_reduce(torch.ones(1), async_op=True)
        raise RegardError("planted")
    print("{}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "hang":
        hang()
    if sys.argv[1] == "end":
        sys.exit(end(Path(sys.argv[2])))
    main(Path(sys.argv[1]))

"""One of two processes that train together; test_training_distributed.py starts both and reads what rank 0 prints.

Everything that needs processes is done here, one after another, because starting them takes longest.
"""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

import regard
from regard.errors import RegardError
from regard.training import ranks as ranks_module
from regard.training.muon import Muon
from tests.training.distributed_cases import CASES, train_case

SHARDED = {"train.parallel": "fsdp", "train.save_beside": True, "train.average": None}


def losses_of(run):
    return [each["loss"] for each in run.metrics() if "loss" in each]


def sharded_muon_error():
    """The largest difference of weights after a step of Muon on shards, and on whole matrices."""
    from torch.distributed.fsdp import fully_shard

    from regard.training.sharded_muon import ShardedMuon

    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 5), nn.Linear(4, 7), nn.Linear(6, 5)).double()

    plain, shards = model(), model()
    fully_shard(shards)
    for one, other in zip(plain.parameters(), shards.parameters(), strict=True):
        one.grad = torch.randn_like(one)
        other.grad = torch.distributed.tensor.distribute_tensor(one.grad, other.device_mesh, other.placements)
    for rule, module in ((Muon, plain), (ShardedMuon, shards)):
        rule({name: p for name, p in module.named_parameters() if p.dim() == 2}).step(0.1)
    pairs = zip(plain.parameters(), shards.parameters(), strict=True)
    return max(float((a - b.full_tensor()).abs().max()) for a, b in pairs if a.dim() == 2)


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
    run = train_case("language", folder, folder / "two-sharded", **SHARDED)
    found["sharded"] = losses_of(run) if rank == 0 else None
    found["sharded files"] = [path.name for path in sorted((folder / "two-sharded/state").rglob("shard*"))]
    found["muon"] = sharded_muon_error()
    found["disagree"] = refused(folder / "x", recipe="sets", data="max" if rank else "sum", steps=2)
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))

"""Several processes learn what one would: real processes with gloo, started once."""

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.data.batch import Batch
from regard.data.slices import refuse_slice, slice_batch, slice_graphs
from regard.errors import RegardError
from regard.training.checkpoint import write_shards
from regard.training.config import TrainConfig
from regard.training.distributed import DistributedStepper, choose_parallel
from tests.training.distributed_cases import CASES, CHANCE, train_case, train_seeds, write_cases


def losses_of(run):
    return [each["loss"] for each in run.metrics() if "loss" in each]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("ranks")
    write_cases(made)
    return made


@pytest.fixture(scope="module")
def found(folder):
    """What two processes found."""
    return run_two(str(folder))


def run_two(*words):
    """What rank 0 of two processes says at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    about = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    about |= {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    command = [sys.executable, "-m", "tests.training.ranks_driver", *words]
    started = [
        subprocess.Popen(
            command,
            env=os.environ | about | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [each.communicate(timeout=300) for each in started]
    assert started[0].returncode == 0, said[0][1][-2000:] + said[1][1][-2000:]
    return json.loads(said[0][0].splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
def test_two_processes_have_the_losses_of_one(found, folder, name):
    """A moving average, accumulated batches and uneven slices included."""
    alone = losses_of(train_case(name, folder, folder / f"one-{name}"))
    assert len(alone) >= 8
    assert found[name] == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("name", CHANCE)
def test_with_chance_two_processes_learn_as_well_as_one(found, folder, name):
    """Dropout, masked tokens, augmentation, batch norm, noise of codes: the validation losses of three seeds."""
    alone, two = (np.array(each) for each in (train_seeds(name, folder, folder / f"one-{name}"), found[name]))
    noise = np.sqrt((alone.var(ddof=1) + two.var(ddof=1)) / 3)
    assert abs(alone.mean() - two.mean()) < 3 * noise
    assert not np.allclose(alone, two, rtol=1e-4)  # else this is a case without chance


def test_sharded_weights_learn_the_same(found, folder):
    assert found["sharded"][:6] == pytest.approx(found["language"][:6], rel=1e-5)
    assert len(found["sharded files"]) == 2 * 2 * 2  # of two checkpoints, each of two processes, model and optimiser
    whole = regard.load(folder / "two-sharded")
    for name, weight in regard.load(folder / "two-language").state_dict().items():
        torch.testing.assert_close(whole.state_dict()[name], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["language", "sharded"])
def test_a_run_goes_on_with_another_number_of_processes(found, folder, name):
    """One process goes on with a checkpoint of two, whole or sharded. (That of the last step is taken away.)"""
    path = folder / f"again-{name}"
    shutil.copytree(folder / f"two-{name}", path)
    shutil.rmtree(path / "state" / "6")
    heard = []
    watching = [SimpleNamespace(noted=heard.append, stepped=lambda step, *facts: heard.append(step))]
    run = regard.train("text", out=path, resume=True, options={"train.processes": 1}, observers=watching, report=False)
    assert heard[1:] == [5, 6]
    assert losses_of(run) == pytest.approx(found[name], rel=1e-5)


def test_experts_are_balanced_over_all_processes(found, folder):
    """The balance counts the tokens of the whole batch: its loss is not a mean of those of slices."""
    assert found["sharded experts"][:4] == pytest.approx(found["experts"][:4], rel=1e-5)
    alone = train_case("experts", folder, folder / "load-experts").metrics()
    loads = [each["load"] for each in alone if each["event"] == "experts"]
    for name, shares in loads[0].items():
        assert found["load"][0][name] == pytest.approx(shares, abs=1e-6)
        assert sum(shares) == pytest.approx(1.0)


def test_muon_by_several_processes_is_muon(found):
    """On shards, and where each process orthogonalises some matrices."""
    assert max(found["muon"]) < 1e-12


def test_tables_are_summed_by_the_rows_that_changed(found):
    seen = found["tables"]
    assert max(seen["errors"].values()) < 1e-6
    assert len(seen["errors"]) == 3
    assert seen["dense"] == 1  # the one of which most rows changed
    assert seen["none"] is None
    assert sorted(name.split(".")[0] for name in seen["tables"]) == ["few", "many", "none", "one rank"]


def test_what_cannot_be_shared_says_so(found):
    assert "whole graph" in found["one graph"]
    assert "one process" in found["one graph"]


def test_a_lost_process_is_named(found):
    assert "rank 1" in found["lost"]


def test_a_process_that_hangs_is_named():
    said = run_two("hang")["hung"]
    assert "rank 1 (process" in said
    assert "did not answer" in said
    assert "--train.timeout" in said


def test_each_process_leaves_the_group_when_it_ends(tmp_path):
    """After an error, too, and without waiting for those that are gone."""
    run_two("end", str(tmp_path))
    assert [(tmp_path / f"left-{rank}").read_text() for rank in range(2)] == ["False", "False"]


@pytest.mark.parametrize(
    "failures, kind, words",
    [
        ({0: RuntimeError("gloo: Connection closed by peer")}, RuntimeError, "Connection closed"),
        ({0: RuntimeError("gloo"), 1: OSError(28, "No space left on device")}, OSError, "No space left"),
        ({1: KeyError("weight")}, RuntimeError, "weight"),
    ],
)
def test_an_error_of_a_sharded_checkpoint_is_that_of_its_cause(monkeypatch, tmp_path, failures, kind, words):
    """torch's own is no Exception: a lost process would not be known, and neither would a full disk."""
    from torch.distributed.checkpoint import state_dict_saver
    from torch.distributed.checkpoint.api import CheckpointException

    def fail(*given, **options):
        raise CheckpointException("save", {rank: (each, None) for rank, each in failures.items()})

    monkeypatch.setattr(state_dict_saver, "save", fail)
    with pytest.raises(kind, match=words):
        write_shards(tmp_path / "model", {"weight": torch.ones(2)})


def test_a_process_lost_in_the_forward_pass_is_a_lost_process():
    """There weights are gathered and norms are added up, so an error of the network is none of the program."""

    class Failing(nn.Module):
        def forward(self, batch):
            raise RuntimeError("[pair.cc:144] Connection closed by peer")

    class Noticed(RegardError):
        pass

    @contextmanager
    def noticing():
        try:
            yield
        except RuntimeError as error:
            raise Noticed from error

    stepper = SimpleNamespace(
        device="cpu",
        balance=SimpleNamespace(begin=lambda: None),
        precision=nullcontext,
        ranks=SimpleNamespace(noticing=noticing),
        loss_of=Failing(),
    )
    mine = slice_batch(Batch({"tokens": torch.ones(2, 3)}, torch.ones(2, 3)), 0, 1)
    with pytest.raises(Noticed):
        DistributedStepper._backward(stepper, mine, [])


# ── slices, without processes


def test_slices_together_are_the_batch():
    tokens = torch.arange(28).view(7, 4)
    real = torch.rand(7, 4) < 0.7
    batch = Batch({"tokens": tokens, "real": real}, tokens + 1)
    slices = [slice_batch(batch, part, 3) for part in range(3)]
    assert torch.equal(torch.cat([each.batch["tokens"] for each in slices]), tokens)
    assert torch.equal(torch.cat([each.batch["real"] for each in slices]), real)


def test_slices_of_graphs_are_graphs():
    of = torch.tensor([0, 0, 1, 2, 2, 2])
    edges = torch.tensor([[0, 1, 3, 4], [1, 0, 4, 5]])
    batch = Batch(
        {"tokens": torch.randn(6, 2), "edges": edges, "of": of, "graphs": 3},
        torch.tensor([5, 6, 7]),
        rows=3,
        cut=slice_graphs,
    )
    first, second = (slice_batch(batch, part, 2) for part in range(2))
    assert (first.batch["graphs"], second.batch["graphs"]) == (1, 2)
    assert torch.equal(second.batch["edges"], torch.tensor([[1, 2], [2, 3]]))
    assert second.batch.target.tolist() == [6, 7]
    assert second.batch["of"].tolist() == [0, 1, 1, 1]


def test_a_process_without_rows_does_not_count():
    batch = Batch({"tokens": torch.arange(3).view(1, 3)}, torch.arange(3).view(1, 3))
    assert [slice_batch(batch, part, 2).counts for part in range(2)] == [False, True]


def test_one_graph_cannot_be_cut():
    batch = Batch(
        {"tokens": torch.randn(3, 2), "edges": torch.zeros(2, 1).long()}, torch.zeros(3).long(), cut=refuse_slice
    )
    with pytest.raises(RegardError, match="one graph"):
        slice_batch(batch, 0, 2)


def test_auto_shards_what_would_not_fit():
    config = TrainConfig()
    assert choose_parallel(config, 100, memory=16 * 100 * 2) == "ddp"
    assert choose_parallel(config, 100, memory=16 * 100) == "fsdp"
    assert choose_parallel(TrainConfig(parallel="ddp"), 100, memory=1) == "ddp"

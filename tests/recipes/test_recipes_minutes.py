"""Minutes that are asked for are kept by every kind of data, whatever budget it has by default. The clock is a made one,
which each step moves on by a second."""

from types import SimpleNamespace

import pytest

import regard
from regard.training import budget, loop
from regard.training.progress import Observer
from tests.golden import data
from tests.recipes import tiny_data
from tests.recipes.tiny_data import Tiny

SECONDS = 30
SMALL = {"model.dim": 8, "model.heads": 1, "model.depth": 1, "train.batch": 8}


def pairs(folder):
    data.texts(folder)
    return Tiny("translation", str(folder / "pairs.tsv"), SMALL, None, False)


def measurements(folder):
    data.rows(folder)
    return Tiny("autoencoder", str(folder / "measured.csv"), {"train.batch": 8}, None, False)


def load(folder):
    data.series(folder)
    return Tiny("series", str(folder / "load.csv"), {**SMALL, "data.context": 16, "data.horizon": 4}, None, False)


def world(folder):
    small = {"data.real_steps": 120, "data.rounds": 2, "data.context": 8, "model.dim": 8, "model.depth": 1}
    learn = {"world_steps": 1, "imagined": 16, "horizon": 4, "minibatch": 64, "batch": 16, "episodes": 3}
    return Tiny("world", None, small | {f"train.{name}": value for name, value in learn.items()}, None, False)


KINDS = {make.__name__: make for make in (pairs, measurements, load, world, tiny_data.series)}
KINDS |= {name: make for name, make in tiny_data.KINDS.items() if name not in ("set_numbers", "made_sets")}


class Clock(Observer):
    """Stands in for `time`: only steps take time."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    def stepped(self, step, loss, size, seconds):
        self.now += 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_minutes_are_kept(kind, tmp_path, monkeypatch):
    clock = Clock()
    for module in (loop, budget):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    tiny = KINDS[kind](tmp_path)
    options = {"train.device": "cpu", "train.threads": 1, "train.precision": "float32", **tiny.options}
    how = {"options": options, "observers": [clock], "report": False}
    run = regard.train(tiny.recipe, data=tiny.data, out=tmp_path / "run", minutes=SECONDS / 60, **how)
    assert run.config.train["steps"] is None and run.config.train["minutes"] == SECONDS / 60
    assert 0.8 * SECONDS <= clock.now - 100 <= 1.2 * SECONDS
    if kind == "world":  # each round has its share of the time, also of one that is short
        assert sorted(each.name for each in (run.state / "episodes").iterdir()) == ["round-000.npz", "round-001.npz"]

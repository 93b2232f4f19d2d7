"""A tiny model, an endless source of small batches, and one call that trains the one on the other."""

import os
import re
import signal

import torch
from torch import nn

from regard.data.batch import Batch, generator
from regard.runs.new_run import create_run
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.loop import fit

VOCAB, WIDTH = 8, 16


class Tiny(nn.Module):
    """An embedding, two blocks with dropout, a head."""

    def __init__(self, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(WIDTH),
                nn.Linear(WIDTH, 2 * WIDTH),
                nn.ReLU(),
                nn.Linear(2 * WIDTH, WIDTH),
                nn.Dropout(dropout),
            )
            for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Pairs:
    """Every second token repeats the one before it: half of them can be known."""

    def __init__(self, rows=4, evaluations=2, seed=0):
        self.rows, self.evaluations, self.seed = rows, evaluations, seed

    def batch(self, step):
        tokens = torch.from_numpy(generator(self.seed, step).integers(0, VOCAB, (self.rows, 10)))
        tokens[:, 1::2] = tokens[:, ::2]
        return Batch({"tokens": tokens[:, :-1]}, tokens[:, 1:])

    def validation(self):
        return (self.batch(10**6 + i) for i in range(self.evaluations))


class At:
    """Does something once, when a step is told."""

    def __init__(self, step, act):
        self.step, self.act = step, act

    def stepped(self, step, *facts):
        if step == self.step:
            self.act()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def tiny(seed=0, **options):
    torch.manual_seed(seed)
    return Tiny(**options)


def train(path, *, resume=False, source=None, model=None, task="next token", observers=(), sample=None, **options):
    """Train in a folder, made new unless there is a run to resume. Returns the run and the result."""
    config = TrainConfig(**{"steps": 12, "warmup": 3, "evaluate_every": 4, **options})
    run = Run.open(path) if resume and Run.exists(path) else create_run(path, {"train": config})
    result = fit(
        run,
        tiny() if model is None else model,
        task,
        source or Pairs(),
        config,
        resume=resume,
        observers=observers,
        sample=sample,
    )
    return run, result


def says(*words):
    """A pattern for these names and numbers, in this order."""
    return ".*".join(re.escape(word) for word in words)


def losses(run, event="step"):
    return [(each["step"], each["loss"]) for each in run.metrics() if each["event"] == event]

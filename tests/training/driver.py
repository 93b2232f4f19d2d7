"""Trains in children of one process and kills them; test_training_kills.py reads what it prints.

Before a child is made, this process computes nothing, so that forking it is safe.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

from regard.runs.run import Run
from regard.training.progress import Lines
from tests.training.cases import losses, train

OPTIONS = {"steps": 24, "evaluate_every": 8, "save_every": 3, "average": 0.9, "decay": 0.5}


class Dies:
    """Kills its process when it hears of something for the n-th time."""

    def __init__(self, what, n):
        self.left = n
        setattr(self, what, self.hear)

    def hear(self, *facts):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Tells:
    """Says through a pipe that a step was done, and gives the other side time to act."""

    def __init__(self, pipe):
        self.pipe = pipe

    def stepped(self, step, *facts):
        os.write(self.pipe, b".")
        time.sleep(0.005)


def dying_replace(n):
    """Renaming a written file over the old one kills the process, the n-th time."""
    dies, replace = Dies("hear", n), os.replace

    def failpoint(*args):
        dies.hear()
        replace(*args)

    os.replace = failpoint


def child(work):
    """Run some work in a child process and return its process id."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        except KeyboardInterrupt:
            code = 130
        except BaseException as error:
            print(repr(error), file=sys.stderr)
        finally:
            os._exit(code)
    return process


def end(process):
    """The exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def attempt(path, what=None, n=0):
    """Go on with the run in a child that dies in a given way."""

    def work():
        if what == "replace":
            dying_replace(n)
        train(path, resume=True, observers=[Dies(what, n)] if what not in (None, "replace") else (), **OPTIONS)

    return end(child(work))


def signalled(path, signals, resume=False, **options):
    """Send signals to a training once it has done a few steps."""
    reading, writing = os.pipe()
    process = child(lambda: train(path, resume=resume, observers=[Tells(writing)], **OPTIONS | options))
    os.read(reading, 1)
    os.read(reading, 1)
    for each in signals:
        os.kill(process, each)
        time.sleep(0.02)
    return end(process)


def ignoring(path):
    """As under nohup: the terminal goes, and the training goes on."""
    reading, writing = os.pipe()

    def work():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        train(path, observers=[Tells(writing)], **OPTIONS)

    process = child(work)
    os.read(reading, 1)
    os.kill(process, signal.SIGHUP)
    return end(process)


def closed_terminal(path):
    """A training that prints at every step to a terminal, which is then closed."""
    reading, writing = os.pipe()
    process, terminal = os.forkpty()
    if process == 0:
        code = 1
        try:
            train(path, observers=[Lines(every=0.0), Tells(writing)], **OPTIONS)
            print("the last words")
            sys.stdout.flush()
            code = 0
        finally:
            os._exit(code)
    os.read(reading, 1)
    os.close(terminal)
    return end(process)


def interrupted_twice(path):
    """Ctrl-C, and again while a long sample still keeps the first one waiting."""
    reading, writing = os.pipe()

    def sample(model):
        os.write(writing, b".")
        time.sleep(20)
        return ""

    process = child(lambda: train(path, sample=sample, **OPTIONS | {"evaluate_every": 3}))
    os.read(reading, 1)
    for _ in range(2):
        os.kill(process, signal.SIGINT)
        time.sleep(0.05)
    return end(process)


def seen(path):
    run = Run.open(path)
    model = run.model_file.read_bytes().hex() if run.model_file.exists() else None
    latest = json.loads((run.state / "latest.json").read_text()) if (run.state / "latest.json").exists() else {}
    return {
        "losses": losses(run),
        "evaluations": losses(run, "validation"),
        "model": model,
        "step": latest.get("step"),
        "folders": sorted(each.name for each in run.state.iterdir() if each.is_dir()),
    }


def main(folder):
    torch.set_num_threads(1)
    os.fsync = lambda handle: None  # a kill is no power cut: what was written is there
    found = {}
    whole, killed, stopped = folder / "whole", folder / "killed", folder / "stopped"
    found["whole"] = {"codes": [attempt(whole)], **seen(whole)}
    # manifest.json, environment.json, the copy of config.json, config.json, and all four again once the steps are
    # known; model, optimiser, average, state.json, latest.json of step 3, then what is published
    kills = [
        ("replace", 1),
        ("replace", 4),
        ("stepped", 2),
        ("replace", 7),
        ("replace", 6),
        ("replace", 8),
        ("saved", 2),
        ("stepped", 5),
        ("evaluated", 1),
    ]
    found["killed"] = {"codes": [attempt(killed, *each) for each in kills] + [attempt(killed)], **seen(killed)}
    codes = [signalled(stopped, [signal.SIGINT])]
    found["stopped"] = seen(stopped)
    codes.append(signalled(stopped, [signal.SIGTERM], resume=True))
    codes.append(attempt(stopped))
    found["resumed"] = {"codes": codes, **seen(stopped)}
    hung, kept, closed = folder / "hung", folder / "nohup", folder / "closed"
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    codes = [signalled(hung, [signal.SIGHUP])]
    found["hung up"] = seen(hung)
    found["hung up and resumed"] = {"codes": [*codes, attempt(hung)], **seen(hung)}
    found["nohup"] = {"codes": [ignoring(kept)], **seen(kept)}
    codes = [closed_terminal(closed)]
    found["closed"] = seen(closed)
    found["closed and resumed"] = {"codes": [*codes, attempt(closed)], **seen(closed)}
    found["twice"] = {"codes": [interrupted_twice(folder / "twice")]}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

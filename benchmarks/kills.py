"""Does a run survive a hundred kills? A small decoder is trained in child processes that are killed with SIGKILL at random
moments and resumed each time; at the end its losses must be those of one that was never stopped, bit for bit.

python benchmarks/kills.py              a hundred kills, a few minutes; writes results.md
python benchmarks/kills.py --kills 20   fewer; writes nothing
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from alternate import keep, table

from regard.data.batch import Batch, generator
from regard.models.decoder import Decoder, DecoderConfig
from regard.runs.new_run import create_run
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.loop import fit

CONFIG = TrainConfig(steps=120, evaluate_every=20, save_every=3, average=0.99, accumulate=2)
MODEL = DecoderConfig(vocab=32, context=32, dim=64, depth=2, heads=2, dropout=0.1)


class Walks:
    """Tokens that walk up and down by at most two."""

    def batch(self, step: int) -> Batch:
        walk = torch.from_numpy(generator(0, step).integers(-2, 3, (8, 33))).cumsum(1) % 32
        return Batch({"tokens": walk[:, :-1]}, walk[:, 1:])

    def validation(self):
        return (self.batch(10**6 + i) for i in range(4))


def train(path: Path) -> None:
    torch.manual_seed(0)
    there = Run.exists(path)
    run = Run.open(path) if there else create_run(path, {"kind": "decoder", "model": MODEL, "train": CONFIG})
    fit(run, Decoder(MODEL), "next token", Walks(), CONFIG, resume=there)


def child(path: Path, kill_after: float | None) -> tuple[int, float]:
    """Train in a child process, and kill it after so many seconds. Its exit code (−9: killed) and how long it lived."""
    began = time.perf_counter()
    process = os.fork()  # this process computes nothing itself, so it can be copied safely
    if process == 0:
        code = 1
        try:
            train(path)
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), time.perf_counter() - began


def struck(path: Path) -> str:
    """What the kill struck, from what it left."""
    run = Run(path, {})
    if not (path / "config.json").exists():
        return "before the run was made"
    if any(path.rglob("*.part")):
        return "as a file was written"
    latest = (run.state / "latest.json").read_text() if (run.state / "latest.json").exists() else ""
    folders = [each for each in run.state.glob("[0-9]*") if f'"step": {each.name},' not in latest]
    return "between files of a checkpoint" if folders else "in a step, an evaluation or the start"


def outcome(path: Path) -> tuple[list[tuple[str, int, float]], bytes]:
    """Everything that must be the same: losses of steps and of evaluations, and the published model."""
    run = Run.open(path)
    return [(each["event"], each["step"], each["loss"]) for each in run.metrics()], run.model_file.read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    draw = random.Random(options.seed)
    where: Counter[str] = Counter()
    kills, finished, wrong = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        code, alone = child(Path(folder) / "whole", None)
        assert code == 0, "the run that is never stopped did not end well"
        expected = outcome(Path(folder) / "whole")
        while kills < options.kills:
            path = Path(folder) / f"run{finished}"
            while True:
                code, _ = child(path, draw.uniform(0, alone / 3) if kills < options.kills else None)
                if code != -signal.SIGKILL:
                    break
                kills += 1
                where[struck(path)] += 1
            same = code == 0 and outcome(path) == expected
            finished, wrong = finished + 1, wrong + (not same)
            print(f"{kills} kills, {finished} runs finished, {wrong} with other losses", flush=True)
    rows = [[str(kills), str(finished), str(len(expected[0])), str(wrong)]]
    text = "\n\n".join(
        [
            f"`python benchmarks/kills.py --kills {options.kills}`: a decoder of {CONFIG.steps} steps, checkpoints every "
            f"{CONFIG.save_every}, two batches a step, dropout, averaged weights.",
            table(
                ["kills", "runs they were spread over", "losses compared in each", "runs that differed in any bit"],
                rows,
            ),
            table(["where a kill struck", "times"], [[name, str(count)] for name, count in where.most_common()]),
        ]
    )
    print(text)
    if options.kills >= 100:
        keep(Path(__file__).parent / "results.md", "Kills", text)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

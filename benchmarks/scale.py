"""Several processes against one: losses, speed, memory, checkpoints, kills, bytes over the wire.

    python benchmarks/scale.py                  # which rows there are, and which are measured
    python benchmarks/scale.py losses-text      # measure one row (again)
    python benchmarks/scale.py kills --count 10 # ten more kills

Each row takes some minutes at most; what was found is kept in benchmarks/scale.json, so rows can be measured one at a time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("scale.json")
FLOAT32 = ["--train.precision", "float32", "--train.optimiser", "adamw", "--train.threads", "1", "--no-report"]
SMALL = ["text", "--model.dim", "64", "--model.depth", "2", "--data.context", "64", "--train.batch", "8"]
MIDDLE = ["text", "--model.dim", "384", "--model.depth", "6", "--model.heads", "6", "--data.context", "256"]
LARGE = ["text", "--model.dim", "768", "--model.depth", "12", "--model.heads", "12", "--data.context", "64"]
LARGE += ["--data.tokens", "bpe", "--data.vocabulary", "32768", "--model.ngrams", "1", "--train.batch", "2"]
STILL = [f"--data.augment.{name}=0" for name in ("crop", "turn", "zoom")]
KINDS = {  # without dropout, augmentation and batch norm
    "text": [*SMALL, "--model.dropout", "0"],
    "images": ["images", "--model", "vit", "--model.dim", "64", "--model.depth", "2", "--train.batch", "32", *STILL],
    "sets": ["sets", "--train.batch", "32"],
    "graphs": ["graphs", "--train.batch", "32", "--model.dropout", "0", "--model.norm", "layernorm"],
}
CHANCE = {"text": [*SMALL, "--model.dropout", "0.2"], "images": ["images", "--train.batch", "32"]}  # with them


def start(folder: Path, out: str, options: list[str], threads: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "regard", "train", *options, "--out", out]
    about = os.environ | {"OMP_NUM_THREADS": str(threads)}
    log = open(folder / f"{out}.log", "w")  # noqa: SIM115
    return subprocess.Popen(command, cwd=folder, env=about, stdout=log, stderr=log, text=True)


def train(folder: Path, out: str, options: list[str], threads: int = 1) -> list[dict[str, Any]]:
    """The metrics of a training."""
    code = start(folder, out, options, threads).wait()
    if code:
        sys.exit(f"{out}: exit code {code}: {(folder / f'{out}.log').read_text()[-1000:]}")
    return metrics(folder / out)


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def steps_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in events if each["event"] == "step"]


def two(*more: str) -> list[str]:
    return ["--train.processes", "2", *more]


# ── rows


def losses(kind: str, folder: Path) -> dict[str, Any]:
    """The largest relative difference of 50 losses, of 2 processes and of 1; beside it, that of one process with two
    threads and with one, which is rounding alone. Where rounding grows, the same in float64."""
    options = [*KINDS[kind], *FLOAT32, "--train.steps", "50"]
    if kind == "graphs":
        options += ["--data", str(many_graphs(folder))]
    alone = train(folder, "one", options)
    found = {
        "2 processes": compare_losses(alone, train(folder, "two", options + two())),
        "2 threads": compare_losses(alone, train(folder, "threads", [*options, "--train.threads", "2"], threads=2)),
    }
    if found["2 threads"] > 1e-6:
        several = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
        exact = [train_in_float64(folder, f"exact{len(more)}", more, options) for more in ([], several)]
        found["2 processes, float64"] = compare_losses(*exact)
    return found


def chance(folder: Path) -> dict[str, Any]:
    """The validation losses of three seeds after 150 steps with dropout (text), or augmentation and batch norm
    (images), by 1 and by 2 processes; and how far apart their means are, in standard errors."""
    found: dict[str, Any] = {}
    for kind, options in CHANCE.items():
        row: dict[str, Any] = {}
        for name, more in (("1 process", []), ("2 processes", two())):
            row[name] = []
            for seed in range(3):
                words = [*options, *FLOAT32, *more, "--train.steps", "150", "--train.evaluate_every", "150"]
                events = train(folder, f"{kind}{len(more)}-{seed}", [*words, "--train.seed", str(seed)])
                row[name] += [each["loss"] for each in events if each["event"] == "validation"]
        spread = sum(statistics.variance(losses) / 3 for losses in row.values()) ** 0.5
        apart = abs(statistics.mean(row["1 process"]) - statistics.mean(row["2 processes"]))
        found[kind] = row | {"standard errors": apart / spread}
    return found


def compare_losses(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> float:
    """The largest relative difference of losses."""
    pairs = list(zip(steps_of(one), steps_of(other), strict=True))
    assert len(pairs) == 50
    return max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in pairs)


def train_in_float64(folder: Path, out: str, several: list[str], options: list[str]) -> list[dict[str, Any]]:
    script = str(Path(__file__).with_name("in_float64.py"))
    command = [sys.executable, *several, script, "train", *options, "--out", out]
    subprocess.run(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
    return metrics(folder / out)


def many_graphs(folder: Path) -> Path:
    """Rings and paths of several sizes; a fifth of the labels is wrong. (A loss near 0 would be all rounding.)"""
    import numpy as np

    draw = np.random.default_rng(0)
    ends, of, labels, first = [], [], [], 0
    for graph in range(400):
        size, ring = int(draw.integers(4, 12)), graph % 2
        ends += [(first + i, first + (i + 1) % size) for i in range(size - 1 + ring)]
        of += [graph] * size
        labels.append(ring ^ int(draw.random() < 0.2))
        first += size
    np.savez(
        folder / "graphs.npz", edges=np.array(ends).T, x=draw.normal(size=(first, 4)), of=np.array(of), labels=labels
    )
    return folder / "graphs.npz"


def pace(events: list[dict[str, Any]]) -> float:
    """Median seconds of a step, without the first five."""
    times = [each["seconds"] for each in steps_of(events)][5:]
    return statistics.median(b - a for a, b in itertools.pairwise(times))


def speed(parallel: str, folder: Path) -> dict[str, Any]:
    """Speed of 2 processes of one thread, against 1 process of two threads; five turns each. With the tables of runs of
    letters that a text model has by default (33 M parameters), and without (10.7 M)."""
    options = [*MIDDLE, "--train.batch", "8", "--train.steps", "25", "--no-report"]
    options += ["--train.evaluate_every", "1000", "--data.validation", "0.001"]
    found: dict[str, Any] = {}
    for name, more in (("10.7 M", ["--model.ngrams", "1"]), ("33 M, with tables", [])):
        ratios = []
        for turn in range(5):
            out = f"{len(more)}-{turn}"
            alone = pace(train(folder, f"one{out}", [*options, *more, "--train.threads", "2"], threads=2))
            several = two("--train.threads", "1", "--train.parallel", parallel)
            ratios.append(round(alone / pace(train(folder, f"two{out}", options + more + several)), 3))
        found[name] = {"ratio": statistics.median(ratios), "all": ratios}
    return found


def memory(folder: Path) -> dict[str, Any]:
    """The highest memory of a process with AdamW on few tokens, DDP and FSDP2 on 2 ranks: MB above that of a tiny model,
    in steps, and with an evaluation and a checkpoint at the end."""
    found: dict[str, Any] = {}
    for name, options in (("tiny", SMALL), ("ddp", LARGE), ("fsdp", LARGE)):
        parallel = "ddp" if name == "tiny" else name
        more = two("--train.parallel", parallel, "--train.steps", "12", "--train.evaluate_every", "1000")
        process = start(folder, name, [*options, *FLOAT32, *more, "--data.validation", "0.0001"])
        found[name] = watch_memory(process, folder / name)
    base = found.pop("tiny")
    found = {name: {when: each[when] - base[when] for when in each} for name, each in found.items()}
    return found | {"of a tiny model": base, "parameters": parameters(folder / "ddp")}


def watch_memory(process: subprocess.Popen[str], run: Path) -> dict[str, float]:
    """The largest VmHWM of rank 1, in MB, after some steps, and when the training ends."""
    found = {"in steps": 0.0, "in all": 0.0}
    while process.poll() is None:
        most = max((high_water(pid) for pid in workers(run.name)[1:]), default=0.0)
        found["in all"] = max(found["in all"], most)
        if not (run / "state/latest.json").exists() and not unfinished_folder(run):
            found["in steps"] = max(found["in steps"], most)
        time.sleep(0.02)
    return found


def unfinished_folder(run: Path) -> bool:
    """Has a checkpoint been begun, or has an evaluation been written down?"""
    has_folder = any(each.name.isdecimal() for each in (run / "state").glob("*"))
    try:
        return has_folder or '"validation"' in (run / "metrics.jsonl").read_text()
    except OSError:
        return has_folder


def high_water(pid: int) -> float:
    """The most memory that a process has had, in MB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def workers(out: str) -> list[int]:
    """Processes that torchrun started for a run, in the order of their start."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
                about = (path / "environ").read_bytes()
            except OSError:
                continue
            if out.encode() in words and b"\0LOCAL_RANK=" in b"\0" + about:
                found.append(int(path.name))
    return sorted(found)


def pause(folder: Path) -> dict[str, Any]:
    """Seconds that a checkpoint of 123 M parameters with AdamW holds up the training: of four, those after the first."""
    found: dict[str, Any] = {}
    options = [*LARGE, *FLOAT32, "--train.steps", "43", "--train.save_every", "6", "--train.evaluate_every", "4"]
    options += ["--data.validation", "0.0001"]
    for name, more in (("blocking", []), ("beside", ["--train.save_beside"])):
        times = [each["seconds"] for each in steps_of(train(folder, name, [*options, *more]))]
        gaps = {step: after - at for step, (at, after) in enumerate(itertools.pairwise(times), 1)}
        usual = statistics.median(gaps.values())
        saves = [round(gaps[step] - usual, 3) for step in (6, 18, 30, 42)]  # without an evaluation at the same step
        found[name] = {"pause": statistics.median(saves[1:]), "all": saves, "a step": usual}
    return found


MANNERS = {
    "at any time": [],
    "in a checkpoint": [],
    "sharded, checkpoints beside": ["--train.parallel", "fsdp", "--train.save_beside"],
}  # how processes are killed, in turns, and what is special about the run


def kills(folder: Path, count: int, before: dict[str, Any] | None) -> dict[str, Any]:
    """Kill a random rank, in three manners; the run must end as one that was never killed."""
    options = [*KINDS["text"], *FLOAT32, "--train.steps", "100", "--train.save_every", "4"]
    options += ["--train.evaluate_every", "40", *two()]
    whole = {}
    for manner, more in MANNERS.items():
        name = manner.replace(" ", "-")
        began = time.time()
        train(folder, name, options + more)
        whole[manner] = (folder / name, time.time() - began)
    found = before or {
        manner: {"kills": 0, "differ": 0, "lost or twice": 0, "failed": 0, "back": []} for manner in MANNERS
    }
    draw = random.Random(sum(each["kills"] for each in found.values()))
    for number, manner in zip(range(count), itertools.cycle(MANNERS)):
        row, (model, seconds) = found[manner], whole[manner]
        name = f"killed{number}"
        process = start(folder, name, options + MANNERS[manner])
        back = kill_one(process, folder / name, draw, seconds, inside=manner == "in a checkpoint")
        if back is None:
            continue  # it had ended before
        row["kills"] += 1
        row["back"].append(round(back, 2))
        row["failed"] += process.wait() != 0
        steps, expected = (steps_of(metrics(each)) for each in (folder / name, model))
        row["lost or twice"] += [each["step"] for each in steps] != [each["step"] for each in expected]
        same = [each["loss"] for each in steps] == [each["loss"] for each in expected]
        weights = [(each / "model.safetensors").read_bytes() for each in (folder / name, model)]
        row["differ"] += not (same and weights[0] == weights[1])
        print(manner, json.dumps(row), flush=True)
    return found


def kill_one(
    process: subprocess.Popen[str], run: Path, draw: random.Random, seconds: float, inside: bool
) -> float | None:
    """Kill a rank; returns the seconds until a new step is written down, None if the training had ended before.
    seconds: of the whole training; inside: while a checkpoint is written, that latest.json does not name yet"""
    while len(workers(run.name)) < 2 and process.poll() is None:
        time.sleep(0.02)
    time.sleep(draw.uniform(0, 0.9 * seconds))
    while inside and process.poll() is None and not unnamed_checkpoint(run):
        pass
    pids = workers(run.name)
    if len(pids) < 2:
        process.wait()
        return None
    os.kill(draw.choice(pids), signal.SIGKILL)
    killed = time.monotonic()
    while process.poll() is None and not set(workers(run.name)) - set(pids):
        time.sleep(0.02)
    fewest = count_lines(run)
    while process.poll() is None:
        lines = count_lines(run)
        if lines > fewest:
            break
        fewest = min(fewest, lines)  # those after the checkpoint are cut off
        time.sleep(0.02)
    return time.monotonic() - killed


def unnamed_checkpoint(run: Path) -> bool:
    """Is there a folder of a checkpoint that latest.json does not name?"""
    try:
        folders = [int(each.name) for each in (run / "state").iterdir() if each.name.isdecimal()]
        latest = json.loads((run / "state/latest.json").read_text())
    except (OSError, ValueError):
        return False
    return max(folders, default=0) > latest["step"]


def count_lines(run: Path) -> int:
    try:
        return (run / "metrics.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def traffic(folder: Path) -> dict[str, Any]:
    """Bytes that all processes send in a step, measured at the network devices, and by the model of docs/scale.md; then
    the same model for more processes. With DDP also for a model with tables, of which only rows are sent."""
    found: dict[str, Any] = {}
    plain = ["--model.ngrams", "1"]
    cases = [(kind, world, plain) for world in (2, 4) for kind in ("ddp", "fsdp")] + [("ddp", 2, [])]
    for parallel, world, more in cases:
        options = [*SMALL, *FLOAT32, *more, "--train.processes", str(world), "--train.parallel", parallel]
        options += ["--train.evaluate_every", "1000", "--train.save_every", "1000"]
        sent, seconds = [], 0.0
        for steps in (6, 26):
            began = bytes_sent()
            events = train(folder, f"{parallel}{world}{len(more)}-{steps}", [*options, "--train.steps", str(steps)])
            sent.append(bytes_sent() - began)
            seconds = pace(events) if steps > 6 else 0.0
        name = f"{parallel}, {world} processes" + ("" if more else ", with tables")
        size = parameters(folder / f"{parallel}{world}{len(more)}-6")
        calculated = (8 if parallel == "ddp" else 12) * size * (world - 1)
        found[name] = {"bytes": (sent[1] - sent[0]) / 20, "calculated": calculated, "seconds": seconds}
    size = parameters(folder / "ddp22-6")
    for world in (8, 16, 32, 64):
        both = {kind: numbers * size * (world - 1) for kind, numbers in (("ddp", 8), ("fsdp", 12))}
        found[f"{world} processes, calculated"] = both
    return found | {"parameters": size}


def bytes_sent() -> int:
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[8]) for line in lines)


def parameters(run: Path) -> int:
    from safetensors import safe_open

    with safe_open(run / "model.safetensors", "pt") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    total = 0
    for shape in shapes:
        count = 1
        for side in shape:
            count *= side
        total += count
    return total


ROWS: dict[str, Callable[[Path], dict[str, Any]]] = {
    **{f"losses-{kind}": (lambda folder, kind=kind: losses(kind, folder)) for kind in KINDS},
    "chance": chance,
    "speed-ddp": lambda folder: speed("ddp", folder),
    "speed-fsdp": lambda folder: speed("fsdp", folder),
    "memory": memory,
    "pause": pause,
    "traffic": traffic,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="?", choices=[*ROWS, "kills"])
    parser.add_argument("--count", type=int, default=10, help="kills")
    chosen = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if chosen.row is None:
        for row in (*ROWS, "kills"):
            print(f"{row:15} {json.dumps(found.get(row))}")
        return
    with tempfile.TemporaryDirectory(prefix="scale-") as place:
        folder = Path(place)
        if chosen.row == "kills":
            row = kills(folder, chosen.count, found.get("kills"))
        else:
            row = ROWS[chosen.row](folder)
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(found | {chosen.row: row}, indent=1) + "\n")
    print(f"{chosen.row}: {json.dumps(row)}")


if __name__ == "__main__":
    main()

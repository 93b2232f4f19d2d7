"""What attention that costs less really costs, and what it loses.

    python benchmarks/long.py errors                    against exact attention, by features, buckets, projected length
    python benchmarks/long.py time [--threads 2]        seconds and memory against length, 512 to 131,072
    python benchmarks/long.py quality enwik8.xz         bits a byte after as many minutes each
    python benchmarks/long.py report                    tables into results.md, plots into long_errors.png, long_time.png

Each figure is a line of runs/long/results.jsonl as soon as it is there, and is not measured again: a run that was stopped
goes on. `--tiny` tries everything on small sizes, in runs/long_tiny.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# threads that wait sleep: much faster beside other busy programs
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from alternate import extra_memory
from long_report import CHANNELS, DRAWS, HEADS, SETTINGS, Results, report
from torch import Tensor

from regard.attention.approximate.linformer import Linformer
from regard.attention.approximate.lsh import LSH, keys_of
from regard.attention.approximate.performer import Performer
from regard.attention.attend import attend
from regard.attention.biases import ALiBi
from regard.attention.mask import Mask
from regard.attention.masks import BigBird, Causal, Dense, Window

HERE = Path(__file__).parent
WORK, TRIED = Path("runs/long"), Path("runs/long_tiny")
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


# ── error against exact attention


def errors(results: Results, tiny: bool) -> None:
    n = 128 if tiny else 1024
    for data, (q, k, v) in inputs_by_kind(n, tiny):
        squared = (q + k).square().sum(-1).mean().item() / math.sqrt(q.shape[-1])
        for name, settings in SETTINGS.items():
            for setting in settings[:2] if tiny else settings:
                what = {"part": "errors", "attention": name, "setting": setting, "data": data, "n": n}
                if results.find(**what) is not None:
                    continue
                found = [relative_error(name, setting, q, k, v, draw) for draw in range(DRAWS)]
                results.add(**what, error=round(statistics.mean(found), 4), norm=round(squared, 2))


def inputs_by_kind(n: int, tiny: bool) -> Iterator[tuple[str, tuple[Tensor, Tensor, Tensor]]]:
    """Queries, keys and values: random ones of unit variance, the same at the length where ‖x + y‖² is 2, and those of a
    decoder that was trained for a while on Python's standard library."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, n, CHANNELS, generator=random, dtype=torch.float64) for _ in range(3))
    length = math.sqrt(math.sqrt(CHANNELS))  # ‖q·c^(−¼)‖ = 1
    normed = [x / x.norm(dim=-1, keepdim=True) * length for x in (q, k)]
    yield "random", (q, k, v)
    yield "normed", (normed[0], normed[1], v)
    yield "trained", trained_inputs(n, tiny)


def trained_inputs(n: int, tiny: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Of the last layer of a decoder with heads of 64 channels, for a text that it has not seen."""
    from regard import load, record
    from regard.verbs import train

    folder = (TRIED if tiny else WORK) / "trained"
    options = {"model.dim": 256, "model.heads": 4, "model.depth": 2, "data.context": n, "train.batch": 2}
    options["data.tokens"] = "bytes"
    steps = 3 if tiny else 300
    if not (folder / "outcome.json").exists():
        train.train("text", out=folder, steps=steps, options=options, observers=[])
    model = load(folder).double()
    ids = model.tokenizer.encode(Path(__file__).read_text())[:n]
    with torch.no_grad(), record(model) as seen:
        model(torch.tensor([[int(each) for each in ids]]))
    entry = seen[-1]
    return entry.q, entry.k, entry.v


def relative_error(name: str, setting: int, q: Tensor, k: Tensor, v: Tensor, seed: int) -> float:
    """‖approximate − exact‖ / ‖exact‖ of the outputs, over all heads. Not causal, but for the mask that lsh needs."""
    n, c = q.shape[2], q.shape[3]
    torch.manual_seed(seed)
    if name == "lsh":  # it makes its keys of the queries, and sees no token itself
        exact = attend(q, keys_of(q), v, mask=Dense(~torch.eye(n, dtype=torch.bool)))
        found = LSH(c, 16, rounds=setting, seed=seed).double()(q, q, v)
    elif name == "bigbird":
        exact, found = attend(q, k, v), attend(q, k, v, mask=BigBird(random=setting, seed=seed))
    elif name == "performer":
        exact, found = attend(q, k, v), Performer(c, setting, seed=seed).double()(q, k, v)
    else:  # a random projection that keeps products on average; a learned one knows the data
        linformer = Linformer(n, setting).double()
        with torch.no_grad():
            linformer.of_keys.copy_(torch.randn_like(linformer.of_keys) / math.sqrt(setting))
            linformer.of_values.copy_(linformer.of_keys)
            exact, found = attend(q, k, v), linformer(q, k, v)
    return ((found - exact).norm() / exact.norm()).item()


# ── time and memory against length

LENGTHS = tuple(2**i for i in range(9, 18))
LONGEST_EXACT = {"forward": 65_536, "both": 32_768}  # beyond, exact attention takes minutes
PATIENCE = 10.0  # seconds of repeating one measurement


def contestants(n: int, causal: bool) -> dict[str, Attention]:
    mask: Mask | None = Causal() if causal else None
    near = (lambda m: Causal() & m) if causal else (lambda m: m)
    performer, lsh = Performer(CHANNELS, 256), LSH(CHANNELS, 64)
    found: dict[str, Attention] = {
        "exact": lambda q, k, v: attend(q, k, v, mask=mask),
        "window": lambda q, k, v: attend(q, k, v, mask=near(Window(255))),
        "bigbird": lambda q, k, v: attend(q, k, v, mask=near(BigBird())),
        "performer": lambda q, k, v: performer(q, k, v, causal=causal),
        "lsh": lambda q, k, v: lsh(q, q, v, causal=causal),
    }
    if not causal:
        found["linformer"] = Linformer(n, 256)
    if n == 8192:  # measured again: an old figure was disturbed
        alibi = ALiBi(HEADS)
        found["alibi"] = lambda q, k, v: attend(q, k, v, mask=mask, bias=alibi)
    return found


def times(results: Results, tiny: bool, threads: int) -> None:
    """Each in a process of its own, so that memory is its own."""
    for n in LENGTHS[:2] if tiny else LENGTHS:
        for causal in (True, False):
            for name in contestants(n, causal):
                for passes in ("forward", "both"):
                    what = {"part": "time", "attention": name, "n": n, "causal": causal, "passes": passes}
                    what["threads"] = threads
                    too_long = name == "exact" and n > LONGEST_EXACT[passes]
                    if too_long or results.find(**what) is not None:
                        continue
                    asked = [name, str(n), str(int(causal)), passes, str(threads)]
                    command = [sys.executable, __file__, "one", *asked]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    if done.returncode:
                        print(f"failed: {' '.join(asked)}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                        continue
                    results.add(**what, **json.loads(done.stdout))


def measure_one(name: str, n: int, causal: bool, passes: str, threads: int) -> dict[str, float]:
    """Median seconds, and the megabytes at the peak beyond the inputs and what was there."""
    torch.set_num_threads(threads)
    attention = contestants(n, causal)[name]
    grad = passes == "both"
    q, k, v = (torch.randn(1, HEADS, n, CHANNELS).requires_grad_(grad) for _ in range(3))

    def run() -> None:
        if not grad:
            with torch.no_grad():
                attention(q, k, v)
            return
        attention(q, k, v).sum().backward()
        q.grad = k.grad = v.grad = None

    took = []
    began = time.perf_counter()
    run()
    if time.perf_counter() - began > PATIENCE:
        took.append(time.perf_counter() - began)
    while not took or (len(took) < 7 and time.perf_counter() - began < PATIENCE):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    memory = extra_memory(run)
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": round(statistics.median(took), 5), "megabytes": round(memory), "process": round(whole)}


# ── quality at equal time

MODELS: dict[str, dict[str, Any]] = {
    "full": {},
    "window": {"attention": "window", "attention.width": 256},
    "bigbird": {"attention": "bigbird"},
    "performer": {"attention": "performer"},
    "lsh": {"attention": "lsh"},
    "sparsemax": {"weights": "sparsemax"},
    "entmax": {"weights": "entmax"},
}


def quality(results: Results, data: Path, minutes: float, context: int, tiny: bool) -> None:
    """A decoder of bytes, the same but for its attention, for as many minutes each."""
    folder = TRIED if tiny else WORK
    text = data
    if data.suffix == ".xz":
        text = folder / data.stem
        if not text.exists():
            text.write_bytes(lzma.decompress(data.read_bytes())[: 2_000_000 if tiny else None])
    for name, how in MODELS.items():
        what = {"part": "quality", "attention": name, "minutes": minutes, "context": context}
        if results.find(**what) is not None:
            continue
        out = folder / f"{name}_{context}_{minutes:g}"
        options = {"dim": 256, "depth": 4, "heads": 4, "ngrams": 1} | how
        command = [sys.executable, "-m", "regard", "train", "text", "--data", str(text), "--out", str(out)]
        command += ["--data.tokens", "bytes", "--data.context", str(context)]
        command += ["--train.minutes", str(minutes), "--train.batch", str(max(1, 16_384 // context))]
        for key, value in options.items():
            command += [f"--model.{key}", str(value)]
        if out.exists():
            command.append("--resume")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        subprocess.run(command, check=True)
        peak = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if line["event"] == "step"]
        test = next(line for line in reversed(lines) if line["event"] == "test")
        results.add(
            **what,
            bits=round(test["loss"] / math.log(2), 4),
            tokens_a_second=round(sum(step["tokens"] for step in steps) / steps[-1]["seconds"]),
            steps=len(steps),
            megabytes_at_most=round(peak / 1024),  # of this and those before it
        )


def main() -> None:
    if sys.argv[1:2] == ["one"]:  # how `time` asks a process of its own
        name, n, causal, passes, threads = sys.argv[2:]
        print(json.dumps(measure_one(name, int(n), causal == "1", passes, int(threads))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["errors", "time", "quality", "report"])
    parser.add_argument("data", nargs="?", type=Path, help="a text, or an .xz of it, for quality")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    folder = TRIED if given.tiny else WORK
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(folder / "results.jsonl")
    if given.part == "errors":
        errors(results, given.tiny)
    elif given.part == "time":
        times(results, given.tiny, given.threads)
    elif given.part == "quality":
        if given.data is None:
            parser.error("quality needs a text, such as enwik8.xz")
        quality(results, given.data, given.minutes, given.context, given.tiny)
    else:
        report(results, folder if given.tiny else HERE)


if __name__ == "__main__":
    main()

"""What benchmarks/long.py has found: a file that grows line by line, and the tables and plots made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from alternate import keep, table

HEADS, CHANNELS = 8, 64
SETTINGS: dict[str, tuple[int, ...]] = {
    "performer": (16, 64, 256, 1024, 4096),  # features
    "linformer": (16, 64, 256, 512),  # projected length
    "lsh": (1, 2, 4, 8),  # rounds
    "bigbird": (0, 1, 3, 7),  # random blocks
}
OPTION = {
    "performer": "features",
    "linformer": "projected length",
    "lsh": "rounds (buckets of 64, 16 of them)",
    "bigbird": "random blocks of 64",
}
DRAWS = 5


class Results:
    """Lines of a file, each with what was measured and what was found."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = []
        if path.exists():
            self.lines = [json.loads(line) for line in path.read_text().splitlines()]

    def find(self, **what: Any) -> dict[str, Any] | None:
        return next((line for line in self.lines if all(line.get(key) == what[key] for key in what)), None)

    def add(self, **line: Any) -> None:
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
        print(" ".join(f"{key}={value}" for key, value in line.items()), flush=True)

    def of(self, part: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["part"] == part]


def report(results: Results, into: Path) -> None:
    title = "Long contexts"
    text = [f"`python benchmarks/long.py` on torch {torch.__version__}, {HEADS} heads of {CHANNELS} in float32."]
    text += list(error_tables(results)) + list(time_tables(results)) + list(quality_table(results))
    keep(into / "results.md", title, "\n\n".join(text))
    plot(results, into)


def error_tables(results: Results) -> Iterator[str]:
    lines = results.of("errors")
    if not lines:
        return
    kinds = list(dict.fromkeys(line["data"] for line in lines))
    norms = {line["data"]: line["norm"] for line in lines}
    yield (
        f"Error of the output against exact attention, ‖found − exact‖/‖exact‖, {lines[0]['n']:,} tokens, mean of {DRAWS} "
        "draws. Mean ‖x + y‖² with x = q·c^(−¼): "
        + ", ".join(f"{kind} {norms[kind]:g}" for kind in kinds)
        + ". Exact attention of random values nearly cancels them, so errors relative to it are large. Linformer's "
        "projection is random here, not learned."
    )
    rows = []
    for name in SETTINGS:
        for setting in SETTINGS[name]:
            found = [results.find(part="errors", attention=name, setting=setting, data=kind) for kind in kinds]
            if any(found):
                cells = ["" if each is None else f"{each['error']:.3g}" for each in found]
                rows.append([name, f"{setting:,} {OPTION[name]}", *cells])
    yield table(["attention", "setting", *kinds], rows)


def time_tables(results: Results) -> Iterator[str]:
    lines = results.of("time")
    lengths = sorted({line["n"] for line in lines})
    for causal in (True, False):
        for passes, words in (("forward", "forward"), ("both", "forward and backward")):
            chosen = [line for line in lines if line["causal"] is causal and line["passes"] == passes]
            if not chosen:
                continue
            threads = chosen[0]["threads"]
            kind = "causal" if causal else "both directions"
            yield f"Seconds (megabytes beyond the inputs), {kind}, {words}, {threads} thread(s), by length:"
            rows = []
            for name in dict.fromkeys(line["attention"] for line in chosen):
                of = {line["n"]: line for line in chosen if line["attention"] == name}
                cells = [f"{of[n]['seconds']:.3g} ({of[n]['megabytes']:,})" if n in of else "" for n in lengths]
                rows.append([name, *cells, crossing(of, chosen)])
            yield table(["attention", *(f"{n:,}" for n in lengths), "faster than exact from"], rows)


def crossing(of: dict[int, dict[str, Any]], chosen: list[dict[str, Any]]) -> str:
    """The first measured length from which on it is always faster than exact attention."""
    exact = {line["n"]: line["seconds"] for line in chosen if line["attention"] == "exact"}
    shared = sorted(set(exact) & set(of), reverse=True)
    first = None
    for n in shared:
        if of[n]["seconds"] >= exact[n]:
            break
        first = n
    return "" if first is None else f"{first:,}"


def quality_table(results: Results) -> Iterator[str]:
    lines = results.of("quality")
    if not lines:
        return
    yield f"Bytes of enwik8, the same decoder but for its attention, {lines[0]['minutes']:g} minutes each, one seed:"
    rows = [
        [
            line["attention"],
            f"{line['context']:,}",
            f"{line['bits']:.3f}",
            f"{line['tokens_a_second']:,}",
            f"{line['megabytes_at_most']:,}",
        ]
        for line in lines
    ]
    yield table(["attention", "context", "bits a byte (test)", "tokens/s", "megabytes at most"], rows)


def plot(results: Results, into: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = results.of("errors")
    if lines:
        figure, axes = plt.subplots(1, len(SETTINGS), figsize=(13, 3.2), sharey=True)
        for axis, name in zip(axes, SETTINGS, strict=True):
            for kind in dict.fromkeys(line["data"] for line in lines):
                of = [line for line in lines if line["attention"] == name and line["data"] == kind]
                axis.plot([line["setting"] for line in of], [line["error"] for line in of], "o-", label=kind)
            axis.set(title=name, xlabel=OPTION[name].split(" (")[0], yscale="log")
            if name != "bigbird":
                axis.set_xscale("log", base=2)
        axes[0].set_ylabel("relative error")
        axes[0].legend()
        figure.savefig(into / "long_errors.png", dpi=120, bbox_inches="tight")
    lines = [line for line in results.of("time") if line["passes"] == "both"]
    if lines:
        figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
        for axis, causal in zip(axes, (True, False), strict=True):
            chosen = [line for line in lines if line["causal"] is causal]
            for name in dict.fromkeys(line["attention"] for line in chosen):
                of = [line for line in chosen if line["attention"] == name]
                axis.plot([line["n"] for line in of], [line["seconds"] for line in of], "o-", label=name)
            axis.set(xscale="log", yscale="log", xlabel="tokens", title="causal" if causal else "both directions")
        axes[0].set_ylabel("seconds, forward and backward")
        axes[0].legend()
        figure.savefig(into / "long_time.png", dpi=120, bbox_inches="tight")

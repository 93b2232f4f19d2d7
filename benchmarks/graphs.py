"""Graphs beside what others do: accuracy on Cora, speed and memory beside PyTorch Geometric, and a graph of 5 M nodes.

    python benchmarks/graphs.py cora cora.npz              100 seeds of each model, in processes of one thread
    python benchmarks/graphs.py epoch cora.npz             seconds of a training epoch on Cora
    python benchmarks/graphs.py layers                     forward and backward on 200,000 nodes and 2,000,000 edges
    python benchmarks/graphs.py large                      training on 5 M nodes and 50 M edges: memory and speed

Each writes its section of results.md; layers and large do not if they were made smaller by an option.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from alternate import extra_memory, keep, table, take_turns
from memory import watched
from torch import Tensor, nn

from regard.models.graph_net import GraphNet, GraphNetConfig
from regard.nn.graph import Graph
from regard.nn.graph_conv import GAT, GCN, GraphConv
from regard.recipes.graphs.recipe import RECIPE
from regard.recipes.job import DataContext, Job
from regard.recipes.request import TrainRequest

RESULTS = Path(__file__).parent / "results.md"

# ── Cora ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Setting:
    """A model and how it is trained. L2 is on the first layer alone, as in the GCN paper, or on all of them."""

    model: dict[str, Any]
    rate: float = 0.01
    l2: float = 5e-4
    first_only: bool = True
    epochs: int = 200
    patience: int | None = None
    # loss or accuracy of validation chooses the epoch, the other one decides ties; both: see GAT
    judged_by: str = "loss"
    published: str = ""


SETTINGS = {
    "GCN": Setting({"layer": "gcn", "hidden": 16, "dropout": 0.5}, published="81.5"),
    "GAT": Setting(
        {"layer": "gat", "hidden": 64, "heads": 8, "dropout": 0.6, "activation": "elu"},
        rate=0.005,
        first_only=False,
        epochs=1000,
        patience=100,
        judged_by="both",
        published="83.0 ± 0.7",
    ),
    "GraphSAGE, mean": Setting({"layer": "conv", "gather": "mean", "hidden": 64, "dropout": 0.5}, first_only=False),
    "ours: two layers alone, then PageRank": Setting(
        {"layer": "alone", "hidden": 64, "dropout": 0.8, "spread": 10, "stay": 0.1},
        l2=5e-3,
        epochs=400,
        patience=80,
        judged_by="accuracy",
        published="(84, the aim)",
    ),
}


@dataclass(frozen=True, eq=False)
class Whole:
    """One graph as tensors, and the nodes of its splits."""

    x: Tensor
    edges: Tensor
    target: Tensor
    split: dict[str, Tensor]
    outputs: int


def read_whole(path: str) -> Whole:
    """A graph as `regard train graphs` prepares it."""
    request = TrainRequest(recipe=RECIPE, data=path)
    job: Job = RECIPE.prepare(request.settings({}), DataContext(cache=Path("unused"), examples=request.examples))
    source: Any = job.source
    batch = source.batch(0)
    names = ("train", "validation", "test")
    split = {name: torch.from_numpy(source.units(name)) for name in names}
    return Whole(batch["x"], batch["edges"], torch.from_numpy(source.codes), split, job.model.outputs)


def fit(graphs: Whole, setting: Setting, seed: int) -> dict[str, float]:
    """Validation and test accuracy of the epoch that the validation split chooses."""
    torch.manual_seed(seed)
    model = GraphNet(GraphNetConfig(features=graphs.x.shape[1], outputs=graphs.outputs, **setting.model))
    first, rest = (
        list(model.layers[0].parameters()),
        [p for layer in list(model.layers)[1:] for p in layer.parameters()],
    )
    of_rest = 0.0 if setting.first_only else setting.l2
    groups = [{"params": first, "weight_decay": setting.l2}, {"params": rest, "weight_decay": of_rest}]
    optimiser = torch.optim.Adam(groups, lr=setting.rate)
    rows, edges, target = graphs.split, graphs.edges, graphs.target
    best: tuple[float, float] | None = None
    least, most = float("inf"), 0.0
    found, since = {}, 0
    for _ in range(setting.epochs):
        model.train()
        optimiser.zero_grad()
        F.cross_entropy(model(graphs.x, edges)[rows["train"]], target[rows["train"]]).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            out = model(graphs.x, edges)
        right = {name: (out[each].argmax(-1) == target[each]).float().mean().item() for name, each in rows.items()}
        loss, held = (F.cross_entropy(out[rows["validation"]], target[rows["validation"]]).item(), right["validation"])
        since += 1
        # the rule of GAT's authors: both as good as ever to be chosen, either to go on
        if setting.judged_by == "both":
            if loss <= least and held >= most:
                found = right
            if loss <= least or held >= most:
                since, least, most = 0, min(least, loss), max(most, held)
        else:
            figures = (-loss, held) if setting.judged_by == "loss" else (held, -loss)
            if best is None or figures > best:
                best, since, found = figures, 0, right
        if setting.patience is not None and since >= setting.patience:
            break
    return {"validation": found["validation"], "test": found["test"]}


def cora(options: argparse.Namespace) -> None:
    """Every finished run is a line in a file, so that what was cut short goes on where it stopped."""
    torch.set_num_threads(1)
    log = Path(options.log)
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = list({(each["model"], each["seed"]): each for each in lines}.values())
    graphs = read_whole(options.path)
    have = {(each["model"], each["seed"]) for each in done}
    for seed in range(options.seeds):
        for name in SETTINGS:
            if (name, seed) in have:
                continue
            done.append({"model": name, "seed": seed} | fit(graphs, SETTINGS[name], seed))
            with log.open("a") as out:
                out.write(json.dumps(done[-1]) + "\n")
    rows = []
    for name, setting in SETTINGS.items():
        test, held = ([100 * each[which] for each in done if each["model"] == name] for which in ("test", "validation"))
        error = statistics.stdev(test) / len(test) ** 0.5 if len(test) > 1 else float("nan")
        rows.append(
            [
                name,
                f"{statistics.mean(test):.2f} ± {error * len(test) ** 0.5:.2f}",
                f"{error:.2f}",
                setting.published,
                f"{statistics.mean(held):.2f}",
                f"{min(test):.1f} … {max(test):.1f}",
                str(len(test)),
            ]
        )
    heads = ["model", "test accuracy, %", "standard error", "published", "validation", "range", "seeds"]
    text = "\n\n".join(
        [
            f"`python benchmarks/graphs.py cora cora.npz --seeds {options.seeds}`: the public split of Cora (140, 500 and "
            "1,000 "
            "nodes), mean and standard deviation over seeds. GCN and GAT have the settings of their papers, GAT its authors' "
            "rule "
            "of when to stop. The epoch is chosen by the validation split, as are the settings of ours; the test split is "
            "read at "
            "the epoch that was chosen, and decides nothing.",
            table(heads, rows),
        ]
    )
    print(text)
    keep(RESULTS, "Cora", text)


# ── beside PyTorch Geometric ────────────────────────────────────────────────────────────────────────────────


@dataclass
class Contest:
    """The same work by us and by PyTorch Geometric, with plain edges and with a sorted and cached EdgeIndex."""

    work: dict[str, Callable[[], object]] = field(default_factory=dict)

    def row(self, name: str, seconds: float) -> list[str]:
        took = take_turns(self.work, seconds=seconds, least=3)
        ours = took["regard"]
        return [name, f"{1000 * ours:,.1f}", *(f"{took[who] / ours:.2f} ×" for who in list(self.work)[1:])]


PEERS = ("regard", "PyG, plain edges", "PyG, EdgeIndex")


def epoch(options: argparse.Namespace) -> None:
    """A training epoch on Cora, as `cora` trains: forward, backward and a step of Adam."""
    torch.set_num_threads(1)
    graphs = read_whole(options.path)
    edges, rows = graphs.edges, graphs.split["train"]
    dense = graphs.x.to_dense()
    lines = []
    for name in ("GCN", "GAT", "GraphSAGE, mean"):
        contest = Contest()
        setting = SETTINGS[name]
        ours = GraphNet(GraphNetConfig(features=dense.shape[1], outputs=graphs.outputs, **setting.model))
        theirs = Geometric(setting.model, dense.shape[1], graphs.outputs)
        contest.work["regard"] = stepping(ours, lambda m=ours: m(graphs.x, edges)[rows], graphs.target[rows])
        contest.work["regard, dense features"] = stepping(
            ours, lambda m=ours: m(dense, edges)[rows], graphs.target[rows]
        )
        for who, given in (("PyG, plain edges", edges), ("PyG, EdgeIndex", sorted_and_cached(edges, len(dense)))):
            contest.work[who] = stepping(theirs, lambda g=given, m=theirs: m(dense, g)[rows], graphs.target[rows])
        lines.append(contest.row(name, options.seconds))
        print(" | ".join(lines[-1]), flush=True)
    text = "\n\n".join(
        [
            "`python benchmarks/graphs.py epoch cora.npz`: milliseconds of ours, and how many times as long the others take; "
            "one "
            "thread, medians of alternating runs. Features of Cora are mostly zero; ours come as a sparse tensor, those of "
            "PyTorch "
            "Geometric (2.8.1) dense, as its examples have them. Our model with dense features stands beside it.",
            table(["model", "regard, ms", "regard, dense features", *PEERS[1:]], lines),
        ]
    )
    print(text)
    keep(RESULTS, "Epoch on Cora", text)


def stepping(model: nn.Module, forward: Callable[[], Tensor], target: Tensor) -> Callable[[], object]:
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def step() -> None:
        model.train()
        optimiser.zero_grad()
        F.cross_entropy(forward(), target).backward()
        optimiser.step()

    return step


class Geometric(nn.Module):
    """The same network of PyTorch Geometric's layers, as its own examples build it: dropout before both of them."""

    def __init__(self, model: dict[str, Any], features: int, outputs: int) -> None:
        super().__init__()
        from torch_geometric import nn as geometric

        hidden, self.share = model["hidden"], model["dropout"]
        self.act = F.elu if model.get("activation") == "elu" else F.relu
        if model["layer"] == "gat":
            self.first: nn.Module = geometric.GATConv(
                features, hidden // model["heads"], model["heads"], dropout=self.share
            )
            self.second: nn.Module = geometric.GATConv(hidden, outputs, 1, concat=False, dropout=self.share)
        else:
            make: Any = (
                geometric.SAGEConv if model["layer"] == "conv" else lambda a, b: geometric.GCNConv(a, b, cached=True)
            )
            self.first, self.second = make(features, hidden), make(hidden, outputs)

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        h = self.act(self.first(F.dropout(x, self.share, self.training), edges))
        out: Tensor = self.second(F.dropout(h, self.share, self.training), edges)
        return out


def sorted_and_cached(edges: Tensor, count: int) -> Any:
    from torch_geometric import EdgeIndex

    return EdgeIndex(edges, sparse_size=(count, count)).sort_by("col").values.fill_cache_()


NODES, EDGES, WIDTH, HEADS = 200_000, 2_000_000, 64, 8


def layer_work(layer: str, who: str, nodes: int, count: int) -> Callable[[], object]:
    """Forward and backward of one layer, features with gradients."""
    from torch_geometric import nn as geometric

    draw = torch.Generator().manual_seed(0)
    edges = torch.randint(nodes, (2, count), generator=draw)
    x = torch.randn(nodes, WIDTH, generator=draw, requires_grad=True)
    grad = torch.randn(nodes, WIDTH, generator=draw)  # that of what comes after the layer
    torch.manual_seed(0)
    run: Any
    if who == "regard":
        module: nn.Module = {
            "GraphConv": lambda: GraphConv(WIDTH, WIDTH),
            "GCN": lambda: GCN(WIDTH, WIDTH),
            "GAT": lambda: GAT(WIDTH, WIDTH, HEADS),
        }[layer]()
        graph = Graph(edges, nodes)
        run = lambda: module(x, graph)  # noqa: E731
    else:
        module = {
            "GraphConv": lambda: geometric.GraphConv(WIDTH, WIDTH),
            "GCN": lambda: geometric.GCNConv(WIDTH, WIDTH, cached=True),
            "GAT": lambda: geometric.GATConv(WIDTH, WIDTH // HEADS, HEADS),
        }[layer]()
        given = edges if who == "PyG, plain edges" else sorted_and_cached(edges, nodes)
        run = lambda: module(x, given)  # noqa: E731

    def step() -> None:
        x.grad = None
        module.zero_grad()
        run().backward(grad)

    return step


def layers(options: argparse.Namespace) -> None:
    if options.memory:  # in a process of its own, for one of them
        layer, who = options.memory.split("/")
        torch.set_num_threads(1)
        print(extra_memory(layer_work(layer, who, options.nodes, options.edges)))
        return
    torch.set_num_threads(options.threads)
    lines = []
    for layer in ("GraphConv", "GCN", "GAT"):
        contest = Contest({who: layer_work(layer, who, options.nodes, options.edges) for who in PEERS})
        line = contest.row(layer, options.seconds)
        del contest
        megabytes = [float(alone(layer, who, options)) for who in PEERS]
        lines.append([*line, *(f"{each:,.0f}" for each in megabytes)])
        print(" | ".join(lines[-1]), flush=True)
    heads = ["layer", "regard, ms", *PEERS[1:], *(f"{who}, MB" for who in PEERS)]
    text = "\n\n".join(
        [
            f"`python benchmarks/graphs.py layers --threads {options.threads}`: forward and backward, features with gradients, "
            f"{options.nodes:,} nodes, {options.edges:,} edges, width {WIDTH}, {HEADS} heads of GAT; medians of alternating "
            "runs, how many times as long PyTorch Geometric (2.8.1) takes, and what each needs at its peak beyond what it "
            "holds "
            "before (in a process of its own, one thread).",
            table(heads, lines),
        ]
    )
    print(text)
    if (options.nodes, options.edges) == (NODES, EDGES):
        keep(RESULTS, "Graph layers", text)


def alone(layer: str, who: str, options: argparse.Namespace) -> str:
    words = [
        sys.executable,
        __file__,
        "layers",
        "--memory",
        f"{layer}/{who}",
        "--nodes",
        str(options.nodes),
        "--edges",
        str(options.edges),
    ]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-1]


# ── large ───────────────────────────────────────────────────────────────────────────────────────────────────

CLASSES, LARGE_WIDTH, STEPS, LIMIT = 16, 32, 100, 2e9


def make_large(folder: Path, nodes: int, edges: int) -> None:
    """Nodes of 16 classes; most edges stay within a class, and features say little: what is to be learned is in the edges."""
    degree = edges // nodes
    np.save(folder / "starts.npy", np.arange(0, nodes * degree + 1, degree))
    files: dict[str, Any] = {
        "sources": np.lib.format.open_memmap(folder / "sources.npy", "w+", np.int32, (nodes * degree,)),
        "features": np.lib.format.open_memmap(folder / "features.npy", "w+", np.float16, (nodes, LARGE_WIDTH)),
        "labels": np.lib.format.open_memmap(folder / "labels.npy", "w+", np.int8, (nodes,)),
    }
    random = np.random.default_rng(0)
    middles = random.standard_normal((CLASSES, LARGE_WIDTH)).astype(np.float32)
    for start in range(0, nodes, 250_000):
        rows = np.arange(start, min(nodes, start + 250_000))
        near = random.random((len(rows), degree)) < 0.7
        other = random.integers(0, nodes // CLASSES, (len(rows), degree)) * CLASSES
        source = np.where(near, other + rows[:, None] % CLASSES, random.integers(0, nodes, (len(rows), degree)))
        files["sources"][start * degree : (start + len(rows)) * degree] = np.minimum(source, nodes - 1).ravel()
        noise = random.standard_normal((len(rows), LARGE_WIDTH), dtype=np.float32)
        files["features"][rows] = 0.3 * middles[rows % CLASSES] + noise
        files["labels"][rows] = rows % CLASSES
    for each in files.values():
        each.flush()


def large(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        began = time.perf_counter()
        make_large(folder, options.nodes, options.edges)
        size, made = sum(file.stat().st_size for file in folder.iterdir()), time.perf_counter() - began
        words = [
            sys.executable,
            "-m",
            "regard",
            "train",
            "graphs",
            "--data",
            str(folder),
            "--out",
            str(folder / "run"),
            "--train.steps",
            str(options.steps),
        ]
        began = time.perf_counter()
        seen = watched(words, folder / "log", dict(os.environ))
        took = time.perf_counter() - began
        said = (folder / "log").read_text()
        test = next(line for line in said.splitlines() if line.startswith("test"))
    text = "\n\n".join(
        [
            f"`python benchmarks/graphs.py large`: `regard train graphs --data FOLDER --train.steps {options.steps}` on "
            f"{options.nodes:,} nodes with {LARGE_WIDTH} features each and {options.edges:,} edges in {size / 1e9:.1f} GB of "
            "files; batches of 1,024 nodes with ten neighbours each, and ten of each of those. RssAnon of the command, "
            "sampled ten "
            "times a second.",
            table(
                ["peak of RssAnon", "under 2 GB", "seconds of the command", "at the end", "seconds to make the files"],
                [
                    [
                        f"{seen.peak / 1e6:,.0f} MB",
                        "yes" if seen.peak < LIMIT else "no",
                        f"{took:.0f}",
                        test,
                        f"{made:.0f}",
                    ]
                ],
            ),
        ]
    )
    print(text)
    if options.nodes >= 5_000_000:
        keep(RESULTS, "A large graph", text)
    sys.exit(0 if seen.peak < LIMIT else 1)


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, Callable[[argparse.Namespace], None], Any]]:
    made = parser.add_subparsers(required=True)
    for name, run in (("cora", cora), ("epoch", epoch), ("layers", layers), ("large", large)):
        sub = made.add_parser(name)
        sub.set_defaults(run=run)
        yield name, run, sub


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, _, sub in commands(parser):
        if name in ("cora", "epoch"):
            sub.add_argument("path", help="cora.npz")
        if name == "cora":
            sub.add_argument("--seeds", type=int, default=100)
            sub.add_argument("--log", default="cora.jsonl", help="a line for each finished run")
        if name in ("epoch", "layers"):
            sub.add_argument("--seconds", type=float, default=10.0, help="for each row of the table")
        if name in ("layers", "large"):
            sub.add_argument("--nodes", type=int, default=NODES if name == "layers" else 5_000_000)
            sub.add_argument("--edges", type=int, default=EDGES if name == "layers" else 50_000_000)
        if name == "layers":
            sub.add_argument("--threads", type=int, default=1)
            sub.add_argument("--memory", help="LAYER/WHO: only measure memory, and print megabytes")
        if name == "large":
            sub.add_argument("--steps", type=int, default=STEPS)
            sub.add_argument(
                "--folder", help="where the files go for a while; the system's temporary folder if not given"
            )
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

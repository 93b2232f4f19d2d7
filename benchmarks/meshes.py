"""Networks on synthetic surfaces, at equal parameters and equal time: with arrows, without, a PointNet and a graph network.

    python benchmarks/meshes.py                      all four, two seeds, 60 seconds of one processor each: ten minutes
    python benchmarks/meshes.py --seconds 20         shorter; then nothing is written to results.md

Every network sees the same meshes: any size, any turn, any place, noise, 126 to 362 vertices. Two of the seven classes are
mirror images of each other, so that whatever sees lengths and curvatures alone is right at most six times in seven. What is
done is kept in meshes.json beside this file, so that a run that was stopped goes on after the last network that was done;
--again begins anew.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from alternate import keep, table
from torch import Tensor, nn

from regard.data.batch import Batch, generator
from regard.models.graph_net import GraphNet, GraphNetConfig
from regard.models.mesh_net import MeshNet, MeshNetConfig
from regard.models.point_net import PointNet, PointNetConfig
from regard.recipes.example import Example
from regard.recipes.meshes.config import MeshesConfig
from regard.recipes.meshes.made_meshes import MADE, draw_meshes
from regard.recipes.meshes.processor import MeshesProcessor
from regard.symmetry.check import check

HERE = Path(__file__).parent
PARAMETERS = 40_000
BATCH, JUDGED, SEEDS = 16, 512, (0, 1)
RATES = {"PointNet": 1e-3, "graph network": 1e-3}  # the others: 3e-3, with which these learn nothing
CLASSES = MADE["shapes"].families
SCREWS = [k for k, name in enumerate(CLASSES) if "screw" in name]


def scaled(points: Tensor, of: Tensor) -> Tensor:
    """Each mesh about the origin, within a ball.   n 3"""
    count = int(of.max()) + 1
    sizes = torch.bincount(of, minlength=count)[:, None]
    centred = points - (torch.zeros(count, 3).index_add(0, of, points) / sizes)[of]
    most = torch.zeros(count).scatter_reduce(0, of, centred.norm(dim=1), "amax")
    return centred / most[of][:, None]


class OfPoints(nn.Module):
    """A PointNet of the vertices."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.net = PointNet(PointNetConfig(features=3, outputs=len(CLASSES), hidden=hidden, turned=hidden // 2))

    def forward(self, batch: Batch) -> Tensor:
        of = batch["of"]
        assert of is not None
        sizes = torch.bincount(of)
        real = torch.arange(int(sizes.max())) < sizes[:, None]
        x = torch.zeros(*real.shape, 3)
        x[real] = scaled(batch["points"], of)
        out: Tensor = self.net(x, real=real)
        return out


class OfGraph(nn.Module):
    """A graph network of vertices and edges, which knows the places of vertices, and the vector and length of each edge."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.net = GraphNet(
            GraphNetConfig(
                features=3, outputs=len(CLASSES), edge_features=4, hidden=hidden, depth=4, layer="conv", gather="mean",
                norm="layernorm", residual=True, level="graph",
            )
        )  # fmt: skip

    def forward(self, batch: Batch) -> Tensor:
        assert batch["of"] is not None
        points, faces = scaled(batch["points"], batch["of"]), batch["faces"]
        edges = torch.cat(
            [faces[[i, j]] for i, j in ((0, 1), (1, 2), (2, 0))], 1
        )  # of closed surfaces both ways are there
        along = points[edges[0]] - points[edges[1]]
        more = torch.cat((along, along.norm(dim=1, keepdim=True)), 1)
        out: Tensor = self.net(points, edges, of=batch["of"], edge_features=more)
        return out


class OfMesh(nn.Module):
    def __init__(self, hidden: int, orders: int) -> None:
        super().__init__()
        self.net = MeshNet(MeshNetConfig(outputs=len(CLASSES), hidden=hidden, orders=orders))

    def forward(self, batch: Batch) -> Tensor:
        out: Tensor = self.net(batch["points"], batch["faces"], of=batch["of"])
        return out


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "mesh network, scalars and arrows": lambda hidden: OfMesh(hidden, 1),
    "mesh network, scalars only": lambda hidden: OfMesh(hidden, 0),
    "PointNet": OfPoints,
    "graph network": OfGraph,
}


def build(name: str, seed: int) -> nn.Module:
    """The network whose number of parameters is nearest to all others'."""
    with torch.device("meta"):
        sizes = {k: sum(p.numel() for p in NETWORKS[name](k).parameters()) for k in range(8, 129, 2)}
    torch.manual_seed(seed)
    return NETWORKS[name](min(sizes, key=lambda hidden: abs(sizes[hidden] - PARAMETERS)))


def draw(count: int, *numbers: int) -> Batch:
    config = MeshesConfig(task="shapes")
    drawn = draw_meshes(config, count, generator(*numbers))
    processor = MeshesProcessor(config)
    batch = processor.collate([processor.encode(Example({"mesh": mesh})) for mesh, _ in drawn])
    return batch.replace(target=torch.tensor([int(target) for _, target in drawn]))


def train(name: str, seed: int, budget: float) -> dict[str, Any]:
    """Seconds are those of the processor, without those that drawing meshes takes, which is the same for all."""
    model, peak = build(name, seed), RATES.get(name, 3e-3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01)
    step, seconds = 0, 0.0
    while seconds < budget:
        rate = peak * min(1.0, (step + 1) / 20) * max(0.02, 1 - seconds / budget)
        for group in optimiser.param_groups:
            group["lr"] = rate
        batch = draw(BATCH, seed, 1, step)
        began = time.process_time()
        loss = F.cross_entropy(model(batch), batch.target)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        seconds += time.process_time() - began
        step += 1
    model.eval()
    found, true = [], []
    with torch.no_grad():
        for k in range(JUDGED // 32):
            batch = draw(32, 10**6, 2, k)
            found.append(model(batch).argmax(1))
            true.append(batch.target)
    said, target = torch.cat(found), torch.cat(true)
    screws = torch.isin(target, torch.tensor(SCREWS))
    right = said == target
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "accuracy": float(right.float().mean()),
        "screws": float(right[screws].float().mean()),
        "steps": step,
        "milliseconds": 1000 * seconds / step,
        "errors": errors(model),
    }


def errors(model: nn.Module) -> dict[str, float]:
    """How far the laws are from holding for the trained network, in float64."""
    if isinstance(model, OfMesh):
        report = check(model.net, model.net.sample_inputs(), dtype=torch.float64, laws=["gauge", "rotation"])
        return {law: float(report[law].error or 0.0) for law in ("gauge", "rotation")}
    batch = draw(1, 5)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)))[0]
    turn = turn * torch.linalg.det(turn).sign()
    with torch.no_grad():
        turned = Batch({"points": batch["points"] @ turn.T, "faces": batch["faces"], "of": batch["of"]}, batch.target)
        one, two = model(batch), model(turned)
    return {"rotation": float((one - two).abs().max() / one.abs().max())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--again", action="store_true", help="forget what was done")
    options = parser.parse_args()
    place = HERE / "meshes.json"
    done: dict[str, Any] = {}
    if place.exists() and not options.again:
        done = json.loads(place.read_text())
    for name in NETWORKS:
        for seed in SEEDS:
            key = f"{name}, seed {seed}, {options.seconds:g} s"
            if key not in done:
                done[key] = train(name, seed, options.seconds)
                place.write_text(json.dumps(done, indent=1))
            print(key, done[key], flush=True)
    rows = []
    for name in NETWORKS:
        runs = [done[f"{name}, seed {seed}, {options.seconds:g} s"] for seed in SEEDS]
        mean = {
            what: sum(run[what] for run in runs) / len(runs) for what in ("accuracy", "screws", "steps", "milliseconds")
        }
        worst = {law: max(run["errors"][law] for run in runs) for law in runs[0]["errors"]}
        rows.append(
            [
                name,
                f"{runs[0]['parameters']:,}",
                f"{100 * mean['accuracy']:.1f} %",
                f"{100 * mean['screws']:.1f} %",
                f"{mean['steps']:,.0f}",
                f"{mean['milliseconds']:.0f} ms",
                f"{worst['gauge']:.0e}" if "gauge" in worst else "",
                f"{worst['rotation']:.0e}",
            ]
        )
    heads = ["network", "parameters", "accuracy", "left or right screw", "steps", "a step", "gauge", "rotation"]
    text = (
        f"Seven families of surfaces, {options.seconds:g} seconds of one processor for each network, {BATCH} meshes a "
        f"step, {JUDGED} new ones to judge, mean of {len(SEEDS)} seeds. Without a direction screws are told apart in half "
        "of all cases. gauge and rotation: relative errors of the laws, of mesh networks in float64.\n\n"
    ) + table(heads, rows)
    print(text)
    if options.seconds == parser.get_default("seconds"):
        keep(HERE / "results.md", "Meshes", text)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

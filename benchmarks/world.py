"""World models: returns of policies that learned in imagination, errors after k steps, imagined steps a second.

    python benchmarks/world.py [--out FOLDER] [--seeds 5] [--only CartPole] [--small] [--keep]

A policy is judged by 100 fresh episodes, with its likeliest actions; every real step that was learned from is counted,
random ones too. Runs are kept in --out: what is finished is not trained again, and what was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from alternate import keep, table, take_turns

import regard
from regard.models.recurrent import GRUWorld, GRUWorldConfig
from regard.models.world import TransformerWorld, TransformerWorldConfig
from regard.models.world_model import WorldModel
from regard.recipes.world.evaluation import HORIZONS, RIVALS, horizon_errors
from regard.recipes.world.imagination import imagine
from regard.recipes.world.problem import predict_steps
from regard.recipes.world.read_episodes import read_episodes

RESULTS = Path(__file__).parent / "results.md"
CUE, REVEALED, LENGTH = (1.0, 50, 60)  # of the made environment: the cue is seen at step 0 and matters at step 50
SMALL = {"train.first_steps": 1, "train.round_steps": 1, "train.imagined": 32, "train.episodes": 5}


class Contest(NamedTuple):
    """A line of the table of returns."""

    name: str
    data: str
    options: dict[str, Any]
    seeds: int
    reach: str  # the mark to reach, and who set it


POSITIONS = {"data.observed": (0, 2), "data.real_steps": 2000, "data.rounds": 4}
IMAGES = {"data.images": True}
CONTESTS = (
    Contest("CartPole-v1", "gymnasium:CartPole-v1", {}, 5, "475 with 1,500 steps (DQN: 50,000)"),
    Contest("Pendulum-v1", "gymnasium:Pendulum-v1", {}, 3, "−160 with 4,000 steps (TD3: −152 with 20,000)"),
    Contest("CartPole-v1, positions alone", "gymnasium:CartPole-v1", POSITIONS, 3, "475 with 2,000 steps"),
    Contest("CartPole-v1, images", "gymnasium:CartPole-v1", IMAGES, 1, "as seen; 475 with 20,000 steps is the aim"),
    Contest("Acrobot-v1", "gymnasium:Acrobot-v1", {}, 1, "as seen (DQN: −77 with 100,000)"),
    Contest("MountainCarContinuous-v0", "gymnasium:MountainCarContinuous-v0", {}, 1, "as seen"),
)


def check_finished(run: Any) -> None:
    """Leave if a run was stopped before its end: its figures are not those of the table."""
    done = max(event["step"] for event in run.metrics())
    if done < run.config.steps:
        raise SystemExit(f"{run.path} was stopped at step {done} of {run.config.steps}; the same command goes on")


# ── returns


def run_contest(contest: Contest, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Train or go on; the figures of its end."""
    out = asked.out / f"{contest.name}-{seed}".replace(",", "").replace(" ", "-")
    how: dict[str, Any] = {"out": out, "report": False}
    options = contest.options | {"train.seed": seed} | (SMALL if asked.small else {})
    if out.exists():
        run = regard.train("world", resume=True, **how)
    else:
        run = regard.train("world", data=contest.data, options=options, **how)
    check_finished(run)
    test = run.config.test or {}
    seconds = max(event.get("seconds", 0.0) for event in run.metrics())
    return {
        "key": f"return {contest.name} {seed}",
        "name": contest.name,
        "return": test.get("return"),
        "seconds": seconds,
        "real steps": (run.config.data or {})["real_steps"],
    }


def rows_of_returns(done: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for contest in CONTESTS:
        mine = [each for each in done if each["key"].startswith("return ") and each["name"] == contest.name]
        if not mine:
            continue
        returns = ", ".join(f"{each['return']:.1f}" for each in mine)
        seconds = statistics.median(each["seconds"] for each in mine)
        rows.append([contest.name, f"{mine[0]['real steps']:,}", returns, f"{seconds:.0f} s", contest.reach])
    return rows


# ── errors after k steps


def cue_episodes(path: Path, count: int, seed: int) -> None:
    """Episodes in which a cue at step 0 decides what is seen from step 50 on; actions do nothing."""
    random = np.random.default_rng(seed)
    cue = random.choice([-CUE, CUE], count)
    place = np.arange(LENGTH + 1)
    seen = np.zeros((count, LENGTH + 1, 3), dtype=np.float32)
    seen[:, 0, 0] = cue
    seen[:, :, 1] = place / LENGTH
    seen[:, REVEALED:, 2] = cue[:, None]
    last = np.tile(place[:-1] == LENGTH - 1, count)
    np.savez(
        path,
        observations=seen[:, :-1].reshape(-1, 3),
        next_observations=seen[:, 1:].reshape(-1, 3),
        actions=random.integers(2, size=count * LENGTH),
        rewards=seen[:, 1:, 2].reshape(-1),
        truncated=last,
    )


def random_episodes(path: Path, name: str, count: int, seed: int) -> None:
    """Episodes of an environment with actions by chance, each held for four steps, so that it gets somewhere."""
    import gymnasium

    environment = gymnasium.make(name)
    environment.action_space.seed(seed)
    rows: list[tuple[Any, ...]] = []
    for number in range(count):
        seen, _ = environment.reset(seed=seed * 10_000 + number)
        ended, step, action = False, 0, None
        while not ended:
            if step % 4 == 0:
                action = environment.action_space.sample()
            after, reward, terminated, truncated, _ = environment.step(action)
            rows.append((seen, action, reward, after, terminated, truncated))
            seen, ended, step = after, terminated or truncated, step + 1
    environment.close()
    names = ("observations", "actions", "rewards", "next_observations", "terminated", "truncated")
    np.savez(path, **{key: np.array([row[i] for row in rows]) for i, key in enumerate(names)})


class World(NamedTuple):
    """A line of the table of errors: how episodes are made, of which seed 1 is for the test."""

    name: str
    make: Callable[[Path, int], None]
    options: dict[str, Any]


WORLDS = (
    World("CartPole-v1", lambda path, seed: random_episodes(path, "CartPole-v1", 200, seed), {}),
    World("Pendulum-v1", lambda path, seed: random_episodes(path, "Pendulum-v1", 20, seed), {}),
    World("cue", lambda path, seed: cue_episodes(path, 400, seed), {"data.context": 60}),
)


def equal_dim(transformer: int, options: dict[str, Any], observations: int) -> int:
    """The width at which a GRU has as many parameters as a transformer."""
    sizes = {"observations": observations, "actions": 2}

    def count(dim: int) -> int:
        return sum(p.numel() for p in GRUWorld(GRUWorldConfig(dim=dim, **sizes)).parameters())

    wanted = TransformerWorld(TransformerWorldConfig(dim=transformer, **sizes, **options))
    size = sum(p.numel() for p in wanted.parameters())
    return min(range(16, 257, 2), key=lambda dim: abs(count(dim) - size))


def run_world(world: World, model: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Learn recorded episodes without a policy; errors on others."""
    files = [asked.out / f"{world.name}-{seed}.npz" for seed in (0, 1)]
    for seed, file in enumerate(files):
        if not file.exists():
            world.make(file, seed)
    options: dict[str, Any] = world.options | {"train.policy": "none", "train.round_steps": 100}
    if world.name == "cue" and model == "transformer":
        options["model.window"] = LENGTH
    if model == "gru":
        observations = len(read_episodes(str(files[0])).episodes.observations[0])
        options["model.dim"] = equal_dim(64, {}, observations)
    if asked.small:
        options |= SMALL | {"train.world_steps": 2}
    out = asked.out / f"errors-{world.name}-{model}"
    how: dict[str, Any] = {"out": out, "report": False, "model": model}
    if out.exists():
        run = regard.train("world", resume=True, **how)
    else:
        run = regard.train("world", data=str(files[0]), options=options, **how)
    check_finished(run)
    loaded = regard.load(run.path)
    assert isinstance(loaded, WorldModel)
    episodes = read_episodes(str(files[1])).episodes
    rivals = RIVALS if model == "transformer" else RIVALS[:1]
    found: dict[str, Any] = {
        model if rival == "model" else rival: horizon_errors(loaded, episodes, rival=rival) for rival in rivals
    }
    reveal = None
    if world.name == "cue":
        missed = []
        for number in range(20):
            episode = episodes.episode(number)
            out_of_it = predict_steps(loaded, episode)[REVEALED - 1, 2]
            missed.append(out_of_it - episode.following[REVEALED - 1, 2])
        reveal = float(np.sqrt(np.square(missed).mean()))
    size = sum(p.numel() for p in loaded.parameters())
    key = f"errors {world.name} {model}"
    return {"key": key, "name": world.name, "model": model, "errors": found, "reveal": reveal, "size": size}


def rows_of_errors(done: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for each in done:
        if not each["key"].startswith("errors "):
            continue
        for name, errors in each["errors"].items():
            cells = [f"{errors[str(k)]:.3g}" if str(k) in errors else "–" for k in HORIZONS]
            reveal = f"{each['reveal']:.3g}" if each["reveal"] is not None and name == each["model"] else "–"
            size = f"{each['size']:,}" if name == each["model"] else "–"
            rows.append([each["name"], name, size, *cells, reveal])
    return rows


# ── speed


@torch.no_grad()
def measure_speed() -> dict[str, Any]:
    """Imagined steps a second, batch 256, horizon 15, with a cache, and by the whole sequence again for each step."""
    model = TransformerWorld(TransformerWorldConfig(observations=4, actions=2)).eval()
    rows, horizon, past = 256, 15, 7
    steps = model.sample_inputs(tokens=past + 1, rows=rows)["steps"]
    history, first = steps[:, :past], steps[:, past, :4]
    real = torch.ones(rows, past, dtype=torch.bool)

    def act(seen: torch.Tensor, _: int) -> torch.Tensor:
        return model.policy.choose(seen).sample()

    def cached() -> None:
        imagine(model, history, real, first, horizon, act)

    def plain() -> None:
        scaled, x = model.scale_steps(history), model.normalise(first)
        for t in range(horizon):
            scaled = torch.cat((scaled, torch.cat((x, act(x, t)), -1)[:, None]), 1)
            x = model.outlook(scaled)[:, -1].mean(1)[:, :-1]

    times = take_turns({"cache": cached, "plain": plain}, seconds=20.0)
    return {"key": "speed", **{name: rows * horizon / seconds for name, seconds in times.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-world"))
    parser.add_argument("--seeds", type=int, help="seeds of each line; without it 5, 3 or 1")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="work whose name holds this: return, errors, speed, Pendulum")
    parser.add_argument("--small", action="store_true", help="tiny runs, to try this out")
    parser.add_argument("--keep", action="store_true", help="write the tables to results.md")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / "done.jsonl"
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    work: dict[str, Callable[[], dict[str, Any]]] = {}
    for contest in CONTESTS:
        for seed in range(asked.first, asked.first + (asked.seeds or contest.seeds)):
            key = f"return {contest.name} {seed}"
            work[key] = lambda contest=contest, seed=seed: run_contest(contest, seed, asked)
    for world in WORLDS:
        for model in ("transformer", "gru"):
            work[f"errors {world.name} {model}"] = lambda world=world, model=model: run_world(world, model, asked)
    work["speed"] = measure_speed
    for key, run in work.items():
        if asked.only not in key or key in {each["key"] for each in done}:
            continue
        began = time.perf_counter()
        found = json.loads(json.dumps(run()))  # keys as they will be read again
        done.append(found)
        with file.open("a") as log:
            log.write(json.dumps(found, allow_nan=False) + "\n")
        print(f"{key}: {time.perf_counter() - began:.0f} s", flush=True)
    headers = ["environment", "real steps", "mean return of 100 episodes, by seed", "time (median)", "to reach"]
    text = table(headers, rows_of_returns(done))
    headers = ["world", "model", "parameters", *(f"k = {k}" for k in HORIZONS), "at the moment the cue matters"]
    text += "\n\n" + table(headers, rows_of_errors(done))
    for each in done:
        if each["key"] == "speed":
            ratio = each["cache"] / each["plain"]
            text += f"\n\nImagined steps a second: {each['cache']:,.0f} with a cache, {each['plain']:,.0f} without: "
            text += f"{ratio:.1f} ×."
    print(text)
    if asked.keep:
        machine = platform.processor() or platform.machine()
        keep(RESULTS, "Worlds", f"`python benchmarks/world.py` ({machine}, 1 thread)\n\n{text}")


if __name__ == "__main__":
    main()

"""A world model learns a driven pendulum from recorded episodes, then goes on by itself, beside what really came.

    python examples/dream_of_a_pendulum.py [--out FOLDER] [--steps STEPS]

No environment is needed: the episodes are made here, saved as episodes.npz, and read as yours would be. The table shows how
far predictions are off after k steps, in deviations of the data: of the transformer, of the best linear map, and of no change.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import regard

EPISODES, LENGTH = 60, 80
PUSHES = 3  # kinds of actions: left, nothing, right


def make_episodes(seed: int) -> dict[str, np.ndarray]:
    """Angle and speed of a pendulum with friction, pushed at random; each push is held for a while."""
    random = np.random.default_rng(seed)
    angle, speed = random.uniform(-1, 1, EPISODES), random.uniform(-1, 1, EPISODES)
    seen, pushes = [np.stack([angle, speed], 1)], []
    for step in range(LENGTH):
        push = random.integers(PUSHES, size=EPISODES) if step % 5 == 0 else pushes[-1]
        speed = 0.95 * speed + 0.1 * (2 * (push - 1) - 4 * np.sin(angle))
        angle = angle + 0.1 * speed
        pushes.append(push)
        seen.append(np.stack([angle, speed], 1))
    observations = np.stack(seen, 1).astype(np.float32)  # episodes, steps + 1, 2
    last = np.zeros((EPISODES, LENGTH), dtype=bool)
    last[:, -1] = True
    return {
        "observations": observations[:, :-1].reshape(-1, 2),
        "next_observations": observations[:, 1:].reshape(-1, 2),
        "actions": np.stack(pushes, 1).reshape(-1),
        "rewards": np.cos(observations[:, 1:, 0]).reshape(-1),
        "truncated": last.reshape(-1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/pendulum"))
    parser.add_argument("--steps", type=int, default=60, help="each is twelve gradient steps or more")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, seed in (("episodes.npz", 0), ("others.npz", 1)):
        np.savez(asked.out / name, **make_episodes(seed))
    run = regard.train(
        "world",
        data=asked.out / "episodes.npz",
        out=asked.out / "run",
        options={"train.policy": "none", "train.steps": asked.steps, "model.dim": 32},
        observers=[],
        report=False,
    )
    found = regard.evaluate(run.path, asked.out / "others.npz")
    print(f"{'after':>12}" + "".join(f"{k:>9} steps" for k in found.errors["model"]))
    for name, errors in found.errors.items():
        print(f"{name:>12}" + "".join(f"{error:>15.4f}" for error in errors.values()))
    print(f"\nsee it: regard generate {run.path} --out dream.gif")


if __name__ == "__main__":
    main()

"""Small data sets for the golden cases. Each function writes files into a folder, the same on every machine.

They are drawn by `RandomState`, whose numbers NumPy promises never to change.
"""

import csv
import json
from pathlib import Path

import numpy as np
from numpy.random import RandomState
from PIL import Image

SUBJECTS = ("the cat", "a small dog", "the old king", "my friend", "a red fox")
VERBS = ("sees", "follows", "likes", "finds", "hears")
GOOD, BAD = ("lovely", "warm", "bright", "kind"), ("dull", "cold", "grey", "rude")
GERMAN = {
    "the cat": "die katze",
    "a small dog": "ein kleiner hund",
    "the old king": "der alte könig",
    "my friend": "mein freund",
    "a red fox": "ein roter fuchs",
    "sees": "sieht",
    "follows": "folgt",
    "likes": "mag",
    "finds": "findet",
    "hears": "hört",
}


def sentences(count: int, seed: int = 0) -> list[tuple[str, str, str]]:
    """Subject, verb and object."""
    random = RandomState(seed)
    parts = (SUBJECTS, VERBS, SUBJECTS)
    return [tuple(each[random.randint(len(each))] for each in parts) for _ in range(count)]


def write_table(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


# ── texts


def texts(folder: Path) -> None:
    """Plain text, reviews with a class and with a number, conversations, and pairs of sentences."""
    found = sentences(260)
    lines = [" ".join(each) + "." for each in found]
    (folder / "plain.txt").write_text("\n".join(lines[:220]), "utf-8")
    (folder / "other.txt").write_text("\n".join(lines[220:]), "utf-8")
    random = RandomState(1)
    reviews: list[list[object]] = []
    stars: list[list[object]] = []
    for number, sentence in enumerate(lines[:80]):
        words = GOOD if number % 2 else BAD
        text = f"{sentence} {words[random.randint(4)]} and {words[random.randint(4)]}"
        reviews.append([text, "good" if number % 2 else "bad"])
        stars.append([text, round(3 + (number % 2) + random.normal() / 4, 2)])
    write_table(folder / "reviews.csv", ["text", "label"], reviews[:60])
    write_table(folder / "more_reviews.csv", ["text", "label"], reviews[60:])
    write_table(folder / "stars.csv", ["text", "label"], stars[:60])
    chats = [
        {"prompt": f"who {verb} {what}?", "answer": f"{who} {verb} {what}."}
        for who, verb, what in sentences(40, seed=2)
    ]
    (folder / "chats.jsonl").write_text("".join(json.dumps(each) + "\n" for each in chats), "utf-8")
    pairs = ["\t".join((" ".join(each), " ".join(GERMAN[word] for word in each))) for each in found[:90]]
    (folder / "pairs.tsv").write_text("\n".join(["en\tde", *pairs]), "utf-8")


# ── images


def images(folder: Path) -> None:
    """A folder for each class, with one damaged file; a table of paths with a number; arrays."""
    random = RandomState(0)
    label = np.arange(60) % 2
    pixels = random.randint(0, 120, (60, 8, 8)) + 80 * label[:, None, None]
    pixels[:, :, 4:] += (20 * label[:, None, None]).astype(pixels.dtype)
    pixels = pixels.astype(np.uint8)
    np.savez(folder / "arrays.npz", images=pixels, labels=label)
    rows: list[list[object]] = []
    for number, (each, kind) in enumerate(zip(pixels, label, strict=True)):
        place = folder / "photos" / ("light" if kind else "dark")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(each).save(place / f"{number:02}.png")
        rows.append([f"photos/{place.name}/{number:02}.png", round(float(each.mean()) / 255, 4)])
    write_table(folder / "brightness.csv", ["file", "label"], rows)
    (folder / "photos" / "dark" / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing follows")


# ── sets and meshes


def sets(folder: Path) -> None:
    """Tables of sets with a class, with a number and missing cells, with a class for each point; clouds."""
    random = RandomState(0)
    classes: list[list[object]] = []
    numbers: list[list[object]] = []
    points: list[list[object]] = []
    for number in range(50):
        count = random.randint(2, 6)
        size = random.normal(number % 2, 0.5, (count, 2)).round(3)
        for row, (x, y) in enumerate(size.tolist()):
            classes.append([f"s{number}", x, y, "large" if number % 2 else "small"])
            gap = number % 7 == 3 and row == 0
            numbers.append([f"s{number}", "" if gap else x, y, round(float(size.sum()), 3)])
            points.append([f"s{number}", x, y, "above" if y > size[:, 1].mean() else "below"])
    header = ["set", "x", "y", "target"]
    write_table(folder / "classes.csv", header, classes)
    write_table(folder / "numbers.csv", header, numbers)
    write_table(folder / "points.csv", header, points)
    for number in range(20):
        place = folder / "clouds" / ("flat" if number % 2 else "round")
        place.mkdir(parents=True, exist_ok=True)
        cloud = random.normal(size=(300, 3)) * (1, 1, 0.1 if number % 2 else 1)
        np.save(place / f"{number:02}.npy", cloud.astype(np.float32))


def meshes(folder: Path) -> None:
    """Pyramids of two classes as .obj, and with a class for each vertex as .ply."""
    random = RandomState(0)
    faces = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (2, 0, 3))
    for number in range(30):
        height = 2.0 if number % 2 else 0.3
        corners = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0.3, 0.3, height)])
        corners = (corners + random.normal(size=(4, 3)) / 20).round(3)
        place = folder / "pyramids" / ("tall" if number % 2 else "flat")
        place.mkdir(parents=True, exist_ok=True)
        lines = [f"v {x} {y} {z}" for x, y, z in corners.tolist()]
        lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
        (place / f"{number:02}.obj").write_text("\n".join(lines))
        marked = [f"{x} {y} {z} {int(row == 3)}" for row, (x, y, z) in enumerate(corners.tolist())]
        head = (
            "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
            "property int label\nelement face 4\nproperty list uchar int vertex_indices\nend_header"
        )
        (folder / "tips").mkdir(exist_ok=True)
        (folder / "tips" / f"{number:02}.ply").write_text(
            "\n".join([head, *marked, *(f"3 {a} {b} {c}" for a, b, c in faces)]) + "\n"
        )


# ── graphs


def graphs(folder: Path) -> None:
    """One graph with classes of nodes, one with numbers, classes of edges, many graphs, and one to sample from."""
    random = RandomState(0)
    label = np.arange(60) % 3
    features = (random.normal(size=(60, 4)) + label[:, None]).round(4).astype(np.float32)
    edges = np.unique(random.randint(0, 60, (2, 180)), axis=1)
    np.savez(folder / "nodes.npz", edges=edges, x=features, labels=label)
    numbers = (features.sum(1) + random.normal(size=60) / 10).round(3)
    np.savez(folder / "amounts.npz", edges=edges, x=features, labels=numbers)
    linked = folder / "linked"
    linked.mkdir()
    ends = [(i, j) for i in range(24) for j in range(i) if (i + j) % 3]
    write_table(
        linked / "edges.csv",
        ["source", "target", "weight", "label"],
        [[f"n{i}", f"n{j}", round((i - j) / 24, 3), "far" if i - j > 8 else "near"] for i, j in ends],
    )
    write_table(linked / "nodes.csv", ["id", "x"], [[f"n{i}", i / 24] for i in range(24)])
    of = np.repeat(np.arange(40), 4)
    first = 4 * np.arange(40)
    chain = np.concatenate([[first, first + 1], [first + 1, first + 2], [first + 2, first + 3]], 1)
    ring = np.stack([first[::2] + 3, first[::2]])  # of every other graph
    np.savez(
        folder / "rings.npz",
        edges=np.concatenate([chain, ring], 1),
        x=random.normal(size=(160, 2)).round(4).astype(np.float32),
        of=of,
        labels=np.arange(40) % 2,
    )
    large = folder / "large"
    large.mkdir()
    both = np.concatenate([edges, edges[::-1]], 1)
    order = np.argsort(both[1], kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(both[1], minlength=60))])
    arrays = {"starts": starts, "sources": both[0][order], "features": features, "labels": label}
    for name, array in arrays.items():
        np.save(large / f"{name}.npy", array)


# ── series, rows of numbers, episodes


def series(folder: Path) -> None:
    """Hours of two channels, the same with gaps, and series with a class."""
    random = RandomState(0)
    hour = np.arange(240)
    load = np.sin(hour / 24 * 2 * np.pi) + random.normal(size=240) / 10
    wind = np.cos(hour / 12 * 2 * np.pi) + random.normal(size=240) / 10
    rows: list[list[object]] = []
    gaps: list[list[object]] = []
    for number in hour.tolist():
        time = f"2024-01-{1 + number // 24:02}T{number % 24:02}:00"
        values = [round(float(load[number]), 3), round(float(wind[number]), 3)]
        rows.append([time, *values])
        gaps.append([time, "" if number % 17 == 5 else values[0], values[1]])
    write_table(folder / "load.csv", ["time", "load", "wind"], rows)
    write_table(folder / "gaps.csv", ["time", "load", "wind"], gaps)
    label = np.arange(40) % 2
    slow = np.sin(np.arange(20)[None] / (3 + 3 * label[:, None]) + random.uniform(0, 6, (40, 1)))
    waves = (slow + random.normal(size=(40, 20)) / 10).round(3)
    np.savez(folder / "waves.npz", values=waves, labels=np.array(["fast", "slow"])[label])


def rows(folder: Path) -> None:
    """A table of numbers whose columns depend on each other."""
    random = RandomState(0)
    hidden = random.normal(size=(80, 2))
    numbers = (hidden @ random.normal(size=(2, 5)) + random.normal(size=(80, 5)) / 10).round(3)
    write_table(folder / "measured.csv", [*"abcde"], numbers.tolist())


def episodes(folder: Path) -> None:
    """A point that is pushed left or right, until it is too far."""
    random = RandomState(0)
    parts: dict[str, list[object]] = {
        name: [] for name in ("observations", "actions", "rewards", "terminated", "truncated")
    }
    for _ in range(12):
        place, speed = random.normal(size=2) / 10
        for step in range(20):
            action = random.randint(2)
            parts["observations"].append([place, speed])
            speed += 0.1 * (2 * action - 1)
            place += 0.2 * speed
            ends = abs(place) > 1
            parts["actions"].append(action)
            parts["rewards"].append(1.0 - abs(place))
            parts["terminated"].append(ends)
            parts["truncated"].append(step == 19 and not ends)
            if ends:
                break
    np.savez(folder / "episodes.npz", **{name: np.array(each) for name, each in parts.items()})

"""Autoencoders: ELBO and log p(x) of binarised MNIST, the curse of dimensionality, denoising, few labels, speed.

    python benchmarks/autoencoder.py static  --static binarized_mnist.npz [--minutes 3 10]
    python benchmarks/autoencoder.py dynamic --mnist FOLDER [--minutes 40] [--importance 5000]
    python benchmarks/autoencoder.py curse   --mnist FOLDER [--minutes 3]
    python benchmarks/autoencoder.py denoise --mnist FOLDER --cifar FOLDER [--minutes 5]
    python benchmarks/autoencoder.py labels  --mnist FOLDER --cifar FOLDER [--minutes 10]
    python benchmarks/autoencoder.py speed

The file of static has arrays train, valid and test of packed bits (Larochelle's binarisation); FOLDER of --mnist has the four
idx files, that of --cifar train.webp, test.webp and labels.npz. Weights are chosen by validation images; the test images
are looked at once, at the end. Runs are kept in --out: what is finished is not trained again, and what was stopped goes
on. --few takes little data, to try a command out; --keep writes the table to results.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alternate import keep, table
from torch import Tensor, nn

import regard
from regard.data.image_arrays import read_idx_files
from regard.runs.run import Run

HERE = Path(__file__).parent
RESULTS = HERE / "results.md"
NETWORK = {"model.hidden": 512, "model.depth": 2, "model.latent": 128}
MASKED = {"model.body": "vit", "model.noise_kind": "patches", "model.noise": 0.5}
# codes that are maps: nothing asks a denoising one for a small code
MAP = {
    name: {"model.body": "conv", "model.code": "map", "model.depth": 1, "model.width": 64, "model.latent": latent}
    for name, latent in (("mnist", 14 * 14 * 8), ("cifar", 16 * 16 * 16))
}
LATENTS = (2, 4, 8, 16, 32, 64, 128)
LEVELS = (0.1, 0.2, 0.3, 0.5)
LABELS = (100, 1_000)
FEW = 600  # images of a trial
COLOURS = {"autoencoder": "#d55e00", "vae": "#0072b2"}
Row = dict[str, Any]


# ── data


def static_file(asked: argparse.Namespace) -> Path:
    """Static binarised MNIST as images."""
    held = np.load(asked.static)
    names = {"x_train": "train", "x_val": "valid", "x_test": "test"}
    unpacked = {name: np.unpackbits(held[old], axis=1).reshape(-1, 28, 28) for name, old in names.items()}
    return save(asked, "static", unpacked)


def mnist_file(asked: argparse.Namespace) -> Path:
    """MNIST, its last 10,000 training images for validation."""
    return save(asked, "mnist", mnist_arrays(asked))


def mnist_arrays(asked: argparse.Namespace) -> dict[str, Any]:
    found = read_idx_files(sorted(Path(asked.mnist).glob("*idx3-ubyte*")), asked.mnist)
    labels = np.array([int(label) for label in found.labels])
    train, test = (np.flatnonzero(found.splits == split) for split in (0, 2))
    parts = {"train": train[:-10_000], "val": train[-10_000:], "test": test}
    arrays = {f"x_{name}": found.pixels[rows] for name, rows in parts.items()}
    return arrays | {f"y_{name}": labels[rows] for name, rows in parts.items()}


def cifar_arrays(asked: argparse.Namespace) -> dict[str, Any]:
    """CIFAR-10, its last 1,000 training images for validation."""
    from PIL import Image

    def read(name: str) -> Any:
        mosaic = np.asarray(Image.open(Path(asked.cifar) / f"{name}.webp").convert("RGB"))
        return mosaic.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)

    x, labels = read("train"), np.load(Path(asked.cifar) / "labels.npz")
    arrays = {"x_train": x[:-1000], "x_val": x[-1000:], "x_test": read("test")}
    y = labels["train"]
    return arrays | {"y_train": y[:-1000], "y_val": y[-1000:], "y_test": labels["test"]}


DATA: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"mnist": mnist_arrays, "cifar": cifar_arrays}


def save(asked: argparse.Namespace, name: str, arrays: dict[str, Any]) -> Path:
    path = asked.out / f"{name}{'-few' if asked.few else ''}.npz"
    if not path.exists():
        most = FEW if asked.few else None
        np.savez(path, **{key: array[:most] for key, array in arrays.items()})
    return path


# ── runs


def train(asked: argparse.Namespace, name: str, recipe: str, minutes: float, **how: Any) -> Run:
    """A finished run: trained, gone on with, or found."""
    out = asked.out / f"{name}-{minutes:g}"
    if (out / "finished").exists():
        return Run.open(out)
    more: dict[str, Any] = {"out": out, "report": recipe == "autoencoder"}
    if Run.exists(out) and (out / "state" / "latest.json").exists():
        run = regard.train(recipe, resume=True, model=how.get("model"), **more)
    else:
        shutil.rmtree(out, ignore_errors=True)
        run = regard.train(recipe, minutes=minutes, **how, **more)
    (out / "finished").touch()
    return run


class Log:
    """Rows that are measured once, by their names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: dict[str, Row] = {row["name"]: row for row in map(json.loads, lines)}

    def measure(self, name: str, work: Callable[[], Row]) -> Row:
        if name not in self.rows:
            self.rows[name] = {"name": name, **work()}
            with self.path.open("a") as file:
                file.write(json.dumps(self.rows[name]) + "\n")
        return self.rows[name]


def measure_bound(run: Run, importance: int) -> Row:
    found = regard.evaluate(run.path, options={"samples": importance})
    steps = max(event["step"] for event in run.metrics() if event["event"] == "step")
    return {"steps": steps, "elbo": found.measures["elbo"], "log p": found.measures["log p(x)"], "k": importance}


def bound_cells(row: Row) -> list[str]:
    return [f"{row['steps']:,}", f"{row['elbo']:.2f}", f"{row['log p']:.2f} (k = {row['k']:,})"]


# ── the rows of the table


def static(asked: argparse.Namespace, log: Log) -> tuple[str, str]:
    """Static binarisation, two layers of 512, 128 latents."""
    rows = []
    for minutes in asked.minutes or (3.0, 10.0):

        def work(minutes: float = minutes) -> Row:
            run = train(asked, "static", "autoencoder", minutes, data=static_file(asked), options=NETWORK)
            return measure_bound(run, asked.importance or 1_000)

        rows.append([f"{minutes:g}", *bound_cells(log.measure(f"static {minutes:g}", work))])
    rows.append(["published", "65,000", "-103.31", "-97.10"])
    return "static binarised MNIST", table(["minutes", "steps", "test ELBO", "test log p(x)"], rows)


def dynamic(asked: argparse.Namespace, log: Log) -> tuple[str, str]:
    """Dynamic binarisation: the same network, a convolutional one, and importance-weighted bounds."""
    conv = {"model.body": "conv", "model.latent": 64}
    contests = {
        "FC": NETWORK,
        "CNN": conv,
        "FC, samples 5": NETWORK | {"model.samples": 5},
        "CNN, samples 5": conv | {"model.samples": 5},
    }
    rows = []
    for minutes in asked.minutes or (40.0,):
        for name, options in contests.items():

            def work(name: str = name, options: Row = options, minutes: float = minutes) -> Row:
                called = f"dynamic-{name.replace(', ', '-').replace(' ', '')}"
                how = options | {"data.binarise": "dynamic"}
                run = train(asked, called, "autoencoder", minutes, data=mnist_file(asked), options=how)
                return measure_bound(run, asked.importance or 5_000)

            found = log.measure(f"dynamic {name} {minutes:g}", work)
            rows.append([name, f"{minutes:g}", *bound_cells(found)])
    rows.append(["published: FC", "", "", "-90.85", "-86.83 (k = 5,000)"])
    rows.append(["published: CNN", "", "", "-86.47", "-81.02 (k = 5,000)"])
    rows.append(["published: IWAE, k = 50", "", "", "-100.53", "-80.73 (k = 5,000)"])
    heads = ["network", "minutes", "steps", "test ELBO", "test log p(x)"]
    return "dynamically binarised MNIST", table(heads, rows)


def curse(asked: argparse.Namespace, log: Log) -> tuple[str, str]:
    """z + ε of an autoencoder and of a VAE: what a classifier that was trained apart makes of it, and how far it is
    from the nearest training image."""
    data = mnist_file(asked)
    minutes = (asked.minutes or [3.0])[0]
    judge = train(asked, "judge", "images", minutes, data=data, model="lenet")
    for latent in LATENTS:
        for kind in COLOURS:

            def work(kind: str = kind, latent: int = latent) -> Row:
                options = NETWORK | {"model.latent": latent, "model.likelihood": "bernoulli"}
                options |= {"data.binarise": "dynamic"}
                called = f"curse-{kind}-{latent}"
                run = train(asked, called, "autoencoder", minutes, data=data, model=kind, options=options)
                return judge_neighbours(run, judge, data, asked.spread)

            log.measure(f"curse {kind} {latent} {minutes:g} {asked.spread:g}", work)
    rows = []
    for latent in LATENTS:
        cells = [str(latent)]
        for kind in COLOURS:
            row = log.rows[f"curse {kind} {latent} {minutes:g} {asked.spread:g}"]
            cells += [f"{row['accuracy']:.1%}", f"{row['distance']:.2f}"]
        rows.append(cells)
    test = next(row["test distance"] for row in log.rows.values() if "test distance" in row)
    draw_curse(log, minutes, asked.spread, test)
    heads = ["latents", "autoencoder: same class", "distance", "VAE: same class", "distance"]
    said = (
        f"spread {asked.spread:g} deviations of the codes; a test image is {test:.2f} from the nearest training image"
    )
    return "codes moved a little (z + ε)", f"{table(heads, rows)}\n\n{said}; autoencoder_curse.png"


@torch.no_grad()
def judge_neighbours(run: Run, judge: Run, data: Path, spread: float, count: int = 1_000) -> Row:
    held = np.load(data)
    count = min(count, len(held["x_test"]))
    x = torch.from_numpy(held["x_test"][:count]).float()[:, None] / 255
    model: Any = regard.load(run.path)
    known = torch.from_numpy(held["x_train"]).flatten(1).float() / 255
    codes = model.encode(x)[0]
    noise = torch.randn(codes.shape, generator=torch.Generator().manual_seed(0))
    made = model.decode_mean(codes + spread * codes.std(0) * noise)
    predictor: Any = regard.load(judge.path)
    light = (judge.config.processor or {})["fitted"]
    said = predictor((made - light["mean"][0]) / light["deviation"][0]).argmax(-1)
    names = list(judge.config.labels)
    true = torch.tensor([names.index(str(label)) for label in held["y_test"][:count]])
    return {
        "accuracy": float((said == true).float().mean()),
        "distance": nearest(made.flatten(1), known),
        "test distance": nearest(x.flatten(1), known),
    }


def nearest(x: Tensor, known: Tensor) -> float:
    """The mean distance to the nearest of many."""
    return float(torch.cat([torch.cdist(some, known).amin(1) for some in x.split(200)]).mean())


def draw_curse(log: Log, minutes: float, spread: float, test: float) -> None:
    from regard.look import plot

    figure, (left, right) = plot.plotter().subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for kind, colour in COLOURS.items():
        rows = [log.rows[f"curse {kind} {latent} {minutes:g} {spread:g}"] for latent in LATENTS]
        left.plot(LATENTS, [row["accuracy"] for row in rows], "o-", color=colour, label=kind)
        right.plot(LATENTS, [row["distance"] for row in rows], "o-", color=colour, label=kind)
    right.axhline(test, color="grey", linestyle=":", label="test images")
    left.set_ylabel("still the same class")
    right.set_ylabel("distance to the nearest training image")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("numbers of a code")
        axes.legend()
    plot.save(figure, HERE / "autoencoder_curse.png")


def denoise(asked: argparse.Namespace, log: Log) -> tuple[str, str]:
    """PSNR by noise level, beside a median and a Wiener filter."""
    minutes = (asked.minutes or [5.0])[0]
    rows = []
    for name in given(asked):
        data = save(asked, name, DATA[name](asked))
        body = MAP[name]
        for level in LEVELS:

            def work(name: str = name, data: Path = data, level: float = level, body: Row = body) -> Row:
                options = {"model.noise": level, "model.hidden": 64, **body}
                called = f"denoise-{name}-{level:g}"
                run = train(asked, called, "autoencoder", minutes, data=data, model="denoising", options=options)
                return measure_psnr(run, data, level)

            row = log.measure(f"denoise {name} {level:g} {minutes:g}", work)
            cells = [f"{row[key]:.2f}" for key in ("noisy", "median", "wiener", "ours")]
            rows.append([name, f"{level:g}", *cells])
    return "denoising: PSNR in dB", table(["images", "σ", "noisy", "median", "Wiener", "autoencoder"], rows)


@torch.no_grad()
def measure_psnr(run: Run, data: Path, level: float, count: int = 500) -> Row:
    from scipy.ndimage import median_filter
    from scipy.signal import wiener

    held = np.load(data)["x_test"][:count]
    clean = held.reshape(len(held), 28, 28, 1) if held.ndim == 3 else held
    x = torch.from_numpy(np.ascontiguousarray(clean.transpose(0, 3, 1, 2))).float() / 255
    noisy = x + level * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    model: Any = regard.load(run.path)
    planes = noisy.flatten(0, 1).double().numpy()
    filtered = {
        "median": np.stack([median_filter(plane, 3) for plane in planes]),
        "wiener": np.stack([wiener(plane, 3, level**2) for plane in planes]),
    }
    found = {name: psnr(torch.from_numpy(each).view_as(x).float(), x) for name, each in filtered.items()}
    return found | {"noisy": psnr(noisy, x), "ours": psnr(model.reconstruct(noisy), x)}


def psnr(made: Tensor, x: Tensor) -> float:
    """The mean over images, where 1 is white."""
    error = (made.clamp(0, 1) - x).square().flatten(1).mean(1).clamp(min=1e-10)
    return float((-10 * error.log10()).mean())


def labels(asked: argparse.Namespace, log: Log) -> tuple[str, str]:
    """Accuracy with few labels, after masked-patch pretraining and without."""
    minutes = (asked.minutes or [10.0])[0]
    rows = []
    for name in given(asked):
        arrays = DATA[name](asked)
        data = save(asked, name, arrays)

        for count in LABELS:
            few = {key: arrays[key][:count] if key.endswith("train") else arrays[key] for key in arrays}
            part = save(asked, f"{name}-{count}", few)
            for way in ("scratch", "pretrained"):

                def work(way: str = way, part: Path = part, name: str = name, data: Path = data) -> Row:
                    start = None
                    if way == "pretrained":
                        called = f"masked-{name}"
                        how = {"data": data, "model": "denoising", "options": MASKED}
                        start = train(asked, called, "autoencoder", minutes, **how).path
                    called = f"labels-{part.stem}-{way}"
                    run = train(asked, called, "images", minutes / 5, data=part, model="vit", start=start)
                    return {"accuracy": (run.config.test or {})["accuracy"]}

                log.measure(f"labels {name} {count} {way} {minutes:g}", work)
            cells = [log.rows[f"labels {name} {count} {way} {minutes:g}"] for way in ("scratch", "pretrained")]
            rows.append([name, f"{count:,}", *(f"{cell['accuracy']:.1%}" for cell in cells)])
    return "few labels: test accuracy of a ViT", table(["images", "labels", "from scratch", "pretrained"], rows)


def given(asked: argparse.Namespace) -> list[str]:
    return [name for name in DATA if getattr(asked, name) is not None]


def speed(asked: argparse.Namespace, log: Log) -> tuple[str, str]:
    """Images a second: `regard train autoencoder`, and the same network in a plain loop. They take turns."""
    steps, rounds = (20, 1) if asked.few else (300, 5)
    draw = np.random.default_rng(0)
    images = (draw.random((5_000, 28, 28)) < 0.13).astype(np.uint8) * 255
    data = asked.out / "noise.npz"
    np.savez(data, x_train=images, x_val=images[:128])
    found: dict[str, list[float]] = {"regard": [], "plain": [], "plain, bfloat16": []}
    for _ in range(rounds):
        found["regard"].append(time_regard(asked, data, steps))
        found["plain"].append(time_plain(images, steps, half=False))
        found["plain, bfloat16"].append(time_plain(images, steps, half=True))
    middle = {name: float(np.median(each)) for name, each in found.items()}
    rows = [[name, f"{each:,.0f}", f"{middle['regard'] / each:.2f} ×"] for name, each in middle.items()]
    return "training speed", table(["", "images/s", "regard is"], rows)


def time_regard(asked: argparse.Namespace, data: Path, steps: int) -> float:
    out = asked.out / "speed"
    shutil.rmtree(out, ignore_errors=True)
    options = NETWORK | {"train.evaluate_every": steps, "data.test": 0.0}
    run = regard.train("autoencoder", data=data, out=out, steps=steps, options=options, report=False, observers=[])
    events = [event for event in run.metrics() if event["event"] == "step"]
    half = events[len(events) // 2 :]
    batch = (run.config.train or {})["batch"]
    return batch * (half[-1]["step"] - half[0]["step"]) / (half[-1]["seconds"] - half[0]["seconds"])


def time_plain(images: Any, steps: int, *, half: bool, batch: int = 128) -> float:
    """What a tutorial would write: a DataLoader, Adam, the mean of the loss."""
    from torch.nn.functional import binary_cross_entropy_with_logits
    from torch.utils.data import DataLoader, TensorDataset

    encoder = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256))
    decoder = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 784))
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    data = TensorDataset(torch.from_numpy(images).flatten(1).float() / 255)
    done, began = 0, time.perf_counter()
    while done < steps:
        for (x,) in DataLoader(data, batch, shuffle=True, drop_last=True):
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                mean, log_variance = encoder(x).chunk(2, -1)
                z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
                logits = decoder(z)
            kl = 0.5 * (mean.float() ** 2 + log_variance.float().exp() - log_variance.float() - 1).sum()
            loss = (binary_cross_entropy_with_logits(logits.float(), x, reduction="sum") + kl) / len(x)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            float(loss)
            done += 1
            if done == steps // 2:
                began = time.perf_counter()
            if done == steps:
                break
    return batch * (steps - steps // 2) / (time.perf_counter() - began)


WORK = {each.__name__: each for each in (static, dynamic, curse, denoise, labels, speed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=WORK)
    parser.add_argument("--static", help="binarized_mnist.npz")
    parser.add_argument("--mnist", help="the folder with the idx files of MNIST")
    parser.add_argument("--cifar", help="the folder with train.webp, test.webp and labels.npz")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-autoencoder"))
    parser.add_argument("--minutes", type=float, nargs="*", help="of each training")
    parser.add_argument("--importance", type=int, help="samples by which log p(x) is estimated")
    parser.add_argument("--spread", type=float, default=1.0, help="curse: of ε, in deviations of the codes")
    parser.add_argument("--few", action="store_true", help="little data, to try this out")
    parser.add_argument("--keep", action="store_true", help="write the table to results.md")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    log = Log(asked.out / f"done{'-few' if asked.few else ''}.jsonl")
    title, text = WORK[asked.what](asked, log)
    machine = f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{title}\n\n{text}")
    if asked.keep:
        command = f"`python benchmarks/autoencoder.py {asked.what}` ({machine})"
        keep(RESULTS, f"Autoencoders: {title}", f"{command}\n\n{text}")


if __name__ == "__main__":
    main()

"""Small trainings of every kind that several processes can share, without what is drawn by chance and without batch
statistics; and some with both."""

import json

import regard
from tests.recipes import tiny_data

OPTIONS = {
    "train.optimiser": "adamw",
    "train.precision": "float32",
    "train.threads": 1,
    "train.evaluate_every": 3,
    "train.save_every": 2,
    "train.examples": False,
    "train.batch": 7,  # rows that two cannot share evenly
}
CASES = {
    "language": (tiny_data.language, {"model.depth": 2}),
    "recomputed": (tiny_data.language, {"model.depth": 2, "train.recompute": True, "train.average": 0.9}),
    "window": (
        tiny_data.language,
        {"data.context": 512, "model.attention": "window", "model.attention.width": 16, "train.batch": 3},
    ),
    # a loss that counts where the tokens of the whole batch go; padding of texts does not count
    "experts": (tiny_data.language, {"model.mlp": "experts", "model.mlp.balance": 0.5, "train.accumulate": 2}),
    "texts": (tiny_data.texts, {"model.dropout": 0.0}),
    "sets": (tiny_data.set_table, {}),
    "graphs": (tiny_data.graphs, {"model.dropout": 0.0, "model.norm": "layernorm"}),
    "meshes": (tiny_data.meshes, {}),
    "images": (
        tiny_data.images,
        {"model.dim": 8, "model.heads": 1, "model.depth": 1, "train.accumulate": 2, "data.augment.auto_flip": False}
        | {"data.augment.crop": 0.0},
    ),
}
# with dropout, masked tokens, augmentation, batch norm, noise of codes: as good, not the same
CHANCE = {
    "dropout": (tiny_data.language, {"model.dropout": 0.2, "model.depth": 2}),
    "masked": (tiny_data.language, {"model.dropout": 0.1}),
    "norms": (tiny_data.images, {"data.augment.crop": 0.1}),
    "codes": (tiny_data.images, {}),
}
KINDS = {"masked": {"model": "encoder"}, "codes": {"model": "vae"}, "images": {"model": "vit"}}


def write_cases(folder):
    """The data of all cases, written once: processes that wrote the same file at once would read half of it."""
    found = {name: make(folder)[:3] for name, (make, _) in (CASES | CHANCE).items()}
    (folder / "cases.json").write_text(json.dumps(found))


def train_case(name, folder, out, **options):
    """The run of a case, whose data is in the folder."""
    recipe, data, more = json.loads((folder / "cases.json").read_text())[name]
    changes = (CASES | CHANCE)[name][1]
    if name == "codes":
        recipe, more = "autoencoder", {}
    if name == "images":
        more = {}
    if name == "masked":
        more = {key: value for key, value in more.items() if key != "model.ngrams"}
    wanted = {**more, **OPTIONS, **changes, **options}
    steps = wanted.pop("train.steps", 6)
    return regard.train(
        recipe, data=data, out=out, steps=steps, options=wanted, observers=[], report=False, **KINDS.get(name, {})
    )


def train_seeds(name, folder, out):
    """Validation losses at the end of longer trainings, by seed."""
    found = []
    for seed in range(3):
        run = train_case(
            name,
            folder,
            out.with_name(f"{out.name}-{seed}"),
            **{"train.seed": seed, "train.steps": 60, "train.evaluate_every": 60, "train.save_every": 60},
        )
        found += [each["loss"] for each in run.metrics() if each["event"] == "validation"][-1:]
    return found

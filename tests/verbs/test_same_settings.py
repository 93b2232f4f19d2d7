"""A command and the same call from Python have the same settings, for every example of every recipe: at the start, and
when a run goes on, where its own settings stand and only what was typed changes."""

import json
import shlex
import shutil
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

import regard
from regard import registry
from regard.config import to_dict
from regard.recipes.base import get_recipe
from regard.recipes.settings import Settings, apply_settings, kind_of
from regard.runs.new_run import create_run
from regard.runs.run import Run
from regard.runs.run_group import Repeats
from regard.verbs import repeat
from regard.verbs import train as training
from regard.verbs.main import main
from tests.golden import data

EXAMPLES = [
    example.partition("#")[0].strip()
    for name in registry.entries("recipes")
    for example in get_recipe(name).examples
    if example.startswith("regard train")
]
MORE = [
    "regard train graphs --train.steps 20",
    "regard train graphs --train.minutes 0.5",  # as many as the default has where it has minutes
    "regard train graphs --data nodes.npz --model.hidden 128 --train.lr 0.01",
    "regard train series --train.minutes 0.1",
    "regard train series --train.steps 300",
    "regard train world --train.steps 77",
    "regard train world --train.minutes 0.8",
    "regard train world --data.rounds 2",
    "regard train text --data reviews.csv --train.minutes 3",
    "regard train text --data my.txt --from runs/mine --train.minutes 1",
    "regard train sets --train.optimiser adamw",
    "regard train sets --data clouds --train.seeds 3 --model deepsets",
]
NAMES = {"--data": "data", "--model": "model", "--task": "task", "--from": "start", "--out": "out"}


class Seen(Exception):
    """The settings are known; nothing is trained."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small files of the names in the examples."""
    folder = tmp_path_factory.mktemp("examples")
    for make in (data.texts, data.images, data.sets, data.meshes, data.graphs, data.series, data.rows, data.episodes):
        make(folder)
    for old, new in (("plain.txt", "my.txt"), ("measured.csv", "measurements.csv"), ("waves.npz", "gestures.npz")):
        shutil.copy(folder / old, folder / new)
    shutil.copy(folder / "gaps.csv", folder / "sensors.csv")
    (folder / "multi30k").mkdir()
    for place in ("train", "multi30k/train"):
        for language in ("en", "de"):
            (folder / f"{place}.{language}").write_text("\n".join(f"{language} {i}" for i in range(60)))
    tables = {
        "baskets": ["basket,price,total", *(f"{i // 3},{i % 7},{i // 3 % 5}" for i in range(90))],
        "reviews": ["text,label,stars", *(f"film {i},{'ab'[i % 2]},{i % 5}" for i in range(40))],
        "photos": ["path,kind", *(f"photos/{('dark', 'light')[i % 2]}/00.png,{'ab'[i % 2]}" for i in range(30))],
        "faces": ["file,age", *(f"photos/dark/00.png,{20 + i}.5" for i in range(30))],
        "sales": ["shop,day,sold", *(f"{i // 28},2024-01-{i % 28 + 1:02},{i % 9}" for i in range(84))],
        "wells": ["well,time,pressure,depth", *(f"{i // 8},{i % 8},{i % 7},{i // 8}.5" for i in range(240))],
        "papers": ["id,x,field", *(f"p{i},{i / 7},{'ab'[i % 2]}" for i in range(30))],
        "cites": ["source,target", *(f"p{i},p{(i * 7 + 1) % 30}" for i in range(30))],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines))
    (folder / "mnist").mkdir(exist_ok=True)
    for name in ("scans", "parts"):
        for number in range(20):
            path = folder / name / "ab"[number % 2] / f"{number:02}.obj"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n")
    lines = [f"{'ab'[number % 2]}/{number:02}.obj,{number}.5" for number in range(20)]
    (folder / "weights.csv").write_text("\n".join(["file,grams", *lines]))
    pixels = np.zeros((40, 28, 28), dtype=np.uint8)
    for name, array in (("images-idx3", pixels), ("labels-idx1", (np.arange(40) % 10).astype(np.uint8))):
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        (folder / "mnist" / f"train-{name}-ubyte").write_bytes(head + array.tobytes())
    write_molecules(folder / "molecules")
    words = "--model.dim 16 --model.heads 2 --model.depth 1 --train.batch 4 --data.context 16"
    options = asked(shlex.split(words))["options"] | {"data.validation": 0.2}
    regard.train("text", data=str(folder / "my.txt"), out=folder / "runs/mine", steps=1, options=options, report=False)
    return folder


def write_molecules(place):
    """Graphs in a folder, as TU data sets are."""
    place.mkdir()
    count, nodes = 20, 3
    name = place.name
    ends = [(g * nodes + a, g * nodes + b) for g in range(count) for a, b in ((1, 2), (2, 3), (2, 1), (3, 2))]
    (place / f"{name}_A.txt").write_text("\n".join(f"{a}, {b}" for a, b in ends))
    (place / f"{name}_graph_indicator.txt").write_text("\n".join(str(i // nodes + 1) for i in range(count * nodes)))
    (place / f"{name}_graph_labels.txt").write_text("\n".join(str(i % 2) for i in range(count)))


def asked(words):
    """The keywords of `regard.train` for the words of a command."""
    found, options = {}, {}
    while words:
        option, words = words[0], words[1:]
        values = []
        while words and not words[0].startswith("--"):
            values, words = [*values, words[0]], words[1:]
        if option in NAMES:
            found[NAMES[option]] = values[0]
            continue
        values = [json.loads(each) if each[0].isdigit() else each for each in values]
        key = option[2:].replace("-", "_")
        several = key in ("data.observed", "data.columns")
        options[key] = values if several or len(values) > 1 else (values or [True])[0]
    return found | {"options": options}


@pytest.fixture
def settings(monkeypatch, folder):
    """What both ask for: a function that calls, and returns the settings with which a training would begin."""
    monkeypatch.chdir(folder)
    seen = []

    def see(*given, **how):
        seen.extend(each for each in given if isinstance(each, Settings))
        raise Seen

    for name in ("start_run", "start_runs", "resume_run", "resume_runs"):
        monkeypatch.setattr(training, name, see)

    def settings_of(call):
        with pytest.raises(Seen):
            call()
        return seen.pop()

    return settings_of


@pytest.mark.parametrize("example", [*EXAMPLES, *MORE])
def test_a_command_and_python_have_the_same_settings(example, settings, tmp_path, folder):
    words = shlex.split(example.replace("--out runs/mine", "--out runs/other"))[1:]
    how = asked(words[2:])
    typed = settings(lambda: main([*words, "--debug"]))
    assert to_dict(typed) == to_dict(settings(lambda: regard.train(words[1], **how)))
    for key, value in how["options"].items():
        assert reduce(getattr, key.split("."), typed) == (tuple(value) if isinstance(value, list) else value)
    check_resumed(words, how, typed, settings, tmp_path / "run")


def check_resumed(words, how, started, settings, out):
    """A run with these settings, but a model of other sizes than the defaults have, as data decide them."""
    recipe = get_recipe(words[1])
    before = to_dict(started)["model"]
    sizes = [key for key in recipe.data_derived if is_one(before.get(key.removeprefix("model.")))]
    started = apply_settings(started, dict.fromkeys(sizes, 7))
    kind, over = kind_of(recipe.models, started), repeat.repeated_over(started)
    problem = recipe.problem_of(started.data, kind)
    known = {"recipe": recipe.name, "kind": kind, "problem": None if problem is None else problem.name}
    if over is None:
        sections = {**known, "unit": "rows"}
        sections |= {"data": started.data, "model": started.model, "train": started.train}
        if "start" in how:
            sections |= {"from": str(Run.open(how["start"]).path), "imported": None}
        create_run(out, sections)
    else:
        out.mkdir()
        facts = {**known, "from": None, "given": None}
        Repeats.create(out, over, ("1", "2"), facts | {"settings": to_dict(started)})
    again = ["train", recipe.name, "--resume", "--out", str(out), "--debug"]
    plain = settings(lambda: main(again))
    assert to_dict(plain) == to_dict(started)
    wanted = {"train.save_minutes": 3.0} | ({} if started.train.steps is None else {"train.steps": 90})
    typed = settings(lambda: main([*again, *(f"--{key.replace('_', '-')}={each}" for key, each in wanted.items())]))
    called = settings(lambda: regard.train(recipe.name, out=out, resume=True, options=wanted))
    assert to_dict(typed) == to_dict(called)
    own = replace(started.train, **{key.removeprefix("train."): value for key, value in wanted.items()})
    assert to_dict(typed) == to_dict(replace(started, train=own))


def is_one(value):
    return value == 1 and not isinstance(value, bool)


@pytest.mark.parametrize("recipe", registry.entries("recipes"))
def test_minutes_that_are_asked_for_are_the_budget(recipe, settings):
    found = settings(lambda: main(["train", recipe, "--train.minutes", "0.1", "--debug"])).train
    assert (found.minutes, found.steps, found.evaluate_every) == (0.1, None, None)
    found = settings(lambda: main(["train", recipe, "--train.steps", "7", "--debug"])).train
    assert (found.steps, found.evaluate_every) == (7, None)

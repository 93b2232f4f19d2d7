"""What the commands do, as Python functions: train a recipe or any module, predict with a run, check, look."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import config as configs
from regard import drawing, files
from regard.data.batch import Source, TensorSource
from regard.endings import tested, write_confusion
from regard.folders import cache_folder, fresh, latest
from regard.given import Given
from regard.handed import as_files, is_handed
from regard.heap import kept_heap
from regard.jobs.describe import described
from regard.jobs.job import Answer, Job, Note, Reading, work
from regard.known import kind_of
from regard.look import page, plot, report
from regard.look.live import Live
from regard.look.plot import curves
from regard.look.stills import still
from regard.recipes.find import Recipe, family, find_recipe, of_run, with_question
from regard.run import Run, TrainConfig, check_free
from regard.starts import adopt, changed, check_same_data, new_run, started_from
from regard.symmetry import check as measure
from regard.symmetry.report import Report
from regard.training import loop
from regard.training.budget import seconds_of
from regard.training.labels import check_labels
from regard.training.progress import Observer, watch
from regard.training.step import pick_device
from regard.training.task import as_task

# ── train ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def train(
    recipe: str | None = None,
    *,
    data: Any = None,
    model: str | nn.Module | None = None,
    task: Any = None,
    out: str | os.PathLike[str] | None = None,
    start: str | os.PathLike[str] | None = None,
    resume: bool = False,
    minutes: float | None = None,
    steps: int | None = None,
    options: Mapping[str, Any] | None = None,
    note: Note | None = None,
    observers: Sequence[Observer] | None = None,
) -> Run:
    """Train a recipe on your data, or any module of your own; what comes back is the run directory.

        train("text", data="my.txt", out="runs/mine", minutes=2)
        train("text", data="my.txt", options={"model.dim": 256, "train.lr": 0.01})
        train(model=my_module, task="classify", data=(x, y), steps=500)

    data      a path for a recipe; for a module a pair of tensors, a Dataset or a Source
    model     the kind of model of a recipe ("decoder"), or a module
    task      of a module: "classify", "regress", "next token", or a function (model, batch) -> loss
    start     an earlier run to start from (fine-tuning)
    resume    go on with the run in `out`, exactly where it stopped
    options   dotted names of the recipe's settings, or those of TrainConfig for a module
    note      told what is being prepared, and the share that is done
    observers who watches; None: a progress bar on a terminal, lines elsewhere
    """
    budget = {name: value for name, value in (("minutes", minutes), ("steps", steps)) if value is not None}
    watching = [watch()] if observers is None else list(observers)
    if isinstance(model, nn.Module):
        if recipe is not None or start is not None:
            raise ValueError("give a module of your own, or a recipe (with start=), not both")
        return train_module(model, task, data, out, resume, {**budget, **(options or {})}, watching)
    if recipe is None or task is not None:
        raise ValueError("name a recipe such as 'text', or give a module as model= with its task=")
    settings = {**(options or {}), **{f"train.{name}": value for name, value in budget.items()}}
    if (
        not resume
        and not {"train.steps", "train.minutes"} & set(settings)
        and os.environ.get("REGARD_BUDGET")
    ):
        settings["train.minutes"] = seconds_of(os.environ["REGARD_BUDGET"]) / 60
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    given = data if path is None else None  # an object: only some recipes take one, and say so
    if resume:
        family(recipe)  # or say which there are
        run = Run.open(latest(recipe) if out is None else out)
        asked = changed(of_run(run), settings | ({} if path is None else {"data.path": path}))
        before = {"model": run.config["kind"], "from": run.config.get("from")}
        for name, now in (("model", model), ("from", start)):
            if now is not None and os.fspath(now) != before[name]:
                raise ValueError(
                    f"{run.path} was started with another --{name}: {before[name] or 'none'}, not {now}; leave it out"
                )
        if (was := run.config.get("given")) != (None if given is None else type(given).__name__):
            raise ValueError(
                f"{run.path} was started with data={was or 'a path'}; give the same again to go on"
            )
        for section, but in (("data", ()), ("model", ()), ("train", loop.MAY_CHANGE)):
            run.agree(section, getattr(asked, section), but=but)
        origin = run.config.get("from")
        job = prepared(recipe, asked, Reading(cache=cache_folder(), note=note, old=run, given=given))
        check_same_data(run, job.about)
        if origin is not None and not (run.state / "latest.json").exists():
            adopt(job.model, Run.open(origin))
        beginning: AbstractContextManager[Run] = nullcontext(run)
    else:
        place = fresh(recipe) if out is None else out
        check_free(place)  # before any work on data
        asked = with_question(
            find_recipe(recipe, data if path is None else path, model, settings), settings, given
        )
        old = None if start is None else Run.open(start)
        asked = changed(asked if old is None else started_from(old, recipe, asked, settings), settings)
        origin = None if start is None else os.fspath(start)
        job = prepared(recipe, asked, Reading(cache=cache_folder(), note=note, old=old, given=given))
        if old is not None:
            adopt(job.model, old)
        more = {"from": origin, "given": None if given is None else type(given).__name__}
        beginning = new_run(
            place,
            {
                "recipe": recipe,
                "kind": job.kind,
                "model": job.model.config,
                "data": asked.data,
                "train": asked.train,
            }
            | {"corpus": job.about, "unit": job.unit}
            | {name: value for name, value in more.items() if value is not None},
        )
    how: dict[str, Any] = {"resume": resume, "observers": watching, "sample": job.sample, "notes": job.notes}
    with beginning as run:
        job.keep(run)
        for observer in watching:
            if (heard := getattr(observer, "described", None)) is not None:
                heard(described(job))
        ended = loop.fit(run, job.model, job.task, job.source, asked.train, **how)
    if job.test is not None and ended.reason != "stopped":
        tested(run, job, watching, ended.step)
    curves(run)
    write_confusion(run, job)
    write_laws(run)
    write_report(run)
    return run


def prepared(name: str, recipe: Recipe, reading: Reading) -> Job:
    """A recipe with its data read. What is random in it follows from the seed."""
    pick_device(recipe.train.device)  # an error before long work, not after
    torch.manual_seed(recipe.train.seed)
    return work(name).prepared(recipe, reading)


def train_module(
    model: nn.Module,
    task: Any,
    data: Any,
    out: Any,
    resume: bool,
    options: Mapping[str, Any],
    observers: Sequence[Observer],
) -> Run:
    config = configs.from_dict(
        TrainConfig, {name.removeprefix("train."): value for name, value in options.items()}
    )
    if task is None or data is None:
        raise ValueError(
            "a module needs a task ('classify', 'regress', 'next token' or a function) and data to learn from"
        )
    source = data if isinstance(data, Source) else TensorSource(data, batch=config.batch, seed=config.seed)
    wanted = as_task(task)
    check_labels(model, wanted, source, data)
    beginning: AbstractContextManager[Run]
    if resume:
        beginning = nullcontext(Run.open(latest(None) if out is None else out))
    else:
        kind = kind_of(model)
        about: dict[str, Any] = {"kind": kind, "module": type(model).__qualname__, "train": config}
        about |= {"model": model.config} if kind is not None else {}
        beginning = new_run(fresh("module") if out is None else out, about)
    with beginning as run:
        loop.fit(run, model, wanted, source, config, resume=resume, observers=observers)
    curves(run)
    report.of_module(run, model)
    return run


# ── predict ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def predict(
    path: str | os.PathLike[str],
    given: Any,
    *,
    out: str | os.PathLike[str] | None = None,
) -> list[Answer]:
    """What a run says of each input, one or several: texts for a classifier of texts, files for other kinds of data.

    What cannot be read has an `error` in place of an answer. Of pictures a folder or a pattern stands for all in it, and those
    in memory are taken, too: of pillow's, or arrays of bytes, h w or h w c.

    out  of pictures: draw where the model looked, all on one sheet (.png, .svg, .pdf), or a file for each in a folder
    """
    return list(answers(path, given, out=out))


def answers(
    path: str | os.PathLike[str], given: Any, *, out: str | os.PathLike[str] | None = None
) -> Iterator[Answer]:
    """The same, each as soon as it is known. A sheet is drawn after the last."""
    run = Run.open(path)
    if run.config.get("recipe") is None:
        raise ValueError(
            f"{run.path} was not made by a recipe, so regard does not know how its inputs are read"
        )
    job = work(run.config["recipe"])
    several = (
        [given] if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, Sequence) else given
    )
    handed = run.config["recipe"] == "images" and bool(several) and all(map(is_handed, several))
    memory: AbstractContextManager[dict[str, str]] = as_files(several) if handed else nullcontext({})
    with memory as called, kept_heap():
        inputs = list(called) if handed else job.inputs(words_of(several, run))
        if out is not None:
            drawing.check_out(run, inputs, out)
        found = job.predict(run, inputs)
        for answer in found if out is None else drawing.draw(run, inputs, found, out):
            yield called_again(answer, called)


def called_again(answer: Answer, called: Mapping[str, str]) -> Answer:
    """With what a picture from memory is called, in place of the file that it was for a while."""
    name = called.get(answer.given)
    if name is None:
        return answer
    error = None if answer.error is None else answer.error.replace(answer.given, name)
    return replace(answer, given=name, error=error)


def words_of(several: Sequence[Any], run: Run) -> list[str]:
    """Inputs as a command line would have them."""
    for each in several:
        if not isinstance(each, str | os.PathLike):
            also = ", pillow's pictures or arrays of bytes" if run.config["recipe"] == "images" else ""
            raise ValueError(
                f"predict takes texts, or paths of files{also}, got {type(each).__name__}; for inputs of your own "
                f"call the model itself: regard.load({str(run.path)!r})"
            )
    return [os.fspath(each) for each in several]


# ── check ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def check(model: Any, inputs: Any = None, **how: Any) -> Report:
    """Does a model keep the laws that it promises? Of a module with inputs, or of a target by its name.

        assert check(model, x, laws=["permutation", "causality"]).ok
        check("runs/mine")                                # or a Hugging Face directory, or "package.module:function"

    how: symmetry, laws, roles, seed, trials, dtype (see regard.symmetry.check); device for a target.
    """
    if not isinstance(model, str | os.PathLike):
        if inputs is None:
            raise ValueError(
                "check needs inputs beside the model: a tensor, a tuple, or a dict by the names of its forward"
            )
        return measure.check(model, inputs, **how)
    if inputs is not None:
        raise ValueError("a target brings its own inputs; to check a module on yours, give the module itself")
    from regard.targets import open_target  # knows foreign libraries, which nothing else needs

    target = open_target(model, seed=how.get("seed", 0))
    device = how.pop("device", None)
    given = target.inputs
    if device is not None:
        target.model.to(device)
        given = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in given.items()}
    known = {"symmetry": target.symmetry, "roles": target.roles, "name": target.name}
    found = measure.check(
        target.model, given, **{**{key: value for key, value in known.items() if value is not None}, **how}
    )
    return replace(found, notes=target.notes)


def write_laws(run: Run) -> None:
    """laws.json of a finished run: what it promises, measured. A run is not lost over it."""
    try:
        found = check(run.path).to_json()  # as `regard check` measures it, so that both say the same
    except (ImportError, ValueError, OSError, RuntimeError) as error:
        found = {"ok": None, "laws": [], "error": " ".join(str(error).split())}
    files.write_json(run.path / "laws.json", found)


# ── look ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def look(
    target: str | os.PathLike[str],
    given: str | None = None,
    *,
    answer: str | None = None,
    out: str | os.PathLike[str],
    laws: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """What a model attends to, as a file: .html is a whole page, .png, .svg and .pdf are a still of all layers and heads.

        look("runs/mine", "Once upon a time", out="page.html")
        look("path/to/huggingface-vit", "cat.png", out="heads.svg")

    given   a text, the path of a file (text, image, points, graph), or the name of a node or set; None: an example
    answer  what the decoder of an encoder-decoder has written; None: what it writes itself
    laws    measure the laws of a model that is no run, too, which takes a while
    tell    told what a reader should know of the model: that its weights are random
    """
    suffix = Path(out).suffix.lower()
    if suffix not in (".html", *plot.SUFFIXES):
        raise ValueError(f"--out must end in .html, {', '.join(plot.SUFFIXES)}, got {os.fspath(out)!r}")
    live = living(target, given, answer=answer, laws=laws, tell=tell)
    data = live.show({}) | {"live": None}
    if suffix == ".html":
        return page.write(data, out)
    return plot.save(still(live.latest(), title=str(data["title"])), out)


def living(
    target: str | os.PathLike[str],
    given: str | None = None,
    *,
    answer: str | None = None,
    laws: bool = False,
    tsne: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Live:
    """A target that can be looked at again and again; what is not asked for otherwise is this input."""
    from regard.targets import open_target  # knows foreign libraries, which nothing else needs

    opened = open_target(target)
    if answer is not None and not opened.reader.takes_target:
        raise ValueError(f"{opened.name} is no encoder-decoder, so it takes no --target")
    if tell is not None:
        for note in opened.notes:
            tell(note)

    def read(other: str | bytes | None, written: str | None) -> Given:
        if other is None:
            found = opened.reader.read(given, answer if written is None else written)
        else:
            found = opened.reader.read(other, written)
        return replace(found, notes=(*opened.notes, *found.notes))

    laws_found = laws_of(opened.run) if opened.run is not None else check(target).to_json() if laws else None
    how: dict[str, Any] = {
        "kind": opened.reader.kind,
        "takes_target": opened.reader.takes_target,
        "tsne": tsne,
    }
    return Live(opened.model, read, opened.name, run=opened.run, report=laws_found, **how)


def laws_of(run: Run) -> dict[str, Any] | None:
    path = run.path / "laws.json"
    return dict(files.read_json(path)) if path.exists() else None


def write_report(run: Run) -> None:
    """report.html of a finished run. A run is not lost over it: what went wrong is in its place."""
    try:
        data = living(run.path, tsne=False).show({}) | {"live": None}
        page.write(data, run.path / report.FILE)
    except (ImportError, ValueError, OSError, RuntimeError) as error:
        report.instead(run, " ".join(str(error).split()))

"""What the commands of a golden case give, as plain data; how two such records are compared; and how they are written:

    python -m tests.golden.record            # all cases
    python -m tests.golden.record sets-table  # one of them

A record changes only with the reason in the message of its commit.
"""

import contextlib
import csv
import io
import json
import math
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image

from regard.attention.kernels.precision import CPU_MULTIPLIES
from regard.runs.run import Run
from regard.runs.run_group import Repeats
from regard.verbs.look import open_session
from regard.verbs.main import main
from tests.golden.cases import CASES, Case

FOUND = Path(__file__).parent / "found"
CAPTIONS = ("name", "sentence", "said", "note", "answer", "reason", "verdict")  # words of a view, by their keys
STEPS = 10  # losses of so many steps
ROWS = 8  # of a table, a row of weights, a list of labels
SECONDS = re.compile(r"\b\d[\d.,:]*\s?(seconds?|minutes?|s|ms)\b|[\d,.]+ \w+/s|\d:\d\d\b")
NUMBER = re.compile(r"[-−]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
# how far numbers may be off, because rounding differs between processors; that of trained weights grows
LOSS, OTHER = 1e-4, 5e-3


# ── what a command gives


def run_case(case: Case, folder: Path) -> dict[str, Any]:
    """Run all commands of a case in an empty folder; command -> what it gave."""
    before = os.environ.get("REGARD_CACHE")
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    # Muon rounds its products to bfloat16 on processors that have units for it
    with contextlib.chdir(folder), patch.dict(CPU_MULTIPLIES, {torch.bfloat16: False}):
        try:
            case.data(folder)
            found = {command: run_command(shlex.split(command)) for command in (*case.commands, *case.errors)}
        finally:
            del os.environ["REGARD_CACHE"]
            if before is not None:
                os.environ["REGARD_CACHE"] = before
    for command, each in found.items():
        assert ("error" in each) == (command in case.errors), f"{command}: {each.get('error', 'should fail')}"
    return found


def run_command(words: list[str]) -> dict[str, Any]:
    """`look` stands for a session, which shows what a page is made of; all others are commands as they are typed."""
    if words[0] == "look":
        return look(words[1], words[3] if len(words) > 2 else None)
    printed, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        code = main(words)
    if code == 2:
        return {"error": told.getvalue().strip()}
    if words[0] == "train":
        return {"code": code, **training(Path(value_of("--out", words)))}
    found: dict[str, Any] = {"code": code, "printed": as_data(printed.getvalue(), json_asked="--json" in words)}
    if words[0] == "compare":
        for run in found["printed"]["runs"]:
            del run["validation"]  # points in time
    if words[0] == "check":
        for law in found["printed"]["laws"]:
            del law["worst"], law["error"]  # rounding
    for option in ("--out", "--codes", "--embeddings"):
        place = value_of(option, words)
        if place and words[0] in ("predict", "generate"):
            found[place] = read_file(Path(place))
    return found


def value_of(option: str, words: list[str]) -> str:
    return words[words.index(option) + 1] if option in words else ""


def training(path: Path) -> dict[str, Any]:
    if Repeats.exists(path):
        repeats = Repeats.open(path)
        each = {name: losses_of(Run.open(path / name)) for name in repeats.names}
        return {"runs": each, "said": repeats.say(), "test": without_seconds(repeats.facts.get("test"))}
    return losses_of(Run.open(path))


def losses_of(run: Run) -> dict[str, Any]:
    """The first losses, and every evaluation."""
    events = run.metrics()
    steps = [event for event in events if event["event"] == "step"][:STEPS]
    others = [event for event in events if event["event"] != "step"]
    found = {"losses": [event["loss"] for event in steps], "evaluations": [without_seconds(event) for event in others]}
    laws = run.read("laws.json")
    if laws is not None:
        found["laws"] = [[law[name] for name in ("law", "declared", "measured", "layer")] for law in laws["laws"]]
    return found


def look(target: str, given: str | None) -> dict[str, Any]:
    """What was recorded, and the words of the page, without its payload."""
    session = open_session(target, given, tsne=False)
    data = session.show({})
    views = {view["view"]: view for view in data["views"]}
    found: dict[str, Any] = {"views": list(views), "notes": data["notes"]}
    found["attention"] = [entry_of(entry) for entry in session.latest().seen]
    found["streams"] = [[stream["name"], list(stream["labels"][:ROWS])] for stream in data["streams"]]
    outcome = views.get("outcome")
    if outcome is not None:
        found["outcome"] = {name: outcome[name] for name in ("sentence", "figures", "advice", "next")}
        found["outcome"]["examples"] = [
            [each[part] for part in ("name", "truth", "predicted", "said")]
            for each in (outcome["examples"] or {"items": []})["items"][:ROWS]
        ]
    if "classes" in views:
        found["classes"] = {part: views["classes"].get(part) for part in ("likely", "note")}
    found["captions"] = {name: list(dict.fromkeys(captions(view))) for name, view in views.items() if name not in found}
    return plain(found)


def captions(part: Any) -> Iterator[str]:
    """The words that stand beside what a view draws, in their order."""
    if isinstance(part, list | tuple):
        for each in part:
            yield from captions(each)
    if isinstance(part, dict):
        for name, each in part.items():
            if name in CAPTIONS and isinstance(each, str):
                yield each
            else:
                yield from captions(each)


def entry_of(entry: Any) -> dict[str, Any]:
    """One attention: what it is called, its shape, the proof, and the last weights of its first head."""
    about = {"name": entry.name, "kind": entry.kind, "shape": list(entry.shape), "proved": entry.proved}
    if entry.reason or entry.note or entry.implied:
        about["said"] = entry.reason or entry.note or entry.implied
    if entry.proved:
        weights = entry.weights[0] if entry.weights.ndim == 2 else entry.weights[0, 0, -1]
        about["weights"] = weights[:ROWS].double().tolist()
    return about


# ── files and words as data


def read_file(path: Path) -> Any:
    """The first rows of a table, the first numbers of arrays, an image in sixteen fields."""
    if path.is_dir():
        return sorted(each.name for each in path.iterdir())
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        return {"rows": len(rows), "first": rows[: ROWS + 1]}
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: array_of(arrays[name]) for name in arrays.files}
    if path.suffix in (".png", ".gif"):
        with Image.open(path) as image:
            small = image.convert("L").resize((4, 4), Image.Resampling.BOX)
            greys = [f"{grey:.2f}" for grey in (np.asarray(small) / 255).ravel()]
            return {"size": list(image.size), "greys": " ".join(greys)}
    return path.read_text("utf-8").splitlines()[:ROWS]


def array_of(array: np.ndarray) -> dict[str, Any]:
    return {"shape": list(array.shape), "first": array.ravel()[:ROWS].tolist()}


def as_data(text: str, *, json_asked: bool) -> Any:
    """JSON, one value or one in each line, or lines without times."""
    if not json_asked:
        return without_seconds([line.rstrip() for line in text.splitlines()])
    try:
        return plain(json.loads(text))
    except json.JSONDecodeError:
        return plain([json.loads(line) for line in text.splitlines()][:ROWS])


def without_seconds(found: Any) -> Any:
    """Without what differs from run to run: seconds, speeds."""
    if isinstance(found, str):
        return SECONDS.sub("TIME", found)
    if isinstance(found, Mapping):
        return {name: without_seconds(each) for name, each in found.items() if name != "seconds"}
    if isinstance(found, list | tuple):
        return [without_seconds(each) for each in found]
    return found


def plain(found: Any) -> Any:
    """As it comes back from a file; long lists only begin."""
    found = without_seconds(found)
    if isinstance(found, dict):
        return {str(name): plain(each) for name, each in found.items()}
    if isinstance(found, list):
        return [plain(each) for each in found[: 3 * ROWS]]
    return found


# ── comparing


def differences(was: Any, now: Any, place: str = "") -> Iterator[str]:
    """Where two records differ, one line each. Numbers may be off by rounding, those inside of texts too."""
    here = place or "the record"
    if isinstance(was, dict) and isinstance(now, dict):
        for name in (*was, *(each for each in now if each not in was)):
            if name not in now or name not in was:
                yield f"{here}: {name!r} is {'gone' if name in was else 'new'}"
            else:
                yield from differences(was[name], now[name], f"{place} › {name}" if place else name)
    elif isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            yield f"{here}: there were {len(was)} and are {len(now)}"
        for number, (left, right) in enumerate(zip(was, now, strict=False)):
            yield from differences(left, right, f"{place}[{number}]")
    elif is_number(was) and is_number(now):
        if not is_close(was, now, LOSS if "losses" in place else OTHER):
            yield f"{here}: was {was} and is {now}"
    elif isinstance(was, str) and isinstance(now, str):
        if NUMBER.sub("#", was) != NUMBER.sub("#", now) or not all(
            close_words(*pair) for pair in zip(NUMBER.findall(was), NUMBER.findall(now), strict=True)
        ):
            yield f"{here}: was {was!r} and is {now!r}"
    elif type(was) is not type(now) or was != now:
        yield f"{here}: was {was!r} and is {now!r}"


def is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def is_close(was: float, now: float, tolerance: float) -> bool:
    return math.isclose(was, now, rel_tol=tolerance, abs_tol=tolerance)


def close_words(was: str, now: str) -> bool:
    """Two numbers as they are written: whole ones are equal, others differ by one in the last place at most."""
    left, right = (each.replace(",", "").replace("−", "-") for each in (was, now))
    if left == right:
        return True
    if "." not in left or "." not in right:
        return False
    digits = min(len(each.partition("e")[0].partition(".")[2]) for each in (left, right))
    return is_close(float(left), float(right), max(OTHER, 1.01 * 10.0**-digits))


# ── writing


def write(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = run_case(CASES[name], Path(folder))
    FOUND.mkdir(exist_ok=True)
    (FOUND / f"{name}.json").write_text(as_text(found), "utf-8")


def as_text(found: Any) -> str:
    """JSON with rounded numbers; what fits on a line is on one."""
    return _lines(_rounded(found), "") + "\n"


def _rounded(found: Any) -> Any:
    if isinstance(found, float):
        return float(f"{found:.6g}")
    if isinstance(found, dict):
        return {name: _rounded(each) for name, each in found.items()}
    if isinstance(found, list | tuple):
        return [_rounded(each) for each in found]
    return found


def _lines(found: Any, indent: str) -> str:
    short = json.dumps(found, ensure_ascii=False, allow_nan=False)
    if not isinstance(found, dict | list) or len(indent) + len(short) <= 110:
        return short
    inner = indent + " "
    if isinstance(found, dict):
        parts = [f"{json.dumps(name, ensure_ascii=False)}: {_lines(each, inner)}" for name, each in found.items()]
    else:
        parts = [_lines(each, inner) for each in found]
    begin, end = "{}" if isinstance(found, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in sys.argv[1:] or CASES:
        print(each, flush=True)
        write(each)

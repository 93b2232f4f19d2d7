"""`regard train ... --train.processes 2`: real processes, of which one is killed."""

import json
import os
import socket
import subprocess
import sys

import pytest

from regard.errors import RegardError
from regard.machine import cores
from regard.verbs.launch import MOST_PER_CORE, wanted_processes

OPTIONS = [
    *("train", "text", "--data", "text.txt", "--no-report", "--train.processes", "2", "--train.steps", "12"),
    *("--train.save_every", "4", "--train.evaluate_every", "6", "--train.batch", "4", "--model.dim", "16"),
    *("--model.heads", "2", "--model.depth", "1", "--model.dropout", "0.1", "--data.context", "16"),
]
# Every Python process reads this module first. The first time, rank 1 kills itself once there is a checkpoint.
KILLER = """
import os, threading, time

def wait(place):
    while not os.path.exists(place):
        time.sleep(0.001)
    os.kill(os.getpid(), 9)

if os.environ.get("RANK") == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and "DIE_AFTER" in os.environ:
    threading.Thread(target=wait, args=(os.environ["DIE_AFTER"],), daemon=True).start()
"""


def start(folder, words, **about):
    path = os.pathsep.join([str(folder / "first"), os.getcwd()])
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | about,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("launch")
    (made / "text.txt").write_text("".join(chr(97 + i * i % 23) for i in range(3000)))
    (made / "first").mkdir()
    (made / "first/sitecustomize.py").write_text(KILLER)
    return made


@pytest.fixture(scope="module")
def said(folder):
    """What a run of two processes says, and one of whose processes is killed. MASTER_PORT is of another program: it is
    for processes that somebody else starts."""
    found = {}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for name, about in (
            ("whole", {"MASTER_PORT": port}),
            ("killed", {"DIE_AFTER": str(folder / "killed/state/latest.json")}),
        ):
            process = start(folder, [*OPTIONS, "--out", name], **about)
            found[name] = (*process.communicate(timeout=120), process.returncode)
    return found


def steps(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(each["step"], each["loss"]) for each in lines if each["event"] == "step"]


def test_one_of_several_processes_speaks(said):
    out, errors, code = said["whole"]
    assert code == 0, errors
    assert out.count("12 steps in") == 1
    assert "Traceback" not in errors


def test_a_killed_process_is_started_again_to_the_same_bits(said, folder):
    _, errors, code = said["killed"]
    assert code == 0, errors
    assert "rank 1" in errors
    assert "starts all processes again" in errors
    assert "Traceback" not in errors
    assert [step for step, _ in steps(folder / "killed")] == list(range(1, 13))  # none lost, none twice
    assert steps(folder / "killed") == steps(folder / "whole")
    weights = [(folder / name / "model.safetensors").read_bytes() for name in ("killed", "whole")]
    assert weights[0] == weights[1]


def test_an_error_before_they_meet_is_told_once(folder):
    process = start(folder, ["train", "text", "--data", "none.txt", "--train.processes", "2"])
    _, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert error.count("none.txt") == 1 and "Traceback" not in error


def test_resuming_asks_for_the_processes_of_the_start(said, folder):
    run = str(folder / "whole")
    assert wanted_processes([], resume=True, out=run, recipe="text") == 2
    assert wanted_processes(["--train.processes", "4"], resume=True, out=run, recipe="text") == 4
    assert wanted_processes([], resume=False, out=run, recipe="text") == 1


@pytest.mark.parametrize("words, count", [(["--train.processes=3"], 3), (["--train.processes", "None"], 1), ([], 1)])
def test_how_many_processes_are_wanted(words, count):
    assert wanted_processes(words, resume=False, out=None, recipe="text") == count


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", ""])
def test_a_number_of_processes_that_is_none(given):
    with pytest.raises(RegardError, match=r"train\.processes.*whole number above 0"):
        wanted_processes(["--train.processes", given], resume=False, out=None, recipe="text")


def test_too_many_processes_are_told_in_a_line(folder):
    many = str(MOST_PER_CORE * cores() + 1)
    process = start(folder, ["train", "text", "--data", "text.txt", "--train.processes", many])
    error = process.communicate(timeout=120)[1]
    assert process.returncode == 2
    assert many in error and "too many" in error
    assert len(error.strip().splitlines()) == 1

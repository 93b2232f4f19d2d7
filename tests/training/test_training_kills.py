"""Killed at any moment, stopped, resumed: the losses are those of a run that never stopped, bit for bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the driver saw: one process for all tests, because importing torch takes longer than training."""
    folder = tmp_path_factory.mktemp("kills")
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.driver", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_step_is_there_once(seen):
    assert seen["whole"]["codes"] == [0]
    assert [step for step, _ in seen["whole"]["losses"]] == list(range(1, 25))
    assert [step for step, _ in seen["whole"]["evaluations"]] == [8, 16, 24]


@pytest.mark.parametrize("what", ["losses", "evaluations", "model", "step", "folders"])
def test_kills_change_nothing(seen, what):
    """Killed as config.json, the checkpoint and the published model were written, between steps and after an evaluation."""
    assert seen["killed"]["codes"] == [-9] * 9 + [0]
    assert seen["killed"][what] == seen["whole"][what]


def test_ctrl_c_saves_and_stops(seen):
    stopped = seen["stopped"]
    assert stopped["step"] == len(stopped["losses"]) < 24
    assert stopped["losses"] == seen["whole"]["losses"][: stopped["step"]]
    assert stopped["model"]  # nothing was judged yet, so the last weights are published


@pytest.mark.parametrize("what", ["losses", "evaluations", "model", "step"])
def test_stops_change_nothing(seen, what):
    """Stopped by SIGINT, resumed and stopped by SIGTERM, resumed: each ended cleanly."""
    assert seen["resumed"]["codes"] == [0, 0, 0]
    assert seen["resumed"][what] == seen["whole"][what]


@pytest.mark.parametrize("how", ["hung up", "closed"])
def test_a_terminal_that_is_closed_saves_as_ctrl_c_does(seen, how):
    """Also when the training prints to that terminal at every step."""
    stopped, resumed = seen[how], seen[f"{how} and resumed"]
    assert resumed["codes"] == [0, 0]
    assert 0 < stopped["step"] == len(stopped["losses"]) < 24 and stopped["model"]
    assert stopped["losses"] == seen["whole"]["losses"][: stopped["step"]]
    for what in ("losses", "evaluations", "model", "step"):
        assert resumed[what] == seen["whole"][what]


def test_nohup_goes_on(seen):
    assert seen["nohup"]["codes"] == [0]
    assert seen["nohup"]["losses"] == seen["whole"]["losses"] and seen["nohup"]["step"] == 24


def test_a_second_ctrl_c_stops_at_once(seen):
    assert seen["twice"]["codes"] == [130]

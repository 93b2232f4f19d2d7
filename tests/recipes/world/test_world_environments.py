"""Environments in processes of their own: what goes wrong is named, and nothing is left behind."""

import os
from pathlib import Path

import numpy as np
import pytest

from regard.errors import RegardError
from regard.recipes.world import environments as module
from regard.recipes.world.act import act_episodes, act_steps, random_actions
from regard.recipes.world.environments import check_trusted, open_environments

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def path(monkeypatch):
    """The process finds the environments beside this file."""
    monkeypatch.syspath_prepend(HERE)


def odd(kind):
    return f"odd_environments:Odd{kind}-v0"


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "kind, words",
    [
        ("Raises", "fell over"),
        ("Exits", "code 7"),
        ("Nan", "NaN or infinite"),
        ("Hangs", "0.5 seconds"),
        ("Huge", r"observation with -1e\+300"),
        ("Rich", r"reward with 1e\+30"),
        ("Longer", "3 numbers, and its observation_space says 2"),
    ],
)
def test_what_goes_wrong_is_named_in_one_line(kind, words):
    seconds = 0.5 if kind == "Hangs" else 20.0
    pids = []

    def act():
        with open_environments(odd(kind), 1, seconds=seconds) as environments:
            pids.append(environments.processes[0].process.pid)
            act_steps(environments, random_actions(environments, 0, 0), 10, 1, 0, 0)

    with pytest.raises(RegardError, match=words) as error:
        act()
    assert f"Odd{kind}-v0" in str(error.value) and "\n" not in str(error.value)
    assert not is_running(pids[0])


@pytest.mark.parametrize("kind, words", [("Picture", "4, 4, 3"), ("Endless", "limits")])
def test_spaces_that_cannot_be_learned_are_named(kind, words):
    with pytest.raises(RegardError, match=words), open_environments(odd(kind), 1):
        pass


def test_steps_and_episodes_are_as_many_as_asked_for():
    with open_environments(odd("Fine"), 3, processes=2) as environments:
        act = random_actions(environments, 0, 0)
        episodes = act_steps(environments, act, 29, 1, seed=0, round=0)
        whole = act_episodes(environments, act, 5, 1, seed=0, longest=6)
        pids = [each.process.pid for each in environments.processes]
    assert len(episodes) == 29 and episodes.lengths.sum() == 29 and episodes.lengths.max() == 8
    assert not episodes.terminated.any() and episodes.last.sum() == len(episodes.starts)
    np.testing.assert_allclose(episodes.observations[episodes.starts, 0], 0)
    inside = np.flatnonzero(~episodes.last)
    np.testing.assert_array_equal(episodes.following[inside], episodes.observations[inside + 1])
    assert whole.lengths.tolist() == [6] * 5
    assert not any(map(is_running, pids))


def test_processes_end_when_the_program_is_interrupted():
    pids = []

    def interrupt():
        with open_environments(odd("Fine"), 1) as environments:
            pids.append(environments.processes[0].process.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert not is_running(pids[0])


def test_a_module_that_only_a_file_names_is_not_imported():
    check_trusted("CartPole-v1", None)
    check_trusted(None, None)
    check_trusted(odd("Fine"), f"gymnasium:{odd('Fine')}")
    for given in (None, "CartPole-v1"):
        with pytest.raises(RegardError, match="--environment odd_environments:OddFine-v0"):
            check_trusted(odd("Fine"), given)


def test_without_gymnasium_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RegardError, match=r"regard\[world\]"), open_environments("CartPole-v1", 1):
        pass

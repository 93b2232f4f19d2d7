"""Environments in processes of their own: what goes wrong is named, and nothing is left behind."""

import os
from pathlib import Path

import numpy as np
import pytest

from regard.errors import RegardError
from regard.recipes.world import environments as module
from regard.recipes.world.act import Actor, random_actions
from regard.recipes.world.config import WorldDataConfig
from regard.recipes.world.environments import check_trusted, open_environments

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def path(monkeypatch):
    """The process finds the environments beside this file."""
    monkeypatch.syspath_prepend(HERE)


def odd(kind):
    return f"odd_environments:Odd{kind}-v0"


def open_odd(kind, count=1, **data):
    return open_environments(WorldDataConfig(path=f"gymnasium:{odd(kind)}", **data), count)


def actor_in(environments):
    return Actor(environments, random_actions(environments.spaces, 0), lambda seen: seen, 1)


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
        ("Wordy", "float: 'left'"),
        ("Vague", "real number, not"),
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
        with open_odd(kind, timeout=seconds) as environments:
            pids.append(environments.processes[0].process.pid)
            actor_in(environments).act_steps(10, 0, 0)

    with pytest.raises(RegardError, match=words) as error:
        act()
    assert f"Odd{kind}-v0" in str(error.value) and "\n" not in str(error.value)
    assert not is_running(pids[0])


@pytest.mark.parametrize("kind, words", [("Picture", "4, 4, 3"), ("Endless", "limits"), ("Unlit", "limits")])
def test_spaces_that_cannot_be_learned_are_named(kind, words):
    with pytest.raises(RegardError, match=words), open_odd(kind):
        pass


@pytest.mark.parametrize("kind, colours", [("Film", 3), ("Grey", 1)])
def test_images_of_an_environment_become_squares_of_bytes(kind, colours):
    """A film of bytes h w c, and a grey one h w of floats from −1 to 1: both get brighter from left to right."""
    with open_odd(kind, side=8, code=4) as environments:
        spaces = environments.spaces
        seen = environments.reset({0: 0})[0]
    assert spaces.image == (8, 8, colours) and spaces.observations == 4
    assert seen.shape == (8, 8, colours) and seen.dtype == np.uint8
    assert (np.diff(seen[0, :, 0].astype(int)) > 0).all() and (seen == seen[:1]).all()
    assert seen.min() < 30 and seen.max() > 225


def test_images_have_no_observed_numbers():
    with pytest.raises(RegardError, match=r"data\.observed"), open_odd("Film", observed=(0,)):
        pass


def test_steps_and_episodes_are_as_many_as_asked_for():
    with open_odd("Fine", 3, processes=2) as environments:
        actor = actor_in(environments)
        episodes = actor.act_steps(29, seed=0, round=0)
        whole = actor.act_episodes(5, seed=0, longest=6)
        pids = [each.process.pid for each in environments.processes]
    assert len(episodes) == 29 and episodes.lengths.sum() == 29 and episodes.lengths.max() == 8
    assert not episodes.terminated.any() and episodes.last.sum() == len(episodes.starts)
    np.testing.assert_allclose(episodes.observations[episodes.starts, 0], 0)
    inside = np.flatnonzero(~episodes.last)
    np.testing.assert_array_equal(episodes.following[inside], episodes.observations[inside + 1])
    for each in (episodes, whole):  # no reset is told as a step
        np.testing.assert_allclose(each.following[:, 0] - each.observations[:, 0], 0.1, atol=1e-6)
    assert whole.lengths.tolist() == [6] * 5
    assert not any(map(is_running, pids))


def test_processes_end_when_the_program_is_interrupted():
    pids = []

    def interrupt():
        with open_odd("Fine") as environments:
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
    with pytest.raises(RegardError, match=r"regard\[world\]"), open_environments(WorldDataConfig(), 1):
        pass

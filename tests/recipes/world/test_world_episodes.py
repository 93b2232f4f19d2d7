"""Recorded episodes: what is read, what is refused, and how steps become batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.recipes.world.dyna_loop import PredictNext
from regard.recipes.world.episodes import Episodes, write_episodes
from regard.recipes.world.read_episodes import find_files, read_episodes
from regard.recipes.world.replay_buffer import EpisodeSource, ReplayBuffer
from regard.recipes.world.spaces import Spaces
from tests.recipes.world.worlds import small_world

LENGTHS = (4, 7, 1, 8)


def parts(continuous=False, following=True):
    """Four episodes of observations that count."""
    count = sum(LENGTHS)
    last = np.zeros(count, dtype=bool)
    last[np.cumsum(LENGTHS) - 1] = True
    seen = np.stack([np.arange(count), -np.arange(count)], 1).astype(np.float32)
    actions = np.arange(count) % 3
    if continuous:
        actions = np.linspace(-2, 2, count)
    found = {
        "observations": seen,
        "actions": actions,
        "rewards": np.ones(count),
        "terminated": last & (np.arange(count) < 12),
        "truncated": last & (np.arange(count) >= 12),
    }
    if following:
        found["next_observations"] = seen + 1
    return found


def saved(folder, name="episodes.npz", **found):
    np.savez(folder / name, **found)
    return str(folder / name)


def test_all_parts_are_read(tmp_path):
    found = read_episodes(saved(tmp_path, **parts()))
    episodes = found.episodes
    assert episodes.lengths.tolist() == list(LENGTHS)
    assert found.spaces == Spaces(observations=2, actions=3, discrete=True)
    np.testing.assert_array_equal(episodes.actions.argmax(1), parts()["actions"])
    np.testing.assert_array_equal(episodes.following, episodes.observations + 1)
    assert episodes.terminated.sum() == 3 and episodes.last.sum() == 4
    assert found.notes == ()


def test_continuous_actions_go_from_minus_one_to_one_and_back(tmp_path):
    found = read_episodes(saved(tmp_path, **parts(continuous=True)))
    assert found.spaces.low == (-2.0,) and not found.spaces.discrete
    assert found.episodes.actions.min() == -1 and found.episodes.actions.max() == 1
    back = found.spaces.decode(found.episodes.actions)[:, 0]
    np.testing.assert_allclose(back, parts(continuous=True)["actions"], atol=1e-6)


def test_without_what_follows_the_last_row_is_what_follows(tmp_path):
    found = read_episodes(saved(tmp_path, **parts(following=False)))
    assert found.episodes.lengths.tolist() == [3, 6, 7]  # the episode of one step is gone
    np.testing.assert_array_equal(found.episodes.following, found.episodes.observations + np.array([1, -1]))
    assert found.episodes.terminated[[2, 8, 15]].tolist() == [True, True, False]
    assert "next_observations" in found.notes[0]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_says_the_same(tmp_path, suffix):
    arrays = parts()
    names = ["observation_0", "observation_1", "action", "reward", "terminated", "truncated"]
    values = [*arrays["observations"].T.tolist(), arrays["actions"].tolist(), arrays["rewards"].tolist()]
    values += [arrays["terminated"].tolist(), arrays["truncated"].tolist()]
    path = tmp_path / f"episodes.{suffix}"
    if suffix == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(dict(zip(names, values, strict=True))), path)
    elif suffix == "csv":
        rows = [",".join(map(str, row)) for row in zip(*values, strict=True)]
        path.write_text("\n".join([",".join(names), *rows]))
    else:
        import json

        rows = [json.dumps(dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]
        path.write_text("\n".join(rows))
    found = read_episodes(str(path))
    same = read_episodes(saved(tmp_path, **parts(following=False)))
    np.testing.assert_array_equal(found.episodes.steps, same.episodes.steps)
    np.testing.assert_array_equal(found.episodes.terminated, same.episodes.terminated)


def test_a_folder_is_all_its_files_in_order(tmp_path):
    one = saved(tmp_path, "b.npz", **parts())
    two = saved(tmp_path, "a.npz", **parts())
    (tmp_path / "notes.txt").write_text("not episodes")
    assert find_files(str(tmp_path)) == [two, one]
    assert len(read_episodes(str(tmp_path)).episodes.starts) == 8


def changed(**values):
    found = parts() | values
    return {name: value for name, value in found.items() if value is not None}


COUNT = sum(LENGTHS)
BAD = {
    "unequal lengths": (changed(rewards=np.ones(3)), "rewards 3"),
    "nan": (changed(rewards=np.full(COUNT, np.nan)), "rewards of step 0 holds NaN"),
    "huge": (changed(observations=np.full((COUNT, 2), 1e300)), r"observations of step 0 holds 1e\+300"),
    "huge later": (
        changed(next_observations=np.diag([0.0] * 9 + [-1e30] + [0.0] * 10)[:, [3, 9]]),
        "next_observations of step 9",
    ),
    "huge actions": (changed(actions=np.full(COUNT, 2e15)), r"actions of step 0 holds 2e\+15"),
    "no ends": (changed(terminated=None, truncated=None), "where episodes end"),
    "no actions": (changed(actions=None), "has no actions"),
    "images": (changed(observations=np.zeros((COUNT, 4, 4, 3))), r"\(20, 4, 4, 3\)"),
    "words": (changed(actions=np.array(["left"] * COUNT)), "actions must be numbers"),
    "negative kinds": (changed(actions=-np.arange(COUNT)), "-19 to 0"),
    "other following": (changed(next_observations=np.zeros((COUNT, 3))), r"\(20, 3\)"),
    "rewards of two": (changed(rewards=np.ones((COUNT, 2))), r"\(20, 2\)"),
    "nothing": ({name: value[:0] for name, value in parts().items()}, "no steps"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_episodes_get_one_clear_line(tmp_path, name):
    arrays, words = BAD[name]
    with pytest.raises(RegardError, match=words) as error:
        read_episodes(saved(tmp_path, **arrays))
    assert "episodes.npz" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "spaces, words",
    [
        (Spaces(observations=2, actions=2, discrete=True), "action 2 of step 2 is unknown; the kinds are 0 to 1"),
        (Spaces(observations=3, actions=3, discrete=True), "must have 3 numbers"),
        (Spaces(observations=2, actions=2, discrete=False, low=(0, 0), high=(1, 1)), "must have 2 numbers, got 1"),
        (Spaces(observations=1, actions=3, discrete=True, observed=(5,)), "numbers 5"),
    ],
)
def test_episodes_of_another_world_are_refused(tmp_path, spaces, words):
    with pytest.raises(RegardError, match=words):
        read_episodes(saved(tmp_path, **parts()), spaces)


def test_what_is_written_is_read_again(tmp_path):
    first = read_episodes(saved(tmp_path, **parts(continuous=True)))
    path = tmp_path / "again.npz"
    write_episodes(path, first.episodes, first.spaces)
    again = read_episodes(str(path), first.spaces).episodes
    for name in ("observations", "rewards", "following", "terminated", "last"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first.episodes, name))
    np.testing.assert_allclose(again.actions, first.episodes.actions, atol=1e-6)


def test_what_a_run_saw_of_an_observation_is_not_cut_twice(tmp_path):
    spaces = Spaces(observations=2, actions=3, discrete=True, observed=(1, 0))
    first = read_episodes(saved(tmp_path, **parts()), spaces)
    np.testing.assert_array_equal(first.episodes.observations[:, 0], parts()["observations"][:, 1])
    path = tmp_path / "again.npz"
    write_episodes(path, first.episodes, spaces)
    again = read_episodes(str(path), spaces).episodes
    np.testing.assert_array_equal(again.observations, first.episodes.observations)
    np.testing.assert_array_equal(again.following, first.episodes.following)


# ── batches


@pytest.fixture
def episodes(tmp_path) -> Episodes:
    return read_episodes(saved(tmp_path, **parts())).episodes


def test_a_chunk_ends_with_its_episode(episodes):
    batch = episodes.chunk(np.array([0, 2, 11]), 3)
    assert batch["real"].tolist() == [[True] * 3, [True, True, False], [True, False, False]]
    np.testing.assert_array_equal(batch["steps"][0, :, 0], [0, 1, 2])
    np.testing.assert_array_equal(batch.target[0, :, 0], [1, 2, 3])
    assert batch.target[1, 1, -1] == 1 and batch.target[0, :, -1].sum() == 0


def test_padding_counts_for_nothing_beside_a_number_that_is_always_large(episodes):
    """The square of its distance from 0, in units of what is left of it, is infinite in float32."""
    far = replace(episodes, observations=episodes.observations.copy(), following=episodes.following.copy())
    far.observations[:, 0] = far.following[:, 0] = 1e12
    steps, following, rewards = map(torch.from_numpy, (far.steps, far.following, far.rewards))
    model = small_world(observations=2, actions=3)
    model.fit_linear(steps, following, rewards)
    padded = far.chunk(np.array([0, 2]), 4)
    assert not padded["real"].all()
    task = PredictNext()
    assert np.isfinite(task.measure(model, [padded])["loss"])
    loss, _ = task.loss(model, padded)
    loss.backward()
    assert all(each.grad.isfinite().all() for each in model.parameters() if each.grad is not None)


def test_history_begins_with_its_episode(episodes):
    steps, real = episodes.history(np.array([0, 6]), 3)
    assert real.tolist() == [[False] * 3, [False, True, True]]
    np.testing.assert_array_equal(steps[1, 1:, 0], [4, 5])


def test_a_quarter_of_a_batch_is_around_ends_and_none_is_held_out(episodes):
    store = ReplayBuffer(Spaces(observations=2, actions=3, discrete=True), 0.5, episodes)
    held = set(store.held_rows.tolist())
    assert held == {*range(4, 11), *range(12, 20)}  # the second and the fourth episode
    source = EpisodeSource(store, rows=8, length=3, seed=0)
    for number in range(5):
        batch = source.batch(number)
        assert batch.target[:2, :, -1].sum(1).eq(1).all()
        assert not held & set(batch["steps"][batch["real"]][:, 0].int().tolist())
    assert (source.batch(3)["steps"] == source.batch(3)["steps"]).all()
    seen = np.concatenate([batch["steps"][batch["real"]][:, 0].numpy() for batch in source.validation()])
    assert sorted(seen.astype(int).tolist()) == sorted(held)

"""Worlds that are seen as images: drawn, encoded, learned, resumed, dreamed and looked at."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard.errors import RegardError
from regard.files import read_arrays, read_tensors
from regard.look.encode_arrays import unpack_array
from regard.models.world import TransformerWorld, TransformerWorldConfig
from regard.recipes.base import problem_of_run
from regard.recipes.job import DataContext
from regard.recipes.world.config import WorldDataConfig
from regard.recipes.world.draw_states import SCENES, draw_states
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.images import decode_codes, encode_episodes, encode_images, learn_codes
from regard.recipes.world.problem import World
from regard.recipes.world.read_episodes import read_episodes
from regard.recipes.world.replay_buffer import episodes_folder
from regard.recipes.world.spaces import Spaces
from regard.recipes.world.views.episode import pack_episode, pack_futures
from regard.recipes.world.views.futures import as_taken, imagine_from
from regard.verbs.main import main
from tests.recipes.world.test_world_runs import OPTIONS, Killed, Killer, train

IMAGES = OPTIONS | {"data.images": True, "data.side": 16, "data.code": 4, "data.code_steps": 4, "model.width": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A few steps on CartPole from images."""
    return train(tmp_path_factory.mktemp("runs") / "cart", options=IMAGES)


# ── drawing


@pytest.mark.parametrize("name", SCENES)
def test_every_state_is_drawn_as_it_would_be_alone(name):
    states = np.random.default_rng(0).uniform(-1, 1, (5, 6))
    found = draw_states(name, states, 24)
    assert found.shape == (5, 24, 24, 1) and found.dtype == np.uint8 and found.max() > 200
    np.testing.assert_array_equal(found[2:3], draw_states(name, states[2:3], 24))
    assert (found[0] != found[1]).any()


def test_a_cart_is_where_it_is_to_a_fraction_of_a_pixel():
    """The mean place of the light follows the position, from a thirtieth of a pixel on."""
    states = np.zeros((50, 4))
    states[:, 0] = np.linspace(-1, 1, 50) * 0.15 * 2
    light = draw_states("CartPole-v1", states)[..., 0].astype(float)
    middle = (light * (np.arange(32) + 0.5)).sum((1, 2)) / light.sum((1, 2))
    np.testing.assert_allclose(middle, (states[:, 0] + 2.6) / 5.2 * 32, atol=0.03)


def test_an_environment_that_nobody_has_drawn_is_named():
    with pytest.raises(RegardError, match=r"CartPole-v1.*LunarLander-v3"):
        train("never", data="gymnasium:LunarLander-v3", options={"data.images": True})


@pytest.mark.parametrize(
    "options, words",
    [
        ({"path": "episodes.npz", "images": True}, "episodes.npz is recorded"),
        ({"images": True, "observed": (0,)}, "observed"),
        ({"side": 4}, "8 to 256"),
        ({"code": 5}, "multiple of 2"),
    ],
)
def test_settings_that_do_not_fit_are_named(options, words):
    with pytest.raises(RegardError, match=words):
        WorldDataConfig(**options)


# ── recorded images


def film(count=12, dtype=np.uint8, shape=(10, 14)):
    """A recorded episode in which a column of light moves to the right."""
    images = np.zeros((count + 1, *shape))
    for step in range(count + 1):
        images[step, :, step % shape[1]] = 1
    scale = 255 if np.dtype(dtype).kind == "u" else 1
    images = (images * scale).astype(dtype)
    return {
        "observations": images[:-1],
        "next_observations": images[1:],
        "actions": np.arange(count) % 2,
        "rewards": np.ones(count),
        "terminated": np.arange(count) == count - 1,
    }


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(10, 14), (10, 14, 3)])
def test_recorded_images_become_squares(tmp_path, dtype, shape):
    np.savez(tmp_path / "film.npz", **film(dtype=dtype, shape=shape))
    found = read_episodes(str(tmp_path / "film.npz"), data=WorldDataConfig(side=8, code=6))
    colours = shape[2] if len(shape) == 3 else 1
    assert found.spaces.image == (8, 8, colours) and found.spaces.observations == 6
    assert found.episodes.images.shape == (12, 8, 8, colours) and found.episodes.images.dtype == np.uint8
    np.testing.assert_array_equal(found.episodes.images[1:], found.episodes.next_images[:-1])
    # light is kept: each pixel is the mean of what it covers
    assert found.episodes.images[3].mean() == pytest.approx(255 / 14, rel=0.03)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"observations": np.zeros((12, 3, 10, 14))}, r"12, 3, 10, 14.*come last"),
        ({"observations": np.full((12, 10, 14), 7.0), "next_observations": np.zeros((12, 10, 14))}, "0 to 1"),
    ],
)
def test_images_that_are_none_are_refused(tmp_path, change, words):
    np.savez(tmp_path / "film.npz", **(film() | change))
    with pytest.raises(RegardError, match=words):
        read_episodes(str(tmp_path / "film.npz"))


def test_vectors_and_images_are_told_apart(tmp_path):
    np.savez(tmp_path / "film.npz", **film())
    vectors = {"observations": np.zeros((12, 4)), "next_observations": np.zeros((12, 4))}
    np.savez(tmp_path / "vectors.npz", **(film() | vectors))
    film_path, path = str(tmp_path / "film.npz"), str(tmp_path / "vectors.npz")
    spaces = Spaces(observations=4, actions=2, discrete=True)
    seen = replace(spaces, image=(16, 16, 1))
    with pytest.raises(RegardError, match="here are images"):
        read_episodes(film_path, spaces)
    with pytest.raises(RegardError, match="vectors of 4 numbers"):
        read_episodes(path, seen)
    np.savez(tmp_path / "colours.npz", **film(shape=(10, 14, 3)))
    with pytest.raises(RegardError, match="1 channels.*got 3"):
        read_episodes(str(tmp_path / "colours.npz"), seen)
    # states of an environment that is drawn are drawn
    drawn = read_episodes(path, replace(seen, environment="CartPole-v1", drawn=True)).episodes
    np.testing.assert_array_equal(drawn.images, draw_states("CartPole-v1", np.zeros((12, 4)), 16))


# ── codes


def dots(count=80, side=12):
    """One episode of a dot that moves around, and where it is."""
    turn = np.linspace(0, 9, count + 1)
    places = np.stack((np.sin(turn), np.cos(1.3 * turn)), 1) * 3.5 + side / 2 - 0.5
    grid = np.arange(side)
    apart = (grid[None, :, None] - places[:, 1, None, None]) ** 2 + (grid - places[:, 0, None, None]) ** 2
    images = np.round(255 * np.exp(-apart / 3)).astype(np.uint8)[..., None]
    unknown = np.zeros((count, 4), np.float32)
    episode = Episodes(
        observations=unknown,
        following=unknown,
        actions=np.eye(2, dtype=np.float32)[np.arange(count) % 2],
        rewards=np.ones(count, np.float32),
        terminated=np.zeros(count, bool),
        last=np.arange(count) == count - 1,
        images=images[:-1],
        next_images=images[1:],
    )
    return episode, places[:-1]


def test_a_code_says_where_things_are():
    torch.manual_seed(0)
    config = {"observations": 4, "actions": 2, "dim": 16, "depth": 1, "image": (1, 12, 12), "width": 6}
    model = TransformerWorld(TransformerWorldConfig(**config)).eval()
    episode, places = dots()
    nothing_known = np.zeros(len(episode), bool)
    learn_codes(model, episode, nothing_known, 60, seed=0, round=0)
    found = encode_episodes(model, episode)
    np.testing.assert_array_equal(found.following[:-1], found.observations[1:])
    # to a twentieth of a pixel, by a linear map
    z = np.concatenate((found.observations, np.ones((len(episode), 1))), 1)
    missed = places - z @ np.linalg.lstsq(z, places, rcond=None)[0]
    assert np.sqrt(np.square(missed).mean()) < 0.1
    back = decode_codes(model, found.observations)
    apart = np.square(back.astype(float) - episode.images).mean()
    assert apart < 0.3 * episode.images.astype(float).var()
    # a new round learns new images; those that are known keep their codes
    before, dark = found.observations, replace(episode, images=255 - episode.images)
    free, held = (encode_images_after(model, dark, known) for known in (nothing_known, ~nothing_known))
    moved = [np.abs(each - encode_images(model, dark.images)).mean() for each in (free, held)]
    assert moved[1] < 0.3 * moved[0]
    assert np.isfinite(before).all()


def encode_images_after(model, episode, known):
    """The codes after some steps more on other images, with the model left as it was."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    learn_codes(model, episode, known, 8, seed=0, round=1)
    found = encode_images(model, episode.images)
    model.load_state_dict(state)
    return found


# ── runs


def test_a_run_keeps_its_images_and_acts_on_their_codes(run, tmp_path):
    acted = [read_arrays(episodes_folder(run) / f"round-{number:03}.npz") for number in range(2)]
    assert all(each["observations"].shape == (60, 16, 16, 1) for each in acted)
    assert all(each["observations"].dtype == np.uint8 for each in acted)
    model = regard.load(run.path)
    assert model.config.observations == 4 and model.config.image == (1, 16, 16) and model.config.frames == 4
    job = World().prepare_again(run, DataContext(cache=tmp_path))
    assert "16 × 16" in World().describe(job)
    assert regard.check(str(run.path), laws=["causality", "padding", "cache", "reordering"], trials=2).ok


def test_a_killed_run_goes_on_to_the_same_weights(run, tmp_path):
    """After the second round was acted and its images were learned: they are learned again, from the checkpoint."""
    out = tmp_path / "killed"
    with pytest.raises(Killed):
        train(out, [Killer(5)], options=IMAGES)
    again = train(out, options={}, resume=True)
    torch.testing.assert_close(read_tensors(again.model_file), read_tensors(run.model_file), rtol=0, atol=0)


def test_images_are_evaluated_predicted_and_dreamed(run, tmp_path, capsys):
    episodes = str(episodes_folder(run) / "round-000.npz")
    assert main(["evaluate", str(run.path), "--episodes", "2"]) == 0
    assert "of 2 episodes" in capsys.readouterr().out
    assert main(["evaluate", str(run.path), "--data", episodes]) == 0
    (found,) = regard.predict(run.path, episodes)
    assert len(found.each) == 60 and "next_code_3" in found.each[0].values
    words = ["generate", str(run.path), "--steps", "6", "--policy", "random", "--out"]
    assert main([*words, str(tmp_path / "dream.npz")]) == 0
    dream = read_arrays(tmp_path / "dream.npz")
    assert dream["images"].shape == dream["dreamed_images"].shape and dream["images"].shape[1:] == (16, 16, 1)
    assert main([*words, str(tmp_path / "dream.gif")]) == 0
    from PIL import Image

    with Image.open(tmp_path / "dream.gif") as image:
        assert image.n_frames == len(dream["images"])


def test_a_page_holds_real_and_imagined_images(run):
    model = regard.load(run.path)
    given = problem_of_run(run).reader(run, model).read(None)
    episode, n = given.episode, len(given.episode)
    real = unpack_array(pack_episode(episode), "u1", n + 1, 16, 16, 1)
    np.testing.assert_array_equal(real[:-1], episode.images)
    starts = np.array([0, 2])
    futures = imagine_from(model, episode, starts, 3, as_taken(model, episode, 3))
    imagined = unpack_array(pack_futures(model, futures), "u1", 2, 4, 16, 16, 1)
    # before anything is imagined, it is the real image as the autoencoder gives it back
    np.testing.assert_allclose(imagined[1, 0], decode_codes(model, episode.observations[2:3])[0], atol=1)


def test_recorded_images_are_learned_offline(tmp_path, capsys):
    np.savez(tmp_path / "film.npz", **film(count=40))
    wanted = {name: value for name, value in IMAGES.items() if not name.startswith("data.r")}
    options = wanted | {"data.images": False, "train.policy": "none"}
    run = train(tmp_path / "offline", data=str(tmp_path / "film.npz"), options=options)
    assert regard.load(run.path).config.image == (1, 16, 16)
    assert main(["evaluate", str(run.path)]) == 0
    assert main(["generate", str(run.path), "--out", str(tmp_path / "dream.gif")]) == 0

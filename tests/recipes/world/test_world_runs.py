"""Runs of a world from the first step to their files: trained, killed, resumed, evaluated, dreamed."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.errors import RegardError
from regard.files import read_arrays, read_tensors
from regard.recipes.base import get_recipe, problem_of_run
from regard.recipes.world.config import WorldTrainConfig
from regard.recipes.world.dream import Dream, write_gif
from regard.recipes.world.dyna_loop import Unit, unit_of
from regard.recipes.world.evaluation import horizon_errors
from regard.recipes.world.read_episodes import read_episodes
from regard.recipes.world.replay_buffer import episodes_folder
from regard.runs.run import Run
from regard.training.progress import Observer
from regard.verbs.main import main
from tests.recipes.world.worlds import spaces_of

OPTIONS = {
    "data.real_steps": 120,
    "data.rounds": 2,
    "data.context": 8,
    "model.dim": 16,
    "model.depth": 1,
    "model.hidden": 16,
    "model.window": 4,
    "train.first_steps": 2,
    "train.round_steps": 2,
    "train.world_steps": 3,
    "train.imagined": 32,
    "train.horizon": 6,
    "train.minibatch": 64,
    "train.batch": 16,
    "train.episodes": 4,
    "train.save_every": 1,
    "train.threads": 1,
}


class Killed(BaseException):
    """As a signal that nobody catches."""


class Killer(Observer):
    def __init__(self, at):
        self.at = at

    def stepped(self, step, loss, size, seconds):
        if step == self.at:
            raise Killed


def train(out, observers=(), **how):
    return regard.train("world", out=out, observers=list(observers), report=False, **how)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A few steps on CartPole."""
    return train(tmp_path_factory.mktemp("runs") / "cart", options=OPTIONS)


@pytest.fixture(scope="module")
def episodes(run):
    """The episodes that it acted at random."""
    return str(episodes_folder(run) / "round-000.npz")


def test_every_round_acts_its_share_of_the_real_steps(run):
    folder = episodes_folder(run)
    found = [read_arrays(folder / f"round-{number:03}.npz") for number in range(2)]
    assert [len(each["rewards"]) for each in found] == [60, 60]
    assert sorted(path.name for path in folder.iterdir()) == ["round-000.npz", "round-001.npz"]
    assert run.config.steps == 6 and run.config.keep == "last"


@pytest.mark.parametrize("at", [1, 5])
def test_a_run_that_was_killed_goes_on_to_the_same_weights(run, tmp_path, monkeypatch, at):
    """In the first round, and after the second was acted but before a checkpoint: its steps are not acted again."""
    out = tmp_path / "killed"
    with pytest.raises(Killed):
        train(out, [Killer(at)], options=OPTIONS)
    acted = [path.name for path in episodes_folder(Run(out, run.config)).iterdir()]
    assert sorted(acted) == ["round-000.npz", "round-001.npz"][: 1 if at == 1 else 2]
    if at == 5:
        monkeypatch.setattr("regard.recipes.world.dyna_loop.DynaLoop.act", None)
    again = train(out, options={}, resume=True)
    torch.testing.assert_close(read_tensors(again.model_file), read_tensors(run.model_file), rtol=0, atol=0)
    for number in range(2):
        one, other = (read_arrays(episodes_folder(each) / f"round-{number:03}.npz") for each in (run, again))
        assert all((one[name] == other[name]).all() for name in one)


def test_a_run_without_its_episodes_says_so(run, tmp_path):
    out = tmp_path / "killed"
    with pytest.raises(Killed):
        train(out, [Killer(6)], options=OPTIONS)
    (episodes_folder(Run(out, run.config)) / "round-001.npz").unlink()
    with pytest.raises(RegardError, match=r"round-001\.npz is missing"):
        train(out, options={}, resume=True)


def test_what_each_step_does():
    config = WorldTrainConfig(steps=1, first_steps=2, round_steps=3, world_steps=5)
    found = [unit_of(step, config, 2) for step in range(10)]
    assert found[:2] == [Unit(0, 10, False)] * 2
    assert found[2:5] == [Unit(0, 5, True)] * 3
    assert found[5:] == [Unit(1, 5, True)] * 5  # after the last round it goes on without acting


def test_a_budget_in_minutes_is_shared_over_the_rounds():
    config = WorldTrainConfig(steps=None, minutes=1.0, first_steps=2, round_steps=3, world_steps=5)
    found = [unit_of(1000 + step, config, 2, done=step / 80) for step in range(80)]
    assert found[:20] == [Unit(0, 10, False)] * 20
    assert found[20:50] == [Unit(0, 5, True)] * 30 and found[50:] == [Unit(1, 5, True)] * 30


@pytest.mark.parametrize("name", ["CartPole", "Pendulum"])
def test_a_name_without_a_version_has_the_settings_of_the_known_one(name):
    plain, known, other = (
        get_recipe("world").defaults(f"gymnasium:{each}") for each in (name, f"{name}-v1", "Acrobot-v1")
    )
    assert plain.data.environment == known.data.environment == f"{name}-v1"
    assert plain.train == known.train and plain.data.real_steps == known.data.real_steps
    assert other.data.environment == "Acrobot-v1" and other.data.real_steps != known.data.real_steps


def test_evaluate_prints_the_mean_return_and_errors(run, capsys):
    assert main(["evaluate", str(run.path), "--episodes", "3", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert "mean return" in out and "of 3 episodes" in out and "120 real steps" in out
    assert main(["evaluate", str(run.path), "--episodes", "3", "--seed", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["returns"]) == 3 and found["measures"]["return"] == np.mean(found["returns"])
    assert "error after 1 step" in found["measures"]
    assert set(found["errors"]) == {"model", "linear", "persistence"}
    assert problem_of_run(run).next_command(run) == f"regard evaluate {run.quoted} --episodes 100 --seed 1"


def test_predictions_are_those_of_the_model(run, episodes):
    (found,) = regard.predict(run.path, episodes)
    model = regard.load(run.path)
    first = read_episodes(episodes).episodes.episode(0)
    with torch.no_grad():
        wanted = model(torch.from_numpy(first.steps)[None])[0]
    values = [list(part.values.values()) for part in found.each[: len(first)]]
    torch.testing.assert_close(torch.tensor(values)[:, :-1], wanted[:, :-1], rtol=1e-4, atol=1e-4)
    assert found.each[1].row == {"episode": 0, "step": 1}


def test_a_dream_begins_where_the_real_episode_does(run, tmp_path, capsys):
    path = tmp_path / "dream.npz"
    assert main(["generate", str(run.path), "--steps", "12", "--policy", "random", "--out", str(path)]) == 0
    assert "dreamed" in capsys.readouterr().out
    found = read_arrays(path)
    assert found["real"].shape == found["dreamed"].shape
    np.testing.assert_allclose(found["real"][0], found["dreamed"][0], atol=1e-5)
    assert len(found["real"]) == len(found["actions"]) + 1 <= 13


@pytest.mark.parametrize("environment", ["CartPole-v1", None])
def test_each_frame_of_a_dream_shows_where_it_is(tmp_path, environment):
    """A cart and its pole, which lean to the right in the dream; curves, which grow."""
    from PIL import Image

    real = np.linspace(0, 0.3, 12).reshape(3, 4)
    ones = np.ones(2)
    dream = Dream(real, real * 1.5, np.eye(2), ones, ones, ones)
    write_gif(dream, spaces_of(observations=4, environment=environment), str(tmp_path / "dream.gif"))
    frames = []
    with Image.open(tmp_path / "dream.gif") as image:
        assert image.n_frames == 3
        for number in range(3):
            image.seek(number)
            frames.append(np.asarray(image.convert("RGB"), dtype=int)[20:])  # below the words
    dreamed = [frame[..., 0] - frame[..., 2] > 80 for frame in frames]  # orange; what is real is blue
    assert all(each.any() for each in dreamed)
    across = [each.nonzero()[1].mean() for each in dreamed]
    if environment is not None:
        assert across[0] < across[2] and min(across) > frames[0].shape[1] / 2
        assert 60 < len(dreamed[0].any(1).nonzero()[0]) < 176  # as high as the pole
    else:
        assert dreamed[0].sum() < dreamed[1].sum() < dreamed[2].sum()


def test_laws_hold_and_an_episode_can_be_looked_at(run, episodes, tmp_path):
    assert regard.check(str(run.path), laws=["causality", "padding", "cache"], trials=2).ok
    reader = problem_of_run(run).reader(run, regard.load(run.path))
    assert len(reader.read(episodes).episode) == reader.read(episodes).inputs["steps"].shape[1]
    assert reader.read(None).name is not None


@pytest.mark.parametrize("model", ["transformer", "gru"])
def test_recorded_episodes_are_learned_offline(episodes, tmp_path, model, capsys):
    options = {name: value for name, value in OPTIONS.items() if name not in ("data.real_steps", "data.rounds")}
    if model == "gru":
        options.pop("model.window")
    options |= {"train.policy": "none", "data.validation": 0.3}
    run = train(tmp_path / "offline", data=episodes, model=model, options=options)
    assert not episodes_folder(run).exists() and run.config.keep == "loss"
    assert problem_of_run(run).next_command(run) == f"regard evaluate {run.quoted}"
    assert main(["evaluate", str(run.path)]) == 0
    assert "mean return" not in capsys.readouterr().out
    assert main(["generate", str(run.path), "--out", str(tmp_path / "dream.gif")]) == 0
    assert main(["generate", str(run.path), "--policy", "random"]) == 2
    assert "needs an environment" in capsys.readouterr().err


def test_a_policy_is_learned_offline_too(episodes, tmp_path):
    options = {name: value for name, value in OPTIONS.items() if name not in ("data.real_steps", "data.rounds")}
    run = train(tmp_path / "offline", data=episodes, options=options)
    model = regard.load(run.path)
    assert float(model.policy.actor[4].bias.detach().abs().max()) > 0


def test_continuous_actions_and_hidden_numbers(tmp_path):
    """Pendulum, of which the speed is hidden; the policy sees two frames."""
    options = OPTIONS | {"data.observed": (0, 1), "model.frames": 2, "data.environments": 2}
    run = train(tmp_path / "swing", data="gymnasium:Pendulum-v1", options=options)
    model = regard.load(run.path)
    assert model.config.observations == 2 and not model.config.discrete
    acted = read_arrays(episodes_folder(run) / "round-001.npz")
    assert acted["observations"].shape == (60, 2) and np.abs(acted["actions"]).max() <= 2
    assert not acted["terminated"].any()
    assert main(["generate", str(run.path), "--steps", "5", "--out", str(tmp_path / "dream.gif")]) == 0


def test_errors_by_horizon_are_those_of_each_rival(run, episodes):
    model = regard.load(run.path)
    found = read_episodes(episodes).episodes
    same = horizon_errors(model, found, rival="persistence")
    assert same[1] < same[5] and 50 not in same  # no random episode is so long
    linear = horizon_errors(model, found, rival="linear")
    assert linear[1] < same[1]

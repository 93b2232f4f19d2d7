"""What a page of a world says: each number is that of the model."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import RegardError
from regard.look import scene as scenes
from regard.look.encode_arrays import unpack_array
from regard.models.recurrent import GRUWorld
from regard.recipes.world.evaluation import horizon_errors
from regard.recipes.world.imagination import history_length, imagine
from regard.recipes.world.reader import read_changes, write_changes
from regard.recipes.world.replay_buffer import episodes_folder
from regard.recipes.world.views import episode as episode_view
from regard.recipes.world.views.episode import EpisodeView
from regard.recipes.world.views.futures import Futures, as_policy, as_taken, imagine_from
from regard.recipes.world.views.horizons import HorizonsView
from regard.recipes.world.views.known_worlds import action_names, drawing_of, number_names
from regard.recipes.world.views.moments import MomentsView, measure_hidden
from regard.recipes.world.views.returns import returns
from regard.verbs.look import open_session
from tests.recipes.world.test_world_runs import OPTIONS, train
from tests.recipes.world.worlds import input_of, made_episodes, small_world, spaces_of

FEW = OPTIONS | {
    "data.real_steps": 80,
    "data.validation": 0.5,
    "train.first_steps": 1,
    "train.round_steps": 1,
    "train.world_steps": 1,
    "train.episodes": 1,
}
VIEWS = (EpisodeView(), MomentsView(), HorizonsView())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A step or two on CartPole."""
    return train(tmp_path_factory.mktemp("views") / "cart", options=FEW)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Futures of a few steps say the same, sooner."""
    monkeypatch.setattr(episode_view, "HORIZON", 6)


def held_out(run):
    """Every second episode of all rounds."""
    count = sum(len(each["points"]) for each in returns(run)["rounds"])
    return range(1, count, 2)


def gather(model, given, **how):
    return scenes.gather(model, given, name="a world", views=VIEWS, tsne=False, **how)


def view(scene, name):
    return next(each for each in scene.data["views"] if each["view"] == name)


# ---- futures


@pytest.mark.parametrize("acting", ["taken", "policy"])
@pytest.mark.parametrize("discrete", [True, False])
def test_futures_are_those_of_imagination_from_one_step_alone(discrete, acting):
    model, episode = small_world(discrete), made_episodes(discrete=discrete).episode(0)
    start = as_policy(model) if acting == "policy" else as_taken(model, episode, 5)
    found = imagine_from(model, episode, np.array([0, 3, 7]), 5, start)
    history, real = episode.history(np.array([3]), history_length(model))
    first, actions = torch.from_numpy(episode.observations[3:4]), torch.from_numpy(episode.actions)

    def choose(seen, t):
        return model.policy.choose(seen).best() if acting == "policy" else actions[3 + t : 4 + t]

    alone = imagine(model, history, real, first, 5, choose)
    heads = [imagine(model, history, real, first, 5, choose, heads=torch.tensor([k])) for k in range(3)]
    each = torch.stack([head.observations[0] for head in heads])
    for got, wanted in (
        (found.mean[1], alone.observations[0]),
        (found.low[1], each.amin(0)),
        (found.high[1], each.amax(0)),
        (found.rewards[1], alone.rewards[0]),
        (found.goes_on[1], alone.goes_on[0]),
        (found.actions[1], alone.actions[0]),
        (found.values[1], model.policy.value(alone.seen)[0].detach()),
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert float((found.high - found.low)[:, 1:].min()) > 0


def test_many_futures_are_imagined_in_parts(monkeypatch):
    model, episode = small_world(), made_episodes().episode(0)
    starts = np.arange(len(episode))
    whole = imagine_from(model, episode, starts, 3, as_taken(model, episode, 3))
    monkeypatch.setattr("regard.recipes.world.views.futures.TOGETHER", 4)
    parts = imagine_from(model, episode, starts, 3, as_taken(model, episode, 3))
    torch.testing.assert_close(parts.high, whole.high, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("discrete", [True, False])
def test_the_page_has_the_futures_in_the_units_of_the_environment(discrete):
    model = small_world(discrete)
    given = input_of(made_episodes(discrete=discrete), discrete)
    data = view(gather(model, given), "episode")
    curves = unpack_array(data["futures"][0]["curves"], "f2", len(data["starts"]), 7, 3, 3).astype(np.float32)
    shown = np.array(data["mean"])[:, None] + np.array(data["scale"])[:, None] * curves
    wanted = imagine_from(model, given.episode, np.array(data["starts"]), 6, as_taken(model, given.episode, 6))
    np.testing.assert_allclose(shown[..., 0], model.restore(wanted.mean).numpy(), atol=5e-3)
    np.testing.assert_allclose(shown[..., 2], model.restore(wanted.high).numpy(), atol=5e-3)
    real = unpack_array(data["real"]["data"], "f4", 13, 3)
    np.testing.assert_array_equal(real, np.vstack((given.episode.observations, given.episode.following[-1:])))
    taken = np.array(data["actions"]["taken"])
    if discrete:
        assert (taken == given.episode.actions.argmax(-1)).all()
    else:  # in the limits of the environment, −2 to 2 and 0 to 1
        np.testing.assert_allclose(taken, given.episode.actions * [2, 0.5] + [0, 0.5], atol=1e-3)
    assert [each["kind"] for each in data["futures"]] == ["taken", "policy"]


def test_without_a_policy_there_is_no_value():
    data = view(gather(small_world(), input_of(made_episodes(), learned=False)), "episode")
    assert [(each["kind"], each["values"]) for each in data["futures"]] == [("taken", None)]


@pytest.mark.parametrize("low, high, share", [(-np.inf, np.inf, 1.0), (np.inf, np.inf, 0.0)])
def test_how_much_lies_inside_the_band(low, high, share):
    model, episode = small_world(), made_episodes().episode(0)
    shape = (2, 7, 3)
    nothing = dict.fromkeys(("mean", "actions", "rewards", "goes_on", "values"), torch.zeros(0))
    futures = Futures(low=torch.full(shape, low), high=torch.full(shape, high), **nothing)
    assert episode_view._covered(model, episode, np.array([0, 10]), futures) == share


def test_of_many_numbers_those_that_vary_most_are_shown(monkeypatch):
    monkeypatch.setattr(episode_view, "NUMBERS", 2)
    episodes = made_episodes()
    still = episodes.observations.copy()
    still[:, 1] = 1.0
    data = view(gather(small_world(), input_of(replace(episodes, observations=still))), "episode")
    assert data["numbers"] == ["number 1", "number 3"] and data["of"] == 3


@pytest.mark.parametrize("n, shown, observations, every", [(128, 8, 40, 1), (1000, 8, 8, 7), (128, 8, 4096, 10)])
def test_wide_observations_are_imagined_from_fewer_steps(n, shown, observations, every, monkeypatch):
    monkeypatch.setattr(episode_view, "HORIZON", 50)
    starts = episode_view._starts(n, shown, observations, 3)
    assert starts.tolist() == list(range(0, n, every))


# ---- changes


@pytest.mark.parametrize("discrete", [True, False])
def test_a_changed_action_changes_what_comes_after_it(discrete):
    model, given = small_world(discrete), input_of(made_episodes(discrete=discrete), discrete)
    kind = 1 - int(given.episode.actions[5].argmax())
    asked = [5, kind] if discrete else [5, 1000, -1000]
    changes = read_changes(asked, given.spaces, len(given.episode))
    assert write_changes(changes, given.spaces) == [asked]
    data = view(gather(model, replace(given, changes=changes)), "episode")
    found = {each["kind"]: unpack_array(each["curves"], "f2", len(data["starts"]), 7, 3, 3) for each in data["futures"]}
    differs = (found["taken"] != found["changed"]).any((2, 3))  # starts × steps after them
    for start in data["starts"]:
        before = max(0, min(7, 5 - start + 1))
        assert not differs[start, :before].any()
        assert differs[start, before:].all() == (start <= 5)
    fresh = imagine_from(model, given.episode, np.array([2]), 6, as_taken(model, given.episode, 6, changes))
    np.testing.assert_allclose(found["changed"][2, :, :, 0], fresh.mean[0].numpy(), atol=5e-3)


@pytest.mark.parametrize(
    "asked, discrete, words",
    [
        ([5], True, r"groups of 2 .* 1 numbers"),
        ([5, 1], False, r"groups of 3 .* 2 numbers"),
        ([12, 0], True, "0 … 11, got 12"),
        ([-1, 0], True, "0 … 11, got -1"),
        ([5, 2], True, "0 … 1, got 2"),
        ([5, 0, -1001], False, "got -1001"),
    ],
)
def test_changes_that_make_no_sense_are_named(asked, discrete, words):
    with pytest.raises(RegardError, match=words):
        read_changes(asked, spaces_of(discrete), 12)


# ---- moments


@pytest.mark.parametrize("cls", ["transformer", "gru"])
def test_a_hidden_step_moves_the_prediction_as_far_as_the_model_says(cls):
    model = small_world() if cls == "transformer" else small_world(cls=GRUWorld)
    steps = torch.from_numpy(made_episodes().episode(0).steps)[None]
    found = measure_hidden(model, steps, 6)
    real = torch.ones(1, 7, dtype=torch.bool)
    scaled = model.scale_steps(steps[:, 3:10])
    where = torch.arange(7)[None]
    with torch.no_grad():
        whole = model.outlook(scaled, where=where, real=real)[0, -1].mean(0)[:-1]
        real[0, 4] = False
        scaled = scaled * real[..., None]
        other = model.outlook(scaled, where=where, real=real)[0, -1].mean(0)[:-1]
    wanted = (whole - other).square().mean().sqrt()
    torch.testing.assert_close(found[9, 1], wanted, rtol=1e-3, atol=1e-7)
    assert not found[2, 2:].any() and found[2, :2].all()  # there is nothing before the first step
    if cls == "transformer":  # one layer sees 4 steps, itself included
        assert found[8, :3].all() and float(found[8, 3:].max()) < 1e-6


def test_attention_by_steps_back_is_the_mean_of_a_diagonal():
    scene = gather(small_world(), input_of(made_episodes()))
    data = view(scene, "moments")
    weights = scene.seen[0].weights[0]
    assert data["back"] == 3
    for back in range(4):
        wanted = weights.diagonal(-back, 1, 2).mean(-1)
        got = torch.tensor([head[back] for head in data["layers"][0]["by_distance"]])
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)


def test_a_model_without_attention_has_moments_too():
    data = view(gather(small_world(cls=GRUWorld), input_of(made_episodes())), "moments")
    assert data["layers"] == [] and data["back"] == 11


# ---- worlds that are known


def test_what_is_seen_of_a_known_world_is_drawn_and_named():
    whole = spaces_of(observations=4, environment="CartPole-v1")
    assert drawing_of(whole) == {"name": "cart-pole", "at": [0, 2]}
    part = replace(whole, observed=(2, 0), observations=2)
    assert drawing_of(part) == {"name": "cart-pole", "at": [1, 0]}
    assert number_names(part) == ["angle", "position"] and action_names(part) == ["push left", "push right"]
    assert drawing_of(replace(part, observed=(0, 1))) is None
    unknown = replace(part, environment=None)
    assert drawing_of(replace(whole, environment="Acrobot-v1")) is None and drawing_of(unknown) is None
    assert number_names(unknown) == ["number 3", "number 1"] and action_names(unknown) == ["action 0", "action 1"]
    assert action_names(spaces_of(False)) == ["action 1", "action 2"]


# ---- runs


def test_a_page_of_a_run_has_all_views_and_its_format_names_them(run):
    session = open_session(str(run.path), tsne=False)
    page = session.show({})
    names = [each["view"] for each in page["views"]]
    assert [name for name in names if name in ("episode", "moments", "horizons", "returns")] == [
        "episode", "moments", "horizons", "returns"
    ]  # fmt: skip
    text = (Path(regard.__file__).parent / "look/web/README.md").read_text()
    for each in page["views"]:
        assert f"`{each['view']}`" in text
        for key in each:
            assert f'"{key}"' in text, f"{each['view']} has {key}, which web/README.md does not name"
    found = next(each for each in page["views"] if each["view"] == "horizons")
    given = session.latest().given
    errors = horizon_errors(session.model, given.episodes, rival="linear")
    assert found["rivals"][1]["points"] == [[k, pytest.approx(error, rel=1e-3)] for k, error in errors.items()]
    assert found["origin"] == "held out" and set(given.names) == {f"episode {k + 1}" for k in held_out(run)}
    assert session.reader.read(str(episodes_folder(run) / "round-000.npz")).origin is None
    other = session.show({"episode": 0, "actions": [2, 1]})
    assert next(each for each in other["views"] if each["view"] == "episode")["changes"] == [[2, 1]]
    assert len(session.latest().given.notes) == len(given.notes)
    with pytest.raises(RegardError, match="99"):
        session.show({"episode": 99})


def test_returns_are_those_of_the_rounds_and_of_the_end(run, monkeypatch):
    data = returns(run)
    assert data["steps"] == FEW["data.real_steps"]
    assert [each["name"] for each in data["rounds"]] == ["at random", "round 2"]
    points = [point for each in data["rounds"] for point in each["points"]]
    assert points[-1][0] == data["steps"] and sum(value for _, value in points) == data["steps"]
    told = next(event for event in run.metrics() if event["event"] == "test")
    assert data["end"] == {"mean": pytest.approx(told["return"], rel=1e-3), "count": told["count"]}
    monkeypatch.setattr(type(run), "metrics", lambda self: [])
    assert returns(run)["end"] is None


def test_a_run_whose_episodes_are_gone_shows_one_at_random(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "moved")
    shutil.rmtree(tmp_path / "moved" / episodes_folder(run).relative_to(run.path))
    page = open_session(str(tmp_path / "moved"), tsne=False).show({})
    assert page["input"]["name"] == "drawn at random" and "cannot be read any more" in page["notes"][0]
    assert "returns" not in [each["view"] for each in page["views"]]


def test_a_still_is_drawn(tmp_path):
    scene = gather(small_world(), input_of(made_episodes((12, 9, 30))))
    figure = scene.still("mine")
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles[:5] == ["number 1", "number 2", "number 3", "value along the imagined episode", "error after k steps"]
    assert titles[5] == "mean attention by steps back" and len(figure.axes[5].lines) == 4
    assert figure.get_suptitle() == "mine: imagined from step 3 on"

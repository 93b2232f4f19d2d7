"""Which defaults graphs get: by the number of labels, the features, and whether neighbours are alike."""

from functools import partial

import numpy as np
import pytest

from regard.recipes.base import get_recipe
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.defaults import LEAST_EDGES, are_related, find_traits, labelled_ends, measure_homophily
from regard.recipes.request import TrainRequest
from regard.training.progress import Observer
from regard.verbs import options, train

N, CLASSES = 300, 3
RECIPE = get_recipe("graphs")


def planted(tmp_path, same, *, words=False, name="graph", **more):
    """A file of nodes whose features tell their class but for noise. same: share of edges within a class"""
    random = np.random.default_rng(0)
    labels = np.arange(N) % CLASSES
    source = random.integers(0, N, 4 * N)
    within = random.random(4 * N) < same
    other = (labels[source] + random.integers(1, CLASSES, 4 * N)) % CLASSES
    wanted = np.where(within, labels[source], other)
    target = wanted + CLASSES * random.integers(0, N // CLASSES, 4 * N)
    if words:
        x = (random.random((N, 100)) < 0.02).astype(np.float32)
    else:
        x = random.normal(size=(N, 6)).astype(np.float32)
        x[np.arange(N), labels] += 2.0
    path = tmp_path / f"{name}.npz"
    np.savez(path, edges=np.stack([source, target]), x=x, labels=labels, **more)
    return str(path)


def settings_for(path, *words):
    given = partial(options.read_settings_options, RECIPE, list(words), "regard train")
    return TrainRequest(recipe=RECIPE, data=path, options=given).settings()


@pytest.mark.parametrize("same, layer", [(0.9, "gcn"), (1 / 3, "alone"), (0.0, "conv")])
def test_unlike_neighbours_get_a_layer_that_keeps_a_node_apart_from_them(tmp_path, same, layer):
    path = planted(tmp_path, same)
    config = GraphsConfig(path=path)
    homophily = find_traits(RECIPE.supervised.read(config), config).homophily
    assert homophily == pytest.approx((same - 1 / 3) / (2 / 3), abs=0.1)
    assert RECIPE.defaults(path).model.layer == layer


def test_edges_with_features_are_never_left_out_by_default(tmp_path):
    """Their classes say nothing about neighbours, but the features of the edges may."""
    random = np.random.default_rng(0)
    path = planted(tmp_path, 1 / 3)
    count = np.load(path)["edges"].shape[1]
    path = planted(tmp_path, 1 / 3, edge_features=random.standard_normal((count, 2)))
    assert RECIPE.defaults(path).model.layer == "conv"
    assert settings_for(path, "--data.edge-features", "none").model.layer == "alone"


def test_labels_of_the_test_split_do_not_choose_the_layer():
    edges = np.random.default_rng(0).integers(0, 60, (2, 500))
    labels = np.arange(60) % 2
    changed = np.where(np.arange(60) < 40, labels, 1 - labels)
    for shown, same in ((40, True), (60, False)):
        one, other = (labelled_ends(edges, each, np.arange(shown)) for each in (labels, changed))
        assert np.array_equal(one, other) == same


def test_few_edges_between_labels_say_nothing():
    ends = np.stack([np.arange(LEAST_EDGES) % 2, 1 - np.arange(LEAST_EDGES) % 2])
    assert measure_homophily(ends) == pytest.approx(-1)
    assert measure_homophily(ends[:, 1:]) is None
    assert measure_homophily(0 * ends) is None  # of one class


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_ends_by_chance_are_not_related_and_others_are(classes):
    random = np.random.default_rng(0)
    chance = [are_related(random.integers(0, classes, (2, 400))) for _ in range(100)]
    assert np.mean(chance) <= 0.05
    for step in (0, 1):  # the same class, or the next one
        source = random.integers(0, classes, 400)
        ends = np.stack([source, (source + step) % classes])
        # a third of the edges follow the rule, the others are random
        ends[1] = np.where(random.random(400) < 1 / 3, ends[1], random.integers(0, classes, 400))
        assert are_related(ends)


def test_words_are_dropped_more_than_dense_features(tmp_path):
    words, dense = (RECIPE.defaults(planted(tmp_path, 0.9, words=each, name=str(each))).model for each in (True, False))
    assert words.hidden > dense.hidden and words.dropout > 0.8 > dense.dropout


def test_attention_has_a_dropout_of_its_own_unless_one_is_given(tmp_path):
    path = planted(tmp_path, 0.9, words=True)
    gcn, gat = settings_for(path).model, settings_for(path, "--model.layer", "gat").model
    assert gat.layer == "gat" and gat.dropout < gcn.dropout
    own = settings_for(path, "--model.layer", "gat", "--model.dropout", "0.1")
    assert own.model.dropout == 0.1


def test_a_small_graph_is_planned_in_steps_unless_a_budget_is_given(tmp_path):
    path = planted(tmp_path, 0.9)
    own = settings_for(path).train
    assert own.minutes is None and own.steps >= 200 and own.steps / own.evaluate_every >= 20
    timed = settings_for(path, "--train.minutes", "3").train
    assert (timed.minutes, timed.steps, timed.evaluate_every) == (3.0, None, None)
    counted = settings_for(path, "--train.steps", "7").train
    assert (counted.steps, counted.evaluate_every) == (7, None)


class Notes(Observer):
    def __init__(self):
        self.texts, self.test = [], {}

    def noted(self, text):
        self.texts.append(text)

    def tested(self, measures, count):
        self.test = measures


def test_unlike_neighbours_do_not_make_the_default_worse_than_the_features_alone(tmp_path):
    """The number of steps is said, too, because no minutes limit it."""
    split = np.random.default_rng(1).permutation(N)
    parts = {"train_idx": split[:90], "val_idx": split[90:150], "test_idx": split[150:]}
    path = planted(tmp_path, 0.1, **parts)
    seen, alone = Notes(), Notes()
    train.train("graphs", data=path, out=tmp_path / "net", observers=[seen], report=False)
    only = {"model.layer": "alone"}
    train.train("graphs", data=path, out=tmp_path / "alone", observers=[alone], report=False, options=only)
    assert seen.test["accuracy"] >= alone.test["accuracy"] > 0.7
    assert any("200 steps" in text and "--train.minutes" in text for text in seen.texts)

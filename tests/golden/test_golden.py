"""The same command with the same seed gives the same numbers as ever: losses, predictions, evaluations, what `look`
records. `found/` holds them, and `python -m tests.golden.record NAME` writes those of one case anew."""

import copy
import json

import pytest
import torch

from regard.attention.kernels.precision import CPU_MULTIPLIES
from tests.golden.cases import CASES, nothing
from tests.golden.record import FOUND, as_text, differences, run_case, run_command

# the first training of one case of each kind of data
SEEDED = (
    "text-next",
    "text-chat",
    "text-classes",
    "translation",
    "images-arrays",
    "sets-table",
    "graphs-nodes",
    "meshes",
    "series-forecast",
    "autoencoder-rows",
    "world-episodes",
)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def recorded(name):
    return json.loads((FOUND / f"{name}.json").read_text("utf-8"))


def as_recorded(found):
    return json.loads(as_text(found))


@pytest.mark.parametrize("name", CASES)
def test_commands_give_the_recorded_numbers(name, tmp_path):
    found = as_recorded(run_case(CASES[name], tmp_path))
    wrong = list(differences(recorded(name), found))
    assert not wrong, "\n".join([f"{len(wrong)} differences", *wrong[:20]])


def test_every_record_has_a_case():
    assert {file.stem for file in FOUND.iterdir()} == CASES.keys()
    assert sum(file.stat().st_size for file in FOUND.iterdir()) < 2_000_000


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_case_goes_from_training_to_a_page_and_to_an_error(case):
    verbs = {command.split()[0] for command in case.commands}
    assert {"train", "evaluate", "look"} <= verbs and case.errors
    assert case.data is nothing or verbs & {"predict", "generate"}


@pytest.mark.parametrize("name", SEEDED)
def test_another_seed_is_noticed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(CPU_MULTIPLIES, torch.bfloat16, False)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    CASES[name].data(tmp_path)
    command = CASES[name].commands[0]
    words = [*command.split(), "--train.seed", "1", "--no-report"]
    wrong = list(differences(recorded(name)[command], as_recorded(run_command(words))))
    assert any(each.startswith("losses") for each in wrong)


PLANTED = {
    "a loss that is off by 3e-4": lambda found: found["losses"].__setitem__(3, 1.0003),
    "one loss less": lambda found: found["losses"].pop(),
    "a loss that is not finite": lambda found: found["losses"].__setitem__(0, float("nan")),
    "another word": lambda found: found.__setitem__("said", "accuracy 97.0% of 30 rows"),
    "another whole number": lambda found: found.__setitem__("said", "accuracy 97.0% of 31 sets"),
    "a probability that is off by 0.01": lambda found: found["rows"][0].__setitem__(1, "0.52"),
    "another class": lambda found: found["rows"][0].__setitem__(0, "bad"),
    "a key that is new": lambda found: found.__setitem__("error", None),
    "nothing in place of a number": lambda found: found.__setitem__("score", None),
    "a truth in place of a number": lambda found: found.__setitem__("score", True),
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_differences_are_found(planted):
    was = {"losses": [1.0] * 5, "said": "accuracy 97.0% of 30 sets", "rows": [["good", "0.5012"]], "score": 1}
    now = copy.deepcopy(was)
    assert not list(differences(was, now))
    planted(now)
    assert len(list(differences(was, now))) == 1


def test_rounding_is_no_difference():
    was = {"losses": [1.0], "said": "accuracy 97.0%, p 0.5012", "score": 2.0}
    now = {"losses": [1.00005], "said": "accuracy 97.1%, p 0.5015", "score": 2.001}
    assert not list(differences(was, now))

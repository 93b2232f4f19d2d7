"""No false alarms: correct models of many libraries, three of each, are found to keep what they promise."""

from collections import Counter

import pytest

from regard.symmetry.check import check
from tests.symmetry.correct import everything

ALL = everything()
OFTEN = {name: each for name, each in ALL.items() if not each.seldom}


@pytest.mark.parametrize("name", OFTEN)
def test_a_correct_model_raises_no_alarm(name):
    for seed in range(3):
        model, inputs, options = OFTEN[name].made(seed)
        report = check(model, inputs, seed=seed, trials=3, **options)
        assert report.ok, f"seed {seed}\n{report}"
        held = {finding.law for finding in report if finding.measured == "holds"}
        assert held >= OFTEN[name].holds, f"seed {seed}: {sorted(OFTEN[name].holds - held)} not seen to hold\n{report}"


def test_there_are_models_of_every_library():
    libraries = Counter(name.partition(":")[0] for name in OFTEN)
    assert libraries.total() >= 36
    assert set(libraries) == {"regard", "torch", "Hugging Face", "x-transformers", "PyTorch Geometric"}
    assert min(libraries.values()) >= 5

"""Modules of torch.nn and what people wrap them in, checked by the plain call: no alarm, and no exception."""

import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.symmetry.check import check
from tests.symmetry.correct_plain import CASES, OPEN, D, rows


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_no_alarm(name):
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    report = check(model, inputs)
    assert report.ok, report
    assert report["determinism"].measured == "holds"
    assert report["neighbours"].measured == ("unknown" if name in OPEN else "holds"), report


def test_weights_without_a_size_are_one_line():
    with pytest.raises(RegardError, match="weight"):
        check(nn.LazyLinear(4), torch.randn(2, 3))


def test_a_scale_over_the_whole_batch_mixes_rows():
    """As dynamic quantisation has it."""

    class Quantised(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(D, D)

        def forward(self, x):
            scale = x.abs().max() / 7
            return self.line((x / scale).round() * scale)

    assert check(Quantised(), rows(3, 9))["neighbours"].measured == "broken"

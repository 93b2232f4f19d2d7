"""Values of a series at other times, beside numpy's interpolation and plain loops."""

import numpy as np
import pytest
import torch

from regard.nn.lags import bridge_gaps, bridge_seasons, carry_forward, look_around, running_scale, whole_scale


@pytest.fixture(scope="module")
def given():
    """Values with holes, and uneven times.   b n c, b n"""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2, 15, 3, generator=draw, dtype=torch.float64)
    known = torch.rand(2, 15, 3, generator=draw) < 0.7
    times = torch.rand(2, 15, generator=draw, dtype=torch.float64).add(0.2).cumsum(1)
    return x.masked_fill(~known, torch.nan), known, times


def test_the_last_known_value_is_carried_on(given):
    x, known, _ = given
    found = carry_forward(x, known)
    for b, i, c in np.ndindex(*x.shape):
        past = x[b, : i + 1, c][known[b, : i + 1, c]]
        assert found[b, i, c] == (past[-1] if len(past) else 0)


def test_gaps_lie_on_the_straight_lines_of_numpy(given):
    x, known, times = given
    found = bridge_gaps(x, known, times)
    for b, c in np.ndindex(2, 3):
        seen = known[b, :, c].numpy()
        straight = np.interp(times[b], times[b].numpy()[seen], x[b, :, c].numpy()[seen])
        np.testing.assert_allclose(found[b, :, c], straight, atol=1e-12)
    assert not bridge_gaps(x, torch.zeros_like(known), times).any()


def test_seasons_fill_gaps_of_what_repeats_itself():
    """A period of 5 on a slope: gaps are filled exactly, where straight lines are far off."""
    t = torch.arange(40, dtype=torch.float64)
    x = (torch.sin(2 * torch.pi * t / 5) + 0.1 * t)[None, :, None]
    known = torch.ones(1, 40, 1, dtype=torch.bool)
    known[:, 12:15] = False
    known[:, 30] = False
    holes = x.masked_fill(~known, torch.nan)
    end = t[None, -1:]
    torch.testing.assert_close(bridge_seasons(holes, known, t[None], 5, end), x)
    straight = bridge_gaps(holes, known, t[None])
    torch.testing.assert_close(bridge_seasons(holes, known, t[None], 1, end), straight)
    assert (straight - x).abs().max() > 0.5
    alone = torch.zeros_like(known)
    alone[:, 7] = True
    assert bridge_seasons(holes, alone, t[None], 5, end).isfinite().all()


@pytest.mark.parametrize("offsets", [(-3, -2, -1), (-1,), (-2, 1, 4)])
def test_other_moments_are_those_of_numpy(given, offsets):
    x, known, times = given
    x = carry_forward(x, known)
    found = look_around(x, offsets, times)
    for b, c in np.ndindex(2, 3):
        for k, offset in enumerate(offsets):
            np.testing.assert_allclose(
                found[b, :, c, k], np.interp(times[b] + offset, times[b], x[b, :, c]), atol=1e-12
            )
    equal = torch.arange(15.0, dtype=torch.float64).expand(2, 15)
    torch.testing.assert_close(look_around(x, offsets, None), look_around(x, offsets, equal))


def test_the_scale_up_to_a_step_is_that_of_its_past(given):
    x, known, _ = given
    large = x + 1e6  # a level that would cost all digits of a sum of squares
    mean, deviation = running_scale(large, known)
    for b, i, c in np.ndindex(*x.shape):
        past = large[b, : i + 1, c][known[b, : i + 1, c]]
        if len(past):
            assert mean[b, i, c] == pytest.approx(past.mean().item(), rel=1e-9)
            assert deviation[b, i, c] == pytest.approx(past.std(correction=0).item(), rel=1e-6, abs=1e-6)
    whole = whole_scale(large, known)
    torch.testing.assert_close(whole[1], deviation[:, -1:])
    constant = torch.full((1, 9, 1), 0.1)
    assert not running_scale(constant, torch.ones(1, 9, 1, dtype=torch.bool))[1].any()

"""Points in a plane, of whatever numbers: constant, not finite, huge, tiny, all alike but one."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.look.views.embeddings import _item, principal

N, D = 40, 6


def normal(seed=0):
    return torch.randn(N, D, generator=torch.Generator().manual_seed(seed))


def points_of(name):
    """Points that hurt, by their name."""
    x = normal()
    one, half = torch.zeros(N, D), torch.zeros(N, D)
    one[3, 2] = 1.0
    half[::2] = 1.0
    named = {
        "zero": torch.zeros(N, D),
        "constant": torch.full((N, D), 7.25),
        "large constant": torch.full((N, D), 3e38),
        "nan": torch.full((N, D), math.nan),
        "one nan": x.clone().index_put_((torch.tensor(1), torch.tensor(2)), torch.tensor(math.nan)),
        "inf": torch.full((N, D), math.inf),
        "both infinities": torch.where(x > 0, math.inf, -math.inf),
        "one inf": x.clone().index_put_((torch.tensor(1), torch.tensor(2)), torch.tensor(math.inf)),
        "huge": x * 1e38,
        "tiny": x * 1e-38,
        "denormal": x * 1e-45,
        "nearly constant": 1000 + x * 1e-7,
        "all but one alike": one,
        "two places": half,
        "a line": x[:, :1].expand(N, D).clone(),
        "one column": x[:, :1],
        "far apart": torch.cat((x[:20], x[20:] + 1e6)),
        "usual": x,
    }
    return named[name]


NAMES = ["zero", "constant", "large constant", "nan", "one nan", "inf", "both infinities", "one inf", "huge", "tiny",
         "denormal", "nearly constant", "all but one alike", "two places", "a line", "one column", "far apart",
         "usual"]  # fmt: skip


def test_no_numbers_crash_it():
    """In a process of its own: what went wrong here was a signal, not an error."""
    code = (
        "from tests.look.test_look_embeddings import NAMES, points_of\n"
        "from regard.look.views.embeddings import _item\n"
        "for name in NAMES:\n"
        "    made = _item(name, points_of(name), ['x'] * 40, tsne=True)\n"
        "    assert all(x is not None for row in made['tsne'] or [] for x in row), name\n"
        "print('alive')\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=120)
    assert done.returncode == 0 and done.stdout == "alive\n", (done.returncode, done.stderr[-500:])


@pytest.mark.parametrize("name", NAMES)
def test_all_places_are_finite(name):
    item = _item(name, points_of(name), ["x"] * N, tsne=False)
    numbers = [*item["explained"], *(each for row in item["pca"] for each in row)]
    assert len(item["pca"]) == N and all(each is not None and math.isfinite(each) for each in numbers)


def test_constant_points_have_no_neighbours_and_others_do():
    pytest.importorskip("sklearn")
    for name in ("zero", "constant", "nan", "inf", "two places", "nearly constant", "large constant"):
        assert _item(name, points_of(name), ["x"] * N, tsne=True)["tsne"] is None, name
    found = _item("usual", points_of("usual"), ["x"] * N, tsne=True)["tsne"]
    assert len(found) == N and all(math.isfinite(each) for row in found for each in row)


def test_few_points_and_no_points():
    for n in (0, 1, 2, 3, 11):
        flat, share = principal(normal()[:n])
        assert flat.shape == (n, 2) and share.isfinite().all()

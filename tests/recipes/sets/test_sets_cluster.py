"""Amortised clustering: the likelihood is scipy's, padding does not count, and learning it makes points likelier."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp
from torch import nn

from regard.data.batch import Batch
from regard.recipes.sets.cluster import LEAST, Mixture, read_mixture


class Says(nn.Module):
    """Puts out the same mixture for every set."""

    def __init__(self, out):
        super().__init__()
        self.out = nn.Parameter(out)

    def forward(self, x, *, real=None):
        return self.out.expand(len(x), -1)


def test_likelihood_is_that_of_scipy():
    torch.manual_seed(0)
    out, points = torch.randn(2, 15), torch.randn(2, 6, 2)
    found = read_mixture(out, 3, 2)
    ours = found.log_likelihood(points)
    raw = out.double().numpy().reshape(2, 3, 5)
    for b in range(2):
        share = np.exp(raw[b, :, 0]) / np.exp(raw[b, :, 0]).sum()
        wide = np.log1p(np.exp(raw[b, :, 3:])) + LEAST
        each = [
            np.log(share[k])
            + stats.multivariate_normal(raw[b, k, 1:3], np.diag(wide[k] ** 2)).logpdf(points[b].numpy())
            for k in range(3)
        ]
        np.testing.assert_allclose(ours[b].numpy(), logsumexp(each, axis=0), rtol=1e-4)


def test_padding_does_not_count_and_every_point_does():
    task, model = Mixture(3), Says(torch.randn(15, generator=torch.Generator().manual_seed(0)))
    points = torch.randn(2, 6, 2)
    real = torch.arange(6) < torch.tensor([[6], [2]])
    loss, count = task.loss(
        model, Batch({"x": torch.where(real[..., None], points, 50.0), "real": real}, torch.zeros(2))
    )
    one, six = task.loss(model, Batch({"x": points[:1]}, torch.zeros(1)))
    other, two = task.loss(model, Batch({"x": points[1:, :2]}, torch.zeros(1)))
    assert (count, six, two) == (8, 6, 2)
    torch.testing.assert_close(loss, (6 * one + 2 * other) / 8)
    batches = [Batch({"x": points[:1]}, torch.zeros(1)), Batch({"x": points[1:, :2]}, torch.zeros(1))]
    measures = task.measure(model, batches)
    assert measures["loss"] == pytest.approx(loss.item()) and measures["log-likelihood"] == -measures["loss"]
    assert task.measure(model, []) == {}


def test_gradients_find_the_clusters():
    points = torch.cat((torch.randn(1, 40, 2) * 0.1 + 2, torch.randn(1, 40, 2) * 0.1 - 2), 1)
    task, model = Mixture(2), Says(torch.tensor([0.0, 1, 1, 0, 0, 0, -1, -1, 0, 0]))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(150):
        loss, _ = task.loss(model, Batch({"x": points}, torch.zeros(1)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = read_mixture(model.out[None], 2, 2)
    torch.testing.assert_close(found.middle[0].detach(), torch.tensor([[2.0, 2], [-2, -2]]), atol=0.1, rtol=0)
    torch.testing.assert_close(found.share.exp()[0].detach(), torch.tensor([0.5, 0.5]), atol=0.05, rtol=0)


def test_a_model_with_other_outputs():
    with pytest.raises(ValueError, match=r"4 Gaussians.*2.*20 outputs.*\(3, 5\)"):
        Mixture(4).loss(Says(torch.zeros(5)), Batch({"x": torch.zeros(3, 6, 2)}, torch.zeros(3)))

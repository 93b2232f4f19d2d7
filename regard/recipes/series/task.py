"""What is learned of series that go on: quantiles of what comes, or of what is hidden, by the pinball loss.

pinball_q(y, ŷ) = 2 max(q (y − ŷ), (q − 1)(y − ŷ)),   at the median it is the absolute error
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.nn.lags import carry_forward
from regard.training.scores import Count, Sums, number_batches
from regard.training.tasks import call

TIMES = 6  # that a window is looked at in an evaluation of gaps, each time with others


class QuantileTask(ABC):
    """The mean pinball loss of all that is asked and known."""

    best_by = "loss"

    def __init__(self, quantiles: tuple[float, ...]) -> None:
        self.quantiles = quantiles

    @abstractmethod
    def compare(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Quantiles, what is true, and which of it is known.   ... q c, ... c, ... c"""

    def ask(self, batch: Batch) -> Batch:
        """What is asked of a batch in training."""
        return batch

    def ask_always(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """What is asked in an evaluation, always the same."""
        return batches

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        out, wanted, known = self.compare(model, self.ask(batch))
        count = known.sum()
        return pinball(out, wanted, known, self.quantiles).sum() / count.clamp(min=1), count

    def measure(self, model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
        """The loss, and the share of the truth between the lowest and the highest quantile."""
        sums = Sums()
        for batch in self.ask_always(batches):
            out, wanted, known = self.compare(model, batch)
            inside = (wanted >= out[..., 0, :]) & (wanted <= out[..., -1, :]) & known
            lost = pinball(out, wanted, known, self.quantiles).sum()
            sums.add(known.sum(), **{"loss": lost, "in the band": inside.sum()})
        return sums.means()


class ForecastTask(QuantileTask):
    """All steps ahead.   out b p h q c, target b p h (c + 1), the last a time after now"""

    def __init__(self, quantiles: tuple[float, ...], *, equal: bool) -> None:
        super().__init__(quantiles)
        self.equal = equal

    def compare(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Forecasts at the times of the targets.   b p h q c, b p h c, b p h c"""
        out = self.at(call(model, batch).float(), batch)
        wanted, ahead = batch.target[..., :-1], batch.target[..., -1]
        known = ~wanted.isnan() & (ahead <= out.shape[2] + 1e-6)[..., None]
        return out, wanted.nan_to_num(0.0), known

    def at(self, out: Tensor, batch: Batch) -> Tensor:
        """Forecasts of equal steps ahead, at the times of the targets.   b p h q c"""
        if self.equal:
            return out
        now = carry_forward(batch["x"], ~batch["x"].isnan())
        now = torch.take_along_dim(now, batch["asked"][..., None], 1)
        return at_times(out, now, batch.target[..., -1])


def at_times(out: Tensor, now: Tensor, ahead: Tensor) -> Tensor:
    """Forecasts 1, 2, … steps ahead, at other times: on straight lines from now on.
    out b p h q c, now b p c, ahead b p k -> b p k q c"""
    b, p, h, q, c = out.shape
    begin = now[:, :, None, None].expand(b, p, 1, q, c)
    grid = torch.cat((begin, out), 2)
    ahead = ahead.nan_to_num(0.0).clamp(0, h)
    left = ahead.floor().clamp(max=h - 1)
    share = (ahead - left)[..., None, None].to(out.dtype)
    place = left.long()[..., None, None]
    start, stop = (torch.take_along_dim(grid, place + k, 2) for k in (0, 1))
    return start + share * (stop - start)


class ImputeTask(QuantileTask):
    """Steps that are hidden from the model.   out b n q c, target b n c

    A share of the known steps is hidden, in spans: of all channels, or of one. Training draws from torch's
    generator, which the loop seeds by (seed, step). What is hidden in an evaluation is always the same.
    """

    def __init__(self, quantiles: tuple[float, ...], *, share: float, longest: int, seed: int = 0) -> None:
        super().__init__(quantiles)
        self.share, self.longest, self.seed = share, longest, seed

    def compare(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        out = call(model, batch).float()
        return out, batch.target.nan_to_num(0.0), ~batch.target.isnan()

    def ask(self, batch: Batch) -> Batch:
        return self.hide(batch)

    def ask_always(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Each batch some times over, with other steps hidden; the same ones in every evaluation."""
        for number, batch in number_batches(batches):
            for again in range(TIMES):
                seed = self.seed * 1_000_003 + TIMES * number + again
                yield self.hide(batch, torch.Generator().manual_seed(seed))

    def hide(self, batch: Batch, generator: torch.Generator | None = None) -> Batch:
        """The batch with NaN in place of some known values; the target has NaN everywhere else."""
        x = batch["x"]
        b, n, c = x.shape
        longest = max(1, min(self.longest, n // 4))
        length = torch.randint(1, longest + 1, (b, 1, 1), generator=generator)
        # each span begins at a step, so that a share of all steps is in one
        begins = torch.rand(b, n, c, generator=generator) < 1 - (1 - self.share) ** (1 / length)
        together = torch.rand(b, 1, 1, generator=generator) < 0.5
        begins = torch.where(together, begins[..., :1], begins)
        steps = torch.arange(n)[:, None]
        last = torch.where(begins, steps, -n).cummax(1).values
        hidden = (steps - last < length).to(x.device)
        hidden &= ~batch.target.isnan()  # known, and asked for
        target = batch.target.masked_fill(~hidden, torch.nan)
        return batch.replace(target=target, x=x.masked_fill(hidden, torch.nan))


def pinball(out: Tensor, wanted: Tensor, known: Tensor, quantiles: tuple[float, ...]) -> Tensor:
    """The loss of each number, the mean over quantiles; 0 where it is not known.   ... q c, ... c -> ... c"""
    q = torch.tensor(quantiles, dtype=out.dtype, device=out.device)[:, None]
    apart = wanted[..., None, :] - out
    lost = 2 * torch.maximum(q * apart, (q - 1) * apart).mean(-2)
    return lost.masked_fill(~known, 0.0)

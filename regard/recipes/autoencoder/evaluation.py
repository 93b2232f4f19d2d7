"""How good an autoencoder is: the ELBO and its parts, log p(x) by importance sampling, the error of
reconstructions; and a line if its codes say nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.errors import RegardError
from regard.models.elbo import weighted_bound
from regard.recipes.autoencoder.task import SEED, BoundSums, Reconstruct
from regard.recipes.evaluation import Evaluation
from regard.recipes.job import Split
from regard.runs.number_format import say_number

COLLAPSED = 0.05  # nats of the whole KL, below which codes say nothing of inputs
NUMBERS_AT_ONCE = 2**24  # that a decoder gives together
SAID = 12  # dimensions whose KL is told


@dataclass(frozen=True, eq=False, kw_only=True)
class CodeEvaluation(Evaluation):
    """Measures, with the KL of each dimension of a code."""

    kl: tuple[float, ...] = ()  # nats, the largest first; empty: codes have no variance
    samples: int = 0  # by which log p(x) was estimated; 0: it was not

    def to_json(self) -> dict[str, Any]:
        found = super().to_json()
        if self.kl:
            found["KL of each dimension"] = list(self.kl)
        if self.samples:
            found["samples"] = self.samples
        return found

    def format(self) -> str:
        more = self.details()
        return f"{super().format()}\n{more}" if more else super().format()

    def details(self) -> str:
        lines = []
        if self.samples:
            lines.append(
                f"log p(x) is estimated from below by {self.samples:,} importance samples of each input; more "
                "samples raise it"
            )
        if self.kl:
            told = "  ".join(say_number(each, 3) for each in self.kl[:SAID])
            more = len(self.kl) - SAID
            rest = f"  … and {more} more" if more > 0 else ""
            lines.append(f"KL by dimension, in nats: {told}{rest}")
        if self.kl and sum(self.kl) < COLLAPSED:
            lines.append(
                f"the posterior has collapsed: the KL is {say_number(sum(self.kl), 2)} nats, so codes say nothing of "
                "the inputs; lower --model.beta, or give --model.warmup 2000 or --model.free-bits 0.1"
            )
        return "\n".join(lines)


@torch.no_grad()
def evaluate_codes(model: nn.Module, task: Reconstruct, split: Split, samples: int = 0) -> CodeEvaluation:
    """The measures of a split, in one pass; with samples, also log p(x)."""
    whole: Any = model
    sums, total = BoundSums(whole), 0.0
    estimates = samples > 0 and whole.variational
    for number, batch in enumerate(split.batches()):
        draw = torch.Generator().manual_seed(SEED + number)
        x = task.processor.numbers(batch["x"], draw)
        sums.add(x, draw)
        if estimates:
            total += float(estimate_log_p(whole, x, samples, draw).double().sum())
    measures = sums.measures()
    if not measures:
        raise RegardError(f"cannot evaluate: the {split.name} split is empty; give data with --data")
    if not all(torch.tensor(list(measures.values())).isfinite()):
        raise RegardError(
            f"cannot evaluate: a measure of the {split.name} split is not a number; the data holds values that are "
            "too large for the model, or its training diverged"
        )
    if estimates:
        measures["log p(x)"] = total / sums.count
    kl = sorted(sums.kl_each, reverse=True) if whole.variational else []
    return CodeEvaluation(
        split=split.name,
        count=sums.count,
        unit=split.unit,
        measures=measures,
        notes=split.notes,
        kl=tuple(kl),
        samples=samples if estimates else 0,
    )


def estimate_log_p(model: Any, x: torch.Tensor, samples: int, draw: torch.Generator) -> torch.Tensor:
    """log mean w over so many samples, a part of them at once.   b shape -> b"""
    at_once = max(1, NUMBERS_AT_ONCE // max(1, x.numel()))
    found = []
    for start in range(0, samples, at_once):
        many = min(at_once, samples - start)
        found.append(model.importance_weights(x, many, generator=draw))
    return weighted_bound(torch.cat(found))

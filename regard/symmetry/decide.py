"""Is it a break, or rounding? The same trials in float64 decide: there rounding shrinks, and a break does
not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import torch

from regard.symmetry.law import Law, Measure
from regard.symmetry.model_under_test import CannotTell, Subject, short
from regard.symmetry.state import log_suppressed

TOLERANCE = {
    torch.float64: 1e-9,  # 2⁻⁵³ a rounding: a million of them in a row are still less
    torch.float32: 1e-4,  # 2⁻²⁴ a rounding, and networks of random weights are seen to add up to a few 1e-6
    torch.bfloat16: 5e-2,  # 2⁻⁸ a rounding
    torch.float16: 1e-2,  # 2⁻¹¹ a rounding
}
# differences that a kernel may make of the same numbers in other groups: about twice a rounding, but of float32, where casts
# to less are common
ROUNDS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 1e-2, torch.float16: 2e-3}
FEW = 2  # trials that decide for a model whose runs take long
SURE = 0.1  # no rounding is as large as this
NEAR = 30.0  # within this factor of the tolerance, a dtype does not decide alone
SHRINKS = 1e-3  # what is so much smaller in float64 than in float32 is rounding, or a root of it (2⁻¹⁴·⁵)


@dataclass(frozen=True, eq=False)
class Decision:
    """What was measured, in the dtype that decides."""

    measure: Measure
    tolerance: float
    dtype: torch.dtype
    reason: str | None = None

    @property
    def broken(self) -> bool:
        return self.measure.error > self.tolerance


class Decider:
    """Measures laws of one subject."""

    def __init__(self, subject: Subject, seed: int) -> None:
        self.subject, self.seed = subject, seed
        self.copies: dict[tuple[torch.dtype, bool], Subject | None] = {}

    def decide(self, law: Law, tolerance: float, dtype: torch.dtype, trials: int) -> Decision:
        """The largest error, in float64 where it is near its tolerance, or beyond."""
        measure = law.measure(self.subject, Random(self.seed), trials)
        own = Decision(measure, tolerance, dtype)
        least = tolerance if dtype == torch.float64 else tolerance / NEAR
        if law.tolerance is not None or not least < measure.error < max(SURE, 4 * tolerance):
            return own
        near = [k for k, error in enumerate(measure.errors) if error > least]
        if self.subject.heavy:
            near = sorted(near, key=lambda k: -measure.errors[k])[:FEW]
        again = self.measure_in(torch.float64, law, trials, set(near))
        if again is None:
            if own.broken and measure.error < NEAR * tolerance:
                raise CannotTell(
                    f"the error is {measure.error:.1e}, which may be rounding in {short(dtype)}, and the "
                    "model does not run in float64, which would tell"
                )
            return own
        again = replace(again, length=measure.length, rows=measure.rows)
        wide = TOLERANCE[torch.float64]
        if again.error <= wide:
            if measure.trial is not None and measure.trial.still and measure.error > ROUNDS[dtype]:
                return self.decide_still(own, law, trials, set(near))
            return Decision(again, wide, torch.float64, _rounding(own, again))
        less: Measure | None = measure
        if dtype == torch.float64:  # there is nothing wider for it to shrink in
            less = self.measure_in(torch.float32, law, trials, set())
        if less is not None and again.absolute <= SHRINKS * less.absolute:
            own = Decision(less, TOLERANCE[torch.float32], torch.float32)
            return Decision(again, again.error, torch.float64, _rounding(own, again))
        return Decision(again, wide, torch.float64)

    def decide_still(self, own: Decision, law: Law, trials: int, near: set[int]) -> Decision:
        """Not even rounding should differ, and in float64 nothing does: with the casts that the model makes, perhaps."""
        found = self.measure_in(torch.float64, law, trials, near, widened=False)
        if found is not None and found.error > TOLERANCE[torch.float32]:
            found = replace(found, length=own.measure.length, rows=own.measure.rows)
            reason = "it comes of a cast inside the model, to a dtype in which places or sizes become equal"
            return Decision(found, TOLERANCE[torch.float64], torch.float64, reason)
        raise CannotTell(
            f"the error is {own.measure.error:.1e} in {short(own.dtype)} although the same numbers go in, and there is none "
            f"in float64: places or sizes may become equal in {short(own.dtype)}"
        )

    def measure_in(
        self, dtype: torch.dtype, law: Law, trials: int, near: set[int], widened: bool = True
    ) -> Measure | None:
        """Some trials, or all, in another dtype; None where the model does not run in it. widened: casts inside the model
        are widened, too"""
        subject = self.copy(dtype, widened)
        if subject is None:
            return None
        try:
            if not near:  # all of them
                return law.measure(subject, Random(self.seed), trials)
            return law.measure(subject, Random(self.seed), trials, near)
        except Exception as error:
            log_suppressed(error, f"measuring {law.name} in {short(dtype)}")
            return None

    def copy(self, dtype: torch.dtype, widened: bool = True) -> Subject | None:
        """A copy in this dtype, or None where the model cannot be copied or does not run in it."""
        if (dtype, widened) not in self.copies:
            try:
                made = self.subject.in_dtype(dtype, widened)
                made.plain(made.short)
                self.copies[dtype, widened] = made
            except Exception as error:
                log_suppressed(error, f"running a copy in {short(dtype)}")
                self.copies[dtype, widened] = None
        return self.copies[dtype, widened]


def _rounding(own: Decision, again: Measure) -> str | None:
    """Said where a dtype alone would have called it a break."""
    if not own.broken:
        return None
    return (
        f"rounding: the error is {own.measure.error:.1e} in {short(own.dtype)} and shrinks to "
        f"{again.error:.1e} in float64"
    )

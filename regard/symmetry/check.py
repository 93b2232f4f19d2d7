"""The measurement: does a model keep the laws that it promises? For any PyTorch module.

    report = check(model, inputs, laws=["permutation", "causality"])
    assert report.ok

Errors are relative, of seeded trials, and held against a tolerance by dtype. Where they come near it, the
same trials are run again in float64, all the way (see `float64.py`), which decides: rounding shrinks there,
and a break does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError, did_you_mean
from regard.symmetry.compare import equal, relative
from regard.symmetry.decide import TOLERANCE, Decider
from regard.symmetry.gauge import GAUGE
from regard.symmetry.groups import Group
from regard.symmetry.hygiene import HYGIENE
from regard.symmetry.infer_roles import settle
from regard.symmetry.law import Law
from regard.symmetry.laws import NAMED, Named, Symmetry
from regard.symmetry.locate import MOST_PATCHES, locate
from regard.symmetry.model_under_test import CannotTell, Subject, Vacuous, copied, first_line, short
from regard.symmetry.reach import PRECISION, REACH
from regard.symmetry.report import Finding, Report
from regard.symmetry.roles import (
    Inputs,
    Roles,
    Stream,
    guess,
    inputs_by_name,
    set_aside_misfits,
    takes_one_dict,
    unknown_names,
)
from regard.symmetry.state import Snapshot, eval_state, log_suppressed, working_copy

FEW = 3  # trials, and modules put right while locating, of a law that is neither promised nor asked for
LAWS: tuple[Law, ...] = (*NAMED, GAUGE, *HYGIENE, PRECISION, REACH)
ALSO_IN_TRAINING = ("padding", "neighbours")
DRAWS = "the model gives something else each time in training: random numbers, or state that it updates"


def check(
    model: nn.Module | Callable[..., Any],
    inputs: Any,
    *,
    symmetry: Group | Symmetry | Sequence[Symmetry] | None = None,
    laws: Iterable[str | Law] | None = None,
    roles: Roles | None = None,
    seed: int = 0,
    trials: int = 8,
    dtype: torch.dtype | None = None,
    length: int | None = None,
    name: str = "",
) -> Report:
    """Measure laws of a model on inputs like those given: a tensor, a tuple, or a dict by the names of its
    forward.

    symmetry   what the model promises: a group (what it lacks is declared broken), or Symmetry objects. None:
               what the model itself declares as `model.symmetry`, if it does.
    laws       names or Law objects; None: all that apply. A law of hygiene that is named here is taken as
               promised.
    roles      what each input is, where names and shapes do not say it.
    dtype      check a copy of the model in this dtype; None: the model as it is.
    length     try so many tokens: those given, over again from the start. None: as many as are given.

    A copy of the model is measured in eval mode, `padding` and `neighbours` once more in training with
    dropout at 0. Weights, modes, buffers, attributes and random numbers of the model are left as they were.
    """
    if trials < 1:
        raise RegardError(f"trials must be at least 1, got {trials}")
    module = model if isinstance(model, nn.Module) else Called(model)
    for weight, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise RegardError(f"the weight {weight!r} has no size yet; run the model once on its inputs, then check it")
    given = inputs_by_name(module, inputs)
    said = roles if roles is not None else guess(module, given)
    whole = takes_one_dict(module, given)
    if not whole:
        unknown_names(module, given)
    if whole:
        said = replace(said, whole=True)
    for missing in sorted(s.tokens for s in said.streams if s.tokens not in given):
        raise RegardError(f"roles name the tokens {missing!r}, and the inputs are {', '.join(given)}")
    said = set_aside_misfits(said, given)
    if symmetry is None:
        symmetry = getattr(module, "symmetry", None)
    with working_copy(module) as model_copy:
        own = copied({name: x for name, x in given.items() if x is not None})
        subject = Subject(model_copy, own, said, length)
        if dtype is not None:
            subject = subject.in_dtype(dtype)
        guessed = roles is None and not isinstance(getattr(module, "roles", None), Roles)
        checking = Checking(subject, symmetry, seed, trials, guessed)
        findings = checking.findings(laws)
    return Report(tuple(findings), seed, name or type(model).__name__, checking.notes())


class Called(nn.Module):
    """A plain function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if not callable(function):
            raise RegardError(f"model must be a torch.nn.Module or a function, got {type(function).__name__}")
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Checking:
    """One check of one model."""

    def __init__(self, subject: Subject, symmetry: Any, seed: int, trials: int, guessed: bool = False) -> None:
        self.subject, self.seed, self.trials, self.guessed = _unpadded(subject), seed, trials, guessed
        self.group = symmetry if isinstance(symmetry, Group) else None
        explicit: list[Symmetry] = []
        if isinstance(symmetry, Symmetry):
            explicit = [symmetry]
        elif not self.group and symmetry is not None:
            explicit = list(symmetry)
        for each in explicit:
            if not isinstance(each, Symmetry):
                raise RegardError(f"symmetry must be a group or Symmetry objects, got {type(each).__name__}")
        self.explicit: list[Symmetry] = explicit

    def findings(self, laws: Iterable[str | Law] | None) -> list[Finding]:
        self.named = laws is not None
        with eval_state(self.subject.model, seed=self.seed) as state:
            self.subject = replace(self.subject, start=state)
            self.begin(state)
            asked = self.asked(laws)
            empty, shaky = self.empty(), self.shaky()
            found = []
            for law, declared in asked:
                state.restore()
                if law.name == "determinism" or not shaky:
                    found.append(self.finding(law, declared, empty))
                else:
                    found.append(self.untold(law, declared, shaky))
        found = [replace(each, named=self.named) for each in found]
        known = {each.law for each in found if each.measured != "unknown"}
        again = [(law, declared) for law, declared in asked if law.name in ALSO_IN_TRAINING and law.name in known]
        if again and not empty:
            with eval_state(self.subject.model, seed=self.seed, training=True):
                found += self.in_training(again)
        return found

    def notes(self) -> tuple[str, ...]:
        """What a reader should know: that the forward changes its inputs, and how they were read where that is not the
        usual way."""
        written = tuple(
            f"the forward writes into its input {name!r}, which the caller still holds" for name in self.subject.writes
        )
        return (*written, *self._read_otherwise())

    def _read_otherwise(self) -> tuple[str, ...]:
        stream = self.subject.roles.stream
        if not self.guessed or stream is None or stream.axis == 1:
            return ()
        axes = "tokens, rows, features" if stream.axis == 0 else "rows, channels, steps"
        shape = tuple(self.subject.inputs[stream.tokens].shape)
        return (f"{stream.tokens} {shape} is read as {axes}; if its rows come first and then its tokens, give roles=",)

    def begin(self, state: Snapshot) -> None:
        """The first runs: does it take these inputs, so many tokens, and what is each of them?"""
        given = copied(self.subject.inputs)
        try:
            _ = self.subject.output
        except Exception as error:
            words = f"the model does not run on the inputs given: {first_line(error)}"
            if self.subject.roles.whole:
                names = ", ".join(self.subject.inputs)
                words += f" (they are {names}, which are no names of its forward, and were given as one dict)"
            raise RegardError(words) from error
        changed = tuple(
            name for name, x in given.items() if isinstance(x, Tensor) and not equal(x, self.subject.inputs[name])
        )
        if changed:
            self.subject = replace(self.subject, inputs=given, writes=changed)
            state.restore()
        if self.guessed:
            self.subject = replace(self.subject, roles=settle(self.subject))
            state.restore()
        if self.subject.asked_length is not None:
            self.subject = self.lengthened(self.subject, self.subject.asked_length)
        self.decider = Decider(self.subject, self.seed)

    def lengthened(self, subject: Subject, n: int) -> Subject:
        """The same with n tokens in every stream."""
        if not subject.roles.streams:
            raise RegardError(f"length={n} is a number of tokens, and none of the inputs is known to be tokens")
        inputs = subject.inputs
        try:
            for stream in subject.roles.streams:
                inputs = subject.sized(inputs, n, stream)
            longer = replace(subject, inputs=inputs)
            _ = longer.output
        except Exception as error:
            raise RegardError(f"the model does not run on {n} tokens: {first_line(error)}") from error
        return longer

    def asked(self, laws: Iterable[str | Law] | None) -> list[tuple[Law, str | None]]:
        """The laws to be measured, each with what is declared of it."""
        if laws is None:
            overridden = {law.name for law in self.explicit}
            known = [law for law in LAWS if law.name not in overridden and law.wanted(self.subject, self.group)]
            return [(law, self.declared(law)) for law in (*self.explicit, *known)]
        found: list[tuple[Law, str | None]] = []
        for law in [laws] if isinstance(laws, str) else laws:
            each = law if isinstance(law, Law) else self.by_name(law)
            declared = self.declared(each)
            if declared is None and each.kind == "hygiene":
                declared = "holds"
            found.append((each, declared))
        return found

    def by_name(self, name: str) -> Law:
        for law in (*self.explicit, *LAWS):
            if law.name == name:
                return law
        names = [law.name for law in LAWS]
        raise RegardError(f"there is no law {name!r}; {did_you_mean(name, names)}there are {', '.join(names)}")

    def declared(self, law: Law) -> str | None:
        return law.declared(self.subject, self.group)

    def empty(self) -> str | None:
        """Why nothing can be learned from this model's output, if so."""
        subject, out = self.subject, self.subject.output
        if not out.is_floating_point():
            return None
        if not torch.isfinite(out).any():
            return "the output is not finite"
        draw = torch.Generator().manual_seed(self.seed)
        other, out = dict(subject.short), subject.plain(subject.short)
        for name in subject.values(other):
            other[name] = subject.other_values(other[name], draw)
        try:
            changed = subject.run(other)
        except Exception as error:  # values that this model does not take; then only its spread is known
            log_suppressed(error, "trying other values")
            changed = None
        if out.numel() > 1 and (out == out.flatten()[0]).all():
            return "the output is constant: all its numbers are equal"
        if subject.values(other) and changed is not None and torch.equal(changed, out):
            return "the output is constant: it does not depend on the input"
        return None

    def shaky(self) -> str | None:
        """Why two runs cannot be compared, if so."""
        for inputs in (self.subject.short, self.subject.inputs):
            once, again = self.subject.plain(inputs), self.subject.run(inputs)
            if relative(once, again) > TOLERANCE.get(again.dtype, 0.0):
                return "the model gives something else each time, so that nothing can be compared (see determinism)"
        return None

    def twice(self) -> tuple[Tensor, Tensor]:
        return self.subject.plain(self.subject.short), self.subject.run(self.subject.short)

    def untold(self, law: Law, declared: str | None, reason: str, suffix: str = "") -> Finding:
        implied = law.kind == "hygiene" and law.name not in self.subject.roles.promises
        return Finding(law.name + suffix, None if implied else declared, "unknown", reason=reason, by=self.by(law))

    def finding(self, law: Law, declared: str | None, empty: str | None, suffix: str = "") -> Finding:
        began = time.perf_counter()
        dtype = self.subject.plain(self.subject.short).dtype
        discrete = not (dtype.is_floating_point or dtype.is_complex)
        dtype = dtype.to_real() if dtype in TOLERANCE or dtype.is_complex else torch.float32
        tolerance = TOLERANCE[dtype] if law.tolerance is None else law.tolerance
        found = Finding(
            law.name + suffix, declared, "unknown", tolerance=tolerance, dtype=short(dtype), by=self.by(law)
        )
        if empty:
            return replace(found, measured="vacuous", reason=empty, tolerance=None)
        implied = law.kind == "hygiene" and law.name not in self.subject.roles.promises
        # of interest, but nobody relies on it
        idle = declared == "not promised" or (declared is None and not self.named)
        trials = min(self.trials, FEW) if idle else self.trials
        try:
            decided = self.decider.decide(self.law(law), tolerance, dtype, trials)
        except CannotTell as reason:
            declared = None if implied else declared
            found = replace(found, declared=declared, reason=str(reason), tolerance=None)
        except Vacuous as reason:
            found = replace(found, measured="vacuous", reason=str(reason), tolerance=None)
        except Exception as error:  # a model may refuse what a law asks of it
            log_suppressed(error, f"measuring {law.name}")
            declared = None if implied else declared
            found = replace(found, declared=declared, reason=f"the model refused: {first_line(error)}", tolerance=None)
        else:
            measure, broken = decided.measure, decided.broken
            found = replace(
                found,
                measured="broken" if broken else "holds",
                error=measure.error,
                tolerance=decided.tolerance,
                worst=measure.what,
                dtype=short(decided.dtype),
                length=measure.length,
                rows=measure.rows,
                reason=decided.reason,
            )
            if discrete and not broken and law.name not in ("reach", "determinism"):
                words = "the output is whole numbers or true and false, which hide small differences; say with "
                words += "Roles(read=...) which real numbers they are made of"
                declared = None if implied else declared
                found = replace(found, declared=declared, measured="unknown", reason=words, error=None)
            if broken:
                patience = FEW if idle else MOST_PATCHES
                wide = self.decider.copy(torch.float64)
                place = locate(
                    self.law(law), measure, self.subject, wide, self.seed, trials, decided.tolerance, patience
                )
                why = "; ".join(each for each in (place.reason, decided.reason) if each) or None
                found = replace(found, layer=place.layer, exact=place.exact, after=place.after, reason=why)
        return replace(found, seconds=round(time.perf_counter() - began, 3))

    def by(self, law: Law) -> str | None:
        """What is tried of a symmetry, where that is less than its name says."""
        try:
            found = self.law(law)
        except CannotTell:
            return None
        if isinstance(found, Symmetry):
            return found.by
        return None

    def law(self, law: Law) -> Law:
        return law.of(self.subject, self.group) if isinstance(law, Named) else law

    def in_training(self, laws: list[tuple[Law, str | None]]) -> list[Finding]:
        """Measured once more as the model is in training: batch norm then mixes rows, by its nature."""
        if self.subject.heavy:
            self.trials = min(self.trials, FEW)
        self.subject = self.subject.anew(brief=self.subject.heavy, start=None)
        self.decider = Decider(self.subject, self.seed)
        before = self.random_state()
        try:
            once, again = self.twice()
        except Exception as error:
            return [Finding(f"{law.name} in training", None, "unknown", reason=first_line(error)) for law, _ in laws]
        draws = any(not torch.equal(*pair) for pair in zip(before, self.random_state(), strict=True))
        mixes = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.subject.model.modules())
        found = []
        for law, declared in laws:
            name = f"{law.name} in training"
            said = self.subject.roles.promises.get(name)
            if said is None:
                said = "not promised" if mixes else declared
            random = Finding(name, None, "unknown", reason=DRAWS)
            if not torch.equal(once, again):
                found.append(random)
                continue
            measured = self.finding(law, said, None, suffix=" in training")
            # two runs may be equal by chance, where numbers that are drawn seldom change anything
            if draws and measured.measured == "broken" and said != "not promised":
                measured = random
            found.append(measured)
        return found

    def random_state(self) -> list[Tensor]:
        """Where torch's own random numbers stand, on every device of the model."""
        devices = {p.device for p in self.subject.model.parameters() if p.device.type == "cuda"}
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(each) for each in sorted(devices, key=str))]


def _unpadded(subject: Subject) -> Subject:
    """Inputs without the padding they came with: laws put their own. Each row is as long as the longest: its
    real tokens, over again from the start."""
    inputs = subject.inputs
    for stream in subject.roles.streams:
        mask = inputs.get(stream.mask) if stream.mask else None
        if not isinstance(mask, Tensor) or mask.dim() != 2 or mask.is_floating_point():
            continue
        real = ~mask.bool() if stream.hides else mask.bool()
        if real.all() or not real.any(1).all():
            continue
        counts = real.sum(1)
        first = real.long().argmax(1)  # where the real tokens begin
        slots = torch.arange(int(counts.max()), device=real.device)
        index = first[:, None] + slots % counts[:, None]  # b n
        if not real.gather(1, index).all():  # real tokens with padding between them
            index = first.min() + slots.expand(len(real), -1) % int(counts.min())
        inputs = _gathered(subject, inputs, stream, index)
    return replace(subject, inputs=inputs)


def _gathered(subject: Subject, inputs: Inputs, stream: Stream, index: Tensor) -> Inputs:
    """Each row with the tokens of its own index.   index: b n"""
    out = dict(inputs)
    for name, x in inputs.items():
        axis = subject.token_axis(name, x, stream) if isinstance(x, Tensor) else None
        if axis is None:
            continue
        if name == stream.places:  # those of the row that needs none over again
            out[name] = x.narrow(axis, 0, index.shape[1])
            continue
        rows_first = x.transpose(0, 1) if axis == 0 else x.transpose(1, axis)
        where = index.view(*index.shape, *[1] * (rows_first.dim() - 2)).expand(*index.shape, *rows_first.shape[2:])
        taken = rows_first.gather(1, where.to(x.device))
        out[name] = taken.transpose(0, 1) if axis == 0 else taken.transpose(1, axis)
    return out

"""Where a law of images breaks: the first submodule that gets what it should, gives something else, and
spoils the output.

Both runs of a trial are watched, and every tensor is what it should be, or not (`maps.py`). A break is a
module whose inputs are right and whose output is not, or a forward whose submodules are right, and which
hands something wrong to the next one. Padding that is cut off again breaks nothing. So all that is right is
held fast, what is suspected is changed at random, and the module is named only if the output then changes: if
there is a way from it to the output on which nothing is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.symmetry.compare import DIFFERENT, EQUAL, UNKNOWN, close, relative
from regard.symmetry.image_alignment import OnMaps
from regard.symmetry.law import Trial
from regard.symmetry.model_under_test import Subject
from regard.symmetry.record_module_calls import Call, Calls, Held, Key, Patch, Place, also_breaks, record_calls
from regard.symmetry.roles import Inputs
from regard.symmetry.state import log_suppressed


@dataclass(frozen=True, eq=False)
class Break:
    """A call at which the law seems to break: by what it gives, or, with `into`, by what it hands to one of
    its own calls."""

    call: Call
    into: Call | None
    unsure: str | None = None  # the name of a module that may be to blame instead

    @property
    def spoilt(self) -> tuple[Call, str]:
        """The call whose tensors are wrong, and which of them."""
        return (self.call, "outputs") if self.into is None else (self.into, "inputs")


@dataclass(frozen=True)
class Found:
    """A place, and how many calls had begun before it: the first of several trials is wanted."""

    place: Place
    when: int
    first: bool = False  # nothing comes before it


class Paths:
    """The search for one trial."""

    def __init__(self, trial: Trial, subject: Subject, tolerance: float) -> None:
        assert isinstance(trial.align, OnMaps) and not callable(trial.second)
        self.trial, self.subject, self.tolerance, self.align = trial, subject, tolerance, trial.align
        # of tensors inside, so that no small beginning is overlooked
        self.inner = 1e-10 if tolerance <= 1e-9 else 1e-5
        self.inputs: Inputs = trial.second
        self.first, self.first_output = self.run(trial.first)
        self.second, self.second_output = self.run(trial.second)
        self.known: dict[tuple[int, int], str] = {}

    def run(
        self, inputs: Inputs, outputs: dict[Key, Patch] | None = None, given: dict[Key, Patch] | None = None
    ) -> tuple[Calls, Tensor]:
        """Watched, on a copy of the inputs, with some outputs of modules, or what they are given,
        replaced."""
        copies = {
            name: x.clone() if isinstance(x, Tensor) else x for name, x in inputs.items()
        }  # a model may write into x
        with record_calls(self.subject.model, outputs, given) as calls:
            return calls, self.subject.run(copies).clone()

    def found(self) -> Found | None:
        """None: in this trial nothing breaks."""
        root = self.second.root()
        if root is None or not relative(*self.trial.outputs(self.first_output, self.second_output)) > self.tolerance:
            return None
        if self.align.compared(self.first_output, self.second_output, self.inner) == EQUAL:
            stays = close(self.first_output, self.second_output, self.inner)
            if stays:
                does = "stay where they should move along"
            else:
                does = "move along where they should stay"
            return Found(
                Place("", False, f"the same numbers come out, and {does}: no layer breaks it alone"), len(self.second)
            )
        for each in self.breaks(root):
            if self.matters(each):
                found = self.named(each)
                begins = next(k for k, call in enumerate(self.second.values()) if not call.children)
                return replace(found, first=found.when <= begins)
        return Found(
            Place("", False, "no module was found at which something right becomes wrong for good"), len(self.second)
        )

    # ---- what is right

    def verdicts(self, call: Call, side: str) -> dict[str, str] | None:
        """Of each tensor that a call gets or gives; None where they cannot be compared."""
        one, two = self.both(call, side)
        if one is None or two is None:
            return None
        return {path: self.compared(one[path], two[path]) for path in one}

    def compared(self, one: Tensor, two: Tensor) -> str:
        """What one module gives the next one gets: a tensor that is the same object in both is compared
        once."""
        key = (id(one), id(two))
        if key not in self.known:
            self.known[key] = self.align.compared(one, two, self.inner)
        return self.known[key]

    def both(self, call: Call, side: str) -> tuple[Held, Held]:
        """The tensors of a call in both runs, if they are the same ones."""
        first = self.first.get(call.key)
        if first is not None:
            one, two = (getattr(first, side), getattr(call, side))
        else:
            one, two = (None, None)
        if one is not None and two is not None and one.keys() == two.keys():
            return (one, two)
        return (None, None)

    def verdict(self, call: Call, side: str) -> str:
        found = self.verdicts(call, side)
        if found is None:
            return UNKNOWN
        return next((each for each in (DIFFERENT, UNKNOWN) if each in found.values()), EQUAL)

    def still(self, call: Call, side: str) -> bool:
        """The same numbers in both runs, whatever was done to the image."""
        one, two = self.both(call, side)
        return one is not None and two is not None and all(torch.equal(one[path], two[path]) for path in one)

    # ---- who is suspected

    def breaks(self, call: Call) -> Iterator[Break]:
        """In the order of the run, for a call that gets what it should and gives something else."""
        unsure = None
        for child in call.children:
            given, gives = self.verdict(child, "inputs"), self.verdict(child, "outputs")
            if given == DIFFERENT:
                yield Break(call, child, unsure)
            elif gives == DIFFERENT and given == EQUAL:
                yield from self.breaks(child)
            elif gives == DIFFERENT:
                yield Break(child, None, unsure or child.name)
            elif gives == UNKNOWN:
                unsure = unsure or child.name
        yield Break(call, None, unsure if call.children else None)

    # ---- does it matter

    def matters(self, suspect: Break) -> bool:
        """Does what is wrong there reach the output without becoming right on the way?"""
        call, side = suspect.spoilt
        if not call.name and side == "outputs":
            return True
        found = self.verdicts(call, side) or {}
        wrong = {path for path in getattr(call, side) or {} if found.get(path) != EQUAL}
        outputs = {key: self.held(each, "outputs") for key, each in self.second.items() if each.name}
        given = {key: self.held(each, "inputs") for key, each in self.second.items() if each.name}
        shake = outputs if side == "outputs" else given
        shake[call.key] = lambda now: {path: _shaken(x) if path in wrong else x for path, x in now.items()}
        return relative(self.second_output, self.run(self.inputs, outputs, given)[1]) > self.inner

    def held(self, call: Call, side: str) -> Patch:
        """What is right stays what it is."""
        found = self.verdicts(call, side) or {}
        values = getattr(call, side) or {}
        fixed = {path: values[path] for path, each in found.items() if each == EQUAL}
        return lambda now: {path: fixed.get(path, x) for path, x in now.items()}

    # ---- what is said of it

    def named(self, suspect: Break) -> Found:
        call, into = suspect.call, suspect.into
        when = list(self.second).index(_last_of(call).key if into is None else into.key)
        if suspect.unsure is not None:
            name = _shared(call.name, suspect.unsure)
            return Found(Place(name, False, f"how what {suspect.unsure} gives should have changed is not known"), when)
        if into is not None:
            for child in self.placed(call, into):
                words = "gives a different value to each place, whatever the image"
                return Found(Place(child.name, True, f"{self.called(child)} {words}"), when)
        if into is not None or call.children:
            before = f"before {into.name}" if into is not None else "at its end"
            reason = f"in the forward of {self.called(call)} itself, {before}{self.explained(call)}"
            return Found(Place(call.name, True, reason), when)
        how = self.difference(call) + self.explained(call) + self.more(call)
        return Found(Place(call.name, True, f"{self.called(call)} has correct inputs and a wrong output{how}"), when)

    def more(self, first: Call) -> str:
        """Who else breaks it, each by itself: what it was given is moved, and what it gives does not
        follow."""
        names: list[str] = [first.name]
        for call in list(self.first.values())[list(self.first).index(first.key) + 1 :]:
            if call.name not in names and not call.children and self.strays(call):
                names.append(call.name)
        return also_breaks(names[1:])

    def strays(self, call: Call) -> bool:
        """Does a module of one map to one tensor give something else, in whatever way the map is read?"""
        x, y = (call.inputs or {}).get(".0.0"), (call.outputs or {}).get("")
        if x is None or y is None or x.dim() != 4 or len(call.inputs or {}) > 1:
            return False
        module, answers = self.subject.model.get_submodule(call.name), []
        for moved in (self.align.moved(x, axes) for axes in ((2, 3), (1, 2))):
            if moved is None or moved.shape != x.shape:
                continue
            try:
                with torch.no_grad():
                    answers.append(self.align.compared(y, module(moved.clone()), self.inner))
            except Exception as error:  # channels are not where this reading has them
                log_suppressed(error, f"running {call.name} alone")
                continue
            if answers[-1] != DIFFERENT:
                return False
        return bool(answers)

    def placed(self, parent: Call, into: Call) -> Iterator[Call]:
        """Calls that know nothing of the image, and without which, in both runs, what is handed on would be
        right."""
        for child in parent.children:
            if child is into:
                return
            if not child.outputs or not (self.still(child, "inputs") and self.still(child, "outputs")):
                continue
            nothing: dict[Key, Patch] = {child.key: lambda now: {path: torch.zeros_like(x) for path, x in now.items()}}
            one, two = (self.run(x, nothing)[0][into.key].inputs for x in (self.trial.first, self.inputs))
            if one and two and self.moves(one, two):
                yield child

    def moves(self, one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
        """Are all tensors right, and not only because nothing is left of them?"""
        right = all(self.align.compared(one[path], two[path], self.inner) == EQUAL for path in one.keys() & two.keys())
        return right and any(not close(one[path], two[path], self.inner) for path in one.keys() & two.keys())

    def difference(self, call: Call) -> str:
        first, second = self.first[call.key].outputs or {}, call.outputs or {}
        words = (self.align.difference(first[path], x, self.inner) for path, x in second.items() if path in first)
        return next(words, "")

    def explained(self, call: Call) -> str:
        """What the module does to an image, or one that it is a part of, in its own words (`does`)."""
        names = call.name.split(".") if call.name else []
        for many in range(len(names), 0, -1):
            name = ".".join(names[:many])
            if isinstance(does := getattr(self.subject.model.get_submodule(name), "does", None), str):
                return f"; {name} {does}"
        return ""

    def called(self, call: Call) -> str:
        kind = type(self.subject.model.get_submodule(call.name)).__name__
        if call.name:
            return f"{call.name} ({kind})"
        return kind


def _last_of(call: Call) -> Call:
    """The call inside it that began last."""
    return _last_of(call.children[-1]) if call.children else call


def _shaken(x: Tensor) -> Tensor:
    """Other numbers of the same size."""
    if not x.is_floating_point():
        return x
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(x.device, x.dtype)
    return x + noise * (float(torch.nan_to_num(x, posinf=0.0, neginf=0.0).abs().mean()) or 1.0)


def _shared(*names: str) -> str:
    """The smallest module around all of them."""
    parts = [name.split(".") for name in names]
    count = 0
    while all(len(p) > count + 1 and p[count] == parts[0][count] for p in parts):
        count += 1
    return ".".join(parts[0][:count])

"""Where a law breaks: the first submodule that gets what it should and gives something else.

Both runs of a trial are watched, in float64 where the model allows it, so that no difference hides in
rounding. A module is followed inwards while its inputs agree under the transformation and its output does
not. The name is then put to the proof: with that module's output replaced by what it should have been, the
law must hold. If it does not, more modules break it, and they are replaced too, until it holds; a module that
turns out not to be needed is not named, and of several the one that runs first is named first. Where this ends
without proof, or a tensor's layout is not known, the smallest module around it is named instead, and marked as not
exact. Where it is not known how inner tensors should change at all (points that turn, places that shift), the proof
only says "in this module or after it".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from torch import Tensor

from regard.symmetry.align import Alignment, Indexed, Same
from regard.symmetry.compare import DIFFERENT, EQUAL, UNKNOWN, close
from regard.symmetry.image_alignment import OnMaps
from regard.symmetry.law import Law, Measure, Refused, Trial, compare_outputs, error_of
from regard.symmetry.locate_in_images import Found, Paths
from regard.symmetry.model_under_test import Subject, first_line
from regard.symmetry.record_module_calls import Call, Calls, Held, Key, Patch, Place, also_breaks, record_calls
from regard.symmetry.state import log_suppressed

FEW_TRIALS = 3  # on images: a step along each axis, a quarter turn, both mirrors, a few orders of patches
MOST_PATCHES = 64  # modules that are put right before the search is given up
VANISHES = "the break disappears when the model is watched: it takes another path then, or depends on earlier runs"


@dataclass(frozen=True)
class Suspect:
    """A call at which the law seems to break."""

    key: Key
    exact: bool
    reason: str


def locate(
    law: Law,
    measure: Measure,
    subject: Subject,
    wide: Subject | None,
    seed: int,
    trials: int,
    tolerance: float,
    most: int,
) -> Place:
    """The first submodule at which a broken law breaks, with at most `most` modules put right for the
    proof."""
    if law.name == "precision":
        return Place("", False, "rounding adds up along the whole way")
    if measure.trial is None:
        return Place(None, None, None)
    try:
        if law.name == "reach":
            return _vanishing(measure.trial, subject)
        if isinstance(measure.trial.align, OnMaps):
            return _on_images(law, measure.trial, subject, wide, seed, tolerance)
        if wide is not None and law.tolerance is None:
            trial = _telling_trial(law, wide, seed, trials, 1e-9)
            if trial is not None:
                return Search(trial, wide, 1e-9, most).place()
        return Search(measure.trial, subject, tolerance, most).place()
    except Exception as error:  # a model may not bear to be watched
        log_suppressed(error, f"locating the break of {law.name}")
        return Place("", False, f"it could not be watched more closely ({first_line(error)})")


def _on_images(law: Law, trial: Trial, subject: Subject, wide: Subject | None, seed: int, tolerance: float) -> Place:
    """The first place of a few trials that all others are composed of, on noise: the border of an image may
    be blank."""
    for others in (_noise_like(wide, seed), wide) if wide is not None else ():
        found: list[Found] = []
        for each in law.trials(others, Random(seed), FEW_TRIALS):
            try:
                here = Paths(each, others, 1e-9).found()
            except Exception as error:  # it may take no noise, or not bear to be watched
                log_suppressed(error, f"locating the break of {law.name} in images")
                break
            found += [here] if here is not None else []
            if here is not None and here.first:
                break
        if found:
            return min(found, key=lambda each: each.when).place
    last = Paths(trial, subject, tolerance).found()
    if last is None:
        return Place("", False, VANISHES)
    return last.place._replace(exact=False)  # rounding may hide what is right


def _noise_like(subject: Subject, seed: int) -> Subject:
    """The same model with two images of noise."""
    draw = torch.Generator().manual_seed(seed)
    inputs = subject.more_rows(subject.inputs, 2, draw)
    noise = {name: subject.other_values(inputs[name], draw) for name in sorted(subject.values(inputs))}
    return subject.anew(inputs={**inputs, **noise})


def _telling_trial(law: Law, subject: Subject, seed: int, trials: int, tolerance: float) -> Trial | None:
    """A trial that breaks the law, rather one in which the tokens' axis can be told from all others by its
    size."""
    others = []
    for trial in law.trials(subject, Random(seed), trials):
        if not _tells(trial, subject):
            others.append(trial)
        elif _breaks(trial, subject, tolerance):
            return trial
    return next((trial for trial in others if _breaks(trial, subject, tolerance)), None)


def _breaks(trial: Trial, subject: Subject, tolerance: float) -> bool:
    try:
        return error_of(trial, subject)[0].error > tolerance
    except Refused:
        return False


def _tells(trial: Trial, subject: Subject) -> bool:
    align = trial.align
    if subject.roles.stream is None:
        return True
    if not isinstance(align, Indexed) or align.tokens is None:
        return subject.length(trial.first) == subject.lengths[-1]
    if trial.earlier:  # at the end of the whole, what was kept is as long as what the first run has at once
        return int(align.tokens.here[-1]) == align.tokens.size - 1
    return align.tokens.size != align.tokens.other or align.tokens.size == subject.lengths[-1]


class Search:
    """The search for one trial."""

    def __init__(self, trial: Trial, subject: Subject, tolerance: float, most: int) -> None:
        self.trial, self.subject, self.tolerance, self.most = trial, subject, tolerance, most
        # of tensors inside, so that no small beginning is overlooked
        self.inner = 1e-10 if tolerance <= 1e-9 else 1e-5
        if trial.afresh:
            subject.restart()
        with record_calls(subject.model) as first:
            self.first_output = subject.run_all(trial.first)
        self.first = first

    def run(self, patches: dict[Key, Patch]) -> tuple[Calls, float]:
        """The second run with some outputs put right, and the error that remains."""
        trial, subject = self.trial, self.subject
        with torch.no_grad():
            state = trial.state()
            with record_calls(subject.model, patches) as calls:
                if not callable(trial.second):
                    found = subject.call(trial.second)
                else:
                    found = trial.second(state)
            apart, _ = compare_outputs(trial, subject, self.first_output, subject.read_step(found))
            return calls, apart.error

    def place(self) -> Place:
        calls, error = self.run({})
        if not error > self.tolerance:
            return Place("", False, VANISHES)
        if isinstance(self.trial.align, Same):
            return self.tried(calls)
        suspect = self.suspect(calls)
        if suspect is None or not suspect.key[0]:
            return Place("", suspect is not None and suspect.exact, suspect.reason if suspect else None)
        return self.proved(suspect)

    def tried(self, calls: Calls) -> Place:
        """Where it is not known what tensors inside should be, a module is named only if its inputs are right
        and the law holds with the output that it gave before.
        """
        for call in calls.values():
            innermost = call.name and self.turns_wrong(call) and not any(map(self.turns_wrong, call.children))
            if innermost and self.run({call.key: self.patch(call.key)})[1] <= self.tolerance:
                return self.in_or_after(call, calls)
        return Place("", False, "it is not known how what passes between the modules should have changed")

    def in_or_after(self, call: Call, calls: Calls) -> Place:
        """The proof says that what this module gives carries all of the change, and so may what a later one
        gives: only a module after which none passes the same proof is the place itself."""
        keys = list(calls)
        later = [calls[key] for key in keys[keys.index(call.key) + 1 :] if calls[key].parent != call.key]
        reason = f"{self.called(call)} gives something else, and without that the law holds"
        for other in reversed(later):
            inside = other.name.startswith(f"{call.name}.")
            if other.name and not inside and self.run({other.key: self.patch(other.key)})[1] <= self.tolerance:
                return Place(call.name, False, f"{reason}; so it does without that of {other.name}", after=True)
        return Place(call.name, True, reason)

    def turns_wrong(self, call: Call) -> bool:
        return self.compared(call, "inputs") == EQUAL and self.compared(call, "outputs") != EQUAL

    def proved(self, first: Suspect) -> Place:
        """Replace what is wrong until the law holds, then leave out what was not needed."""
        suspects: list[Suspect] = []
        patches: dict[Key, Patch] = {}
        suspect: Suspect | None = first
        while True:
            if len(patches) == self.most and (place := self.of_a_kind(suspects)) is not None:
                return place
            if suspect is None or not suspect.key[0] or suspect.key in patches or len(patches) == self.most:
                return self.around(suspects)
            # it holds one that was put right already
            if any(s.key[0].startswith(f"{suspect.key[0]}.") for s in suspects):
                suspect = replace(suspect, exact=False)
            suspects.append(suspect)
            patches[suspect.key] = self.patch(suspect.key)
            calls, error = self.run(patches)
            if error <= self.tolerance:
                break
            suspect = self.suspect(calls)
        while len(suspects) > 1 and self.needless(suspects, patches):
            del patches[suspects.pop(0).key]
        began = list(calls)
        suspects.sort(key=lambda each: began.index(each.key))
        named = suspects[0]  # where it begins: what others do to a wrong input says nothing of them
        if named.exact and not self.came_by_right_ways(named.key[0]):
            return Place("", False, f"{named.reason}, or what an earlier step left there")
        more = sorted({s.key[0] for s in suspects[1:]} - {named.key[0]})
        return Place(named.key[0], named.exact, named.reason + also_breaks(more))

    def of_a_kind(self, suspects: list[Suspect]) -> Place | None:
        """The first, if all are modules of one class and the law holds once all modules of that class are put
        right at once.

        Batch norms in training are so many that to find them one by one takes long.
        """
        first, *others = suspects
        kinds = {type(self.subject.model.get_submodule(each.key[0])) for each in suspects}
        if len(kinds) > 1 or not all(each.exact for each in suspects):
            return None
        alike = [key for key in self.first if type(self.subject.model.get_submodule(key[0])) in kinds]
        patches = {key: self.patch(key) for key in alike}
        calls, error = self.run(patches)
        reached = any(key in calls and self.compared(calls[key], "inputs") != EQUAL for key in alike)
        whole = [first, *(Suspect(key, True, "") for key in alike if key != first.key)]
        if (
            error > self.tolerance
            or reached
            or self.needless(whole, patches)
            or not self.came_by_right_ways(first.key[0])
        ):
            return None
        return Place(first.key[0], True, f"{first.reason}; {others[0].key[0]} breaks it, too, and others of its kind")

    def needless(self, suspects: list[Suspect], patches: dict[Key, Patch]) -> bool:
        """Does the law hold without putting the first right, and without anything wrong reaching the
        others?"""
        first, *others = suspects
        calls, error = self.run({key: patch for key, patch in patches.items() if key != first.key})
        reached = any(s.key in calls and self.compared(calls[s.key], "inputs") != EQUAL for s in others)
        return error <= self.tolerance and not reached

    def came_by_right_ways(self, name: str) -> bool:
        """In earlier steps, did the module get what it should? Then what it has kept is its own doing."""
        state: Any = None
        for step in self.trial.earlier:
            if step.align is None:
                continue
            with record_calls(self.subject.model) as calls, torch.no_grad():
                state = step.run(state)
            if any(call.name == name and self.compared(call, "inputs", step.align) != EQUAL for call in calls.values()):
                return False
        return True

    def around(self, suspects: list[Suspect]) -> Place:
        """No module could be proved, so none is named: the cause may be outside of all that were
        suspected."""
        return Place("", False, f"no module alone explains it; the first to differ is {suspects[0].key[0]}")

    def patch(self, key: Key) -> Patch:
        first = self.first.get(key)

        def patch(outputs: dict[str, Tensor]) -> dict[str, Tensor]:
            known = first.outputs if first is not None and first.outputs is not None else {}
            fresh = {
                path: _right(self.trial.align, known[path], x) if path in known else None for path, x in outputs.items()
            }
            return {path: x if fresh[path] is None else fresh[path] for path, x in outputs.items()}  # type: ignore[misc]

        return patch

    # ---- who is suspected

    def suspect(self, calls: Calls) -> Suspect | None:
        root = calls.root()
        if root is not None:
            return self.inside(root)
        return None

    def inside(self, call: Call) -> Suspect:
        """`call` gets what it should and gives something else: which of its own calls does, or is it
        itself?"""
        blurred = False
        for child in call.children:
            out = self.compared(child, "outputs")
            if out == EQUAL:
                continue
            if out == UNKNOWN:
                blurred = blurred or self.compared(child, "inputs") != DIFFERENT
                continue
            given = self.compared(child, "inputs")
            if given == EQUAL and not (self.unmoved(child) and not child.children):
                return self.inside(child)
            if self.unmoved(child):
                return Suspect(
                    child.key, True, f"{self.called(child)} gives a different value to each place, whatever the tokens"
                )
            return self.itself(call, exact=given == DIFFERENT and not blurred)
        return self.itself(call, exact=not blurred)

    def itself(self, call: Call, exact: bool) -> Suspect:
        if not call.children:
            return Suspect(call.key, exact, f"{self.called(call)} has correct inputs and a wrong output")
        where = "itself, between its submodules" if exact else "or in one of its submodules"
        return Suspect(call.key, exact, f"in the forward of {self.called(call)} {where}")

    def called(self, call: Call) -> str:
        module = self.subject.model.get_submodule(call.name)
        if call.name:
            return f"{call.name} ({type(module).__name__})"
        return type(module).__name__

    def unmoved(self, call: Call) -> bool:
        """Under a permutation: did it give exactly the same again, and not the same to all places?"""
        first = self.first.get(call.key)
        align = self.trial.align
        if (
            first is None
            or not first.outputs
            or not call.outputs
            or not isinstance(align, Indexed)
            or align.tokens is None
        ):
            return False
        if align.tokens.size != align.tokens.other or torch.equal(align.tokens.here, align.tokens.there):
            return False
        return not _differ(first.outputs, call.outputs)

    def compared(self, call: Call, side: str, align: Alignment | None = None) -> str:
        """Are all tensors of a call what they should be? What an earlier step left is nowhere in the first
        run."""
        first = self.first.get(call.key)
        if first is not None:
            one, two = (getattr(first, side), getattr(call, side))
        else:
            one, two = (None, None)
        if one is None or two is None or (one.keys() != two.keys() and not self.trial.earlier):
            return UNKNOWN
        answers = set()
        for a, b in ((one[path], two[path]) for path in one.keys() & two.keys()):
            if side == "inputs" and _is_places(a) and a.shape == b.shape and torch.equal(a, b):
                # places that are handed on stay what they are: it is up to the module what it makes of them
                continue
            answers.add(_same(align or self.trial.align, a, b, self.inner))
        if DIFFERENT in answers:
            return DIFFERENT
        if UNKNOWN in answers:
            return UNKNOWN
        return EQUAL


def _is_places(x: Tensor) -> bool:
    return not x.is_floating_point() and x.dtype != torch.bool


def _same(align: Alignment, first: Tensor, second: Tensor, tolerance: float) -> str:
    pairs = align.pairs(first, second)
    for pair in pairs:
        if close(pair.first, pair.second, tolerance):
            return EQUAL
    if pairs and pairs[0].sure:
        return DIFFERENT
    return UNKNOWN


def _right(align: Alignment, first: Tensor, second: Tensor) -> Tensor | None:
    """What the second run's tensor should have been: only where that is known, and only where it is not so
    already."""
    pairs = align.pairs(first, second)
    if pairs and (pairs[0].sure or isinstance(align, Same)):
        return align.patched(first, second)
    return None


def _vanishing(trial: Trial, subject: Subject) -> Place:
    """For a token that changes nothing: how far its change gets. Where it was lost, or never taken along, is
    not proved."""
    runs: list[Calls] = []
    for inputs in (trial.first, trial.second):
        with record_calls(subject.model) as calls:
            subject.run(inputs)  # type: ignore[arg-type]
        runs.append(calls)
    first, second = runs
    reached = [
        call.name
        for key, call in second.items()
        if call.name and key in first and _differ(first[key].outputs, call.outputs)
    ]
    return Place(
        "", False, f"its change is last seen in what {reached[-1]} gives" if reached else "it changes nothing at all"
    )


def _differ(first: Held, second: Held) -> bool:
    """Is any tensor that both have another one?"""
    if first is None or second is None:
        return False
    pairs = ((first[path], second[path]) for path in first.keys() & second.keys())
    return any(a.shape != b.shape or not torch.equal(a, b) for a, b in pairs)

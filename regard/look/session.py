"""A model that is looked at again and again: change the input, silence a head, move a token, and see what
changes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import RegardError
from regard.look.ablation import can_silence, measure_loss
from regard.look.model_input import ModelInput
from regard.look.reader import LONGEST, Control, Reader
from regard.look.scene import Scene, gather
from regard.look.views.attention import count_of, matrix
from regard.look.views.outcome import OutcomeView
from regard.nn.eval_mode import eval_mode
from regard.runs.run import Run

KEPT = 4  # recordings whose full weights can still be asked for


class Session:
    """One model, and what was seen of it last.

    given, target  the input that is shown when none is asked for
    notes          what a reader should know of the model
    """

    def __init__(
        self,
        model: nn.Module,
        reader: Reader,
        name: str,
        *,
        given: Any = None,
        target: str | None = None,
        notes: tuple[str, ...] = (),
        run: Run | None = None,
        report: Mapping[str, Any] | None = None,
        tsne: bool = True,
    ) -> None:
        self.model, self.reader, self.name, self.run, self.report, self.tsne = (model, reader, name, run, report, tsne)
        self.given, self.target, self.notes = given, target, notes
        self.scenes: dict[int, Scene] = {}
        self.count = 0
        self.lock = threading.Lock()  # one run at a time: a recording is of one model

    @property
    def files(self) -> tuple[Path, ...]:
        """Scripts and styles that the page needs besides those of every page."""
        return tuple(dict.fromkeys(file for view in self.reader.views for file in view.files))

    def show(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The data of a page for what was asked: the fields of the reader's controls, and `silence`."""
        controls = {control.name: control for control in self.reader.controls}
        unknown = sorted(
            name for name, value in asked.items() if name not in {*controls, "silence"} and value is not None
        )
        if unknown:
            known = ", ".join(sorted({*controls, "silence"}))
            raise RegardError(f"{self.name} takes no {unknown[0]!r}; known: {known}")
        fields = {name: value for name, value in asked.items() if name in controls and value is not None}
        values = {name: controls[name].parse(value) for name, value in fields.items()}
        with self.lock:
            given = self.reader.change(self._read(controls, values), values)
            given = replace(given, notes=(*self.notes, *given.notes))
            return self._gather(given, self.heads(asked.get("silence") or [])).data

    def _read(self, controls: Mapping[str, Control], values: Mapping[str, Any]) -> ModelInput:
        """The first text or file that was given, or what is shown without one."""
        inputs = [
            values[name] for name, control in controls.items() if name in values and control.type in ("string", "file")
        ]
        target = values.get("target")
        main = next((value for value in inputs if value is not target), None)
        if main is None:
            return self.reader.read(self.given, self.target if target is None else target)
        return self.reader.read(main, target)

    def latest(self) -> Scene:
        """What was shown last."""
        return self.scenes[self.count - 1]

    def _gather(self, given: ModelInput, silence: list[tuple[str, int]]) -> Scene:
        how: dict[str, Any] = {"run": self.run, "report": self.report, "number": self.count, "tsne": self.tsne}
        try:
            scene = gather(self.model, given, name=self.name, views=self.reader.views, silence=silence, **how)
        except ValueError:
            raise
        except Exception as error:  # of the model itself, which can be anything
            words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise RegardError(f"{self.name} cannot read this input: {words}") from error
        alone = {view.name for view in scene.views if view.stands_alone}
        if not scene.seen and self.run is None and not any(view["view"] in alone for view in scene.data["views"]):
            raise RegardError(
                f"no attention was recorded in {self.name}, a {type(self.model).__name__}: neither fused "
                f"attention nor a softmax whose weights are summed with values"
            )
        scene.data["opens"] = self._opens(scene)
        scene.data["live"] = {
            "controls": [as_json(control) for control in self.reader.offer(scene)],
            "silence": can_silence(self.model),
            "longest": LONGEST,
        }
        self.scenes[self.count] = scene
        self.scenes.pop(self.count - KEPT, None)
        self.count += 1
        return scene

    def _opens(self, scene: Scene) -> str | None:
        """The tab that a page opens with: if somebody gave an input, the first one that shows it."""
        if self.given is None:
            return None
        return next((view["view"] for view in scene.data["views"] if view["view"] != OutcomeView.name), None)

    def heads(self, pairs: Any) -> list[tuple[str, int]]:
        """Heads by the name of their layer, which the last recording knows."""
        if not isinstance(pairs, list) or len(pairs) > 10_000:
            raise RegardError("silence is a list of [layer, head]")
        if not pairs:
            return []
        names = {entry.layer: entry.name for scene in self.scenes.values() for entry in scene.seen}
        found = []
        for pair in pairs:
            whole = isinstance(pair, list) and len(pair) == 2 and all(type(each) is int for each in pair)
            if not whole or pair[0] not in names:
                raise RegardError(
                    f"silence names layers and heads that are there, such as [0, 1]; got {str(pair)[:40]}"
                )
            found.append((names[pair[0]], pair[1]))
        return found

    def region(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What the prediction loses without a region: `record`, `region` (whole numbers) and `about`."""
        known = ("about", "record", "region")
        unknown = sorted(set(asked) - set(known))
        if unknown:
            raise RegardError(f"a region takes no {unknown[0]!r}; known: {', '.join(known)}")
        numbers = Control(name="region", type="numbers").parse(asked.get("region"))
        about, record = asked.get("about"), asked.get("record")
        if type(record) is not int or not (about is None or type(about) is int):
            raise RegardError("a region is asked for with a record and, perhaps, about: whole numbers")
        with self.lock:
            scene = self.scenes.get(record)
            if scene is None:
                raise RegardError(f"recording {record} is no longer kept; run it again")
            try:
                return measure_loss(scene, numbers, about)
            except ValueError:
                raise
            except Exception as error:  # of the model itself, which can be anything
                words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                raise RegardError(f"{self.name} cannot be run without this: {words}") from error

    def ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What one view answers: `record`, `view`, and what else that view wants to know."""
        name, record = asked.get("view"), asked.get("record")
        if type(record) is not int or not isinstance(name, str):
            raise RegardError("a view is asked with a record, a whole number, and its name as view")
        with self.lock:
            scene = self.scenes.get(record)
            if scene is None:
                raise RegardError(f"recording {record} is no longer kept; run it again")
            view = next((each for each in scene.views if each.name == name), None)
            if view is None or scene.view(name) is None:
                raise RegardError(f"recording {record} has no view {name[:40]!r}")
            question = {key: value for key, value in asked.items() if key not in ("record", "view")}
            with eval_mode(scene.model), torch.no_grad():
                return view.ask(scene, question)

    def weights(self, record: int, layer: int, call: int, head: int, window: int = 0) -> bytes:
        """All weights of one head in one call of its layer, in one of its windows, as float32 bytes, n ×
        m."""
        with self.lock:
            scene = self.scenes.get(record)
            if scene is None:
                raise RegardError(f"recording {record} is no longer kept; run it again")
            for entry in scene.seen:
                here = (entry.layer, entry.call) == (layer, call) and entry.proved and head in entry.heads
                if here and 0 <= window < count_of(entry):
                    weights = matrix(entry, window)[entry.heads.index(head)]
                    return weights.float().cpu().contiguous().numpy().astype("<f4").tobytes()
        raise RegardError(
            f"there is no proved head {head} in window {window}, call {call}, layer {layer} of recording {record}"
        )


def as_json(control: Control) -> dict[str, Any]:
    """A control as the page has it."""
    names = ("name", "type", "label", "placeholder", "accept", "most")
    return {name: getattr(control, name) for name in names}

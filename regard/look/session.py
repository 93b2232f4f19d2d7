"""A model that is looked at again and again: change the input, silence a head, move a token, and see what changes."""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from regard.look.model_input import Given
from regard.look.scene import Scene, gather
from regard.look.silence import can_silence
from regard.look.views.attention import count_of, matrix
from regard.runs.run import Run

Read = Callable[[str | bytes | None, str | None], Given]  # what a person gave, and a target -> an input
KEPT = 4  # recordings whose full weights can still be asked for
LONGEST = 20_000  # characters
FIELDS = {"text", "target", "image", "file", "node", "order", "silence"}
SEEN_WITHOUT = ("filters", "features", "embeddings", "points", "graph")  # views of models without attention


class Live:
    """One model, and what was seen of it last."""

    def __init__(
        self,
        model: nn.Module,
        read: Read,
        name: str,
        *,
        kind: str,
        takes_target: bool = False,
        run: Run | None = None,
        report: Mapping[str, Any] | None = None,
        tsne: bool = True,
    ) -> None:
        self.tsne = tsne
        self.model, self.read, self.name, self.run, self.report = model, read, name, run, report
        self.kind, self.takes_target = kind, takes_target
        self.scenes: dict[int, Scene] = {}
        self.count = 0
        self.lock = threading.Lock()  # one run at a time: a recording is of one model

    def show(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The data of a page for what was asked: text, target, image, file, node, order, silence."""
        unknown = set(asked) - FIELDS
        if unknown:
            raise ValueError(
                f"there is no {sorted(unknown)[0]!r} to ask for; known: {', '.join(sorted(FIELDS))}"
            )
        text, target = words(asked, "text"), words(asked, "target")
        picture, file = bytes_of(asked, "image", "data:image/"), bytes_of(asked, "file", "data:")
        for what, kinds, value in (
            ("text", ("text",), text),
            ("a picture", ("image",), picture),
            ("a file", ("points", "graph"), file),
        ):
            if value is not None and self.kind not in kinds:
                raise ValueError(f"{self.name} does not read {what}")
        with self.lock:
            given = self.read(
                next((each for each in (picture, file, text) if each is not None), None), target
            )
            if asked.get("node") is not None:
                given = given.centred(*numbers(asked["node"], "node", one=True))
            if asked.get("order") is not None:
                given = given.moved(numbers(asked["order"], "order"))
            return self.gathered(given, self.heads(asked.get("silence") or [])).data

    def latest(self) -> Scene:
        return self.scenes[self.count - 1]

    def gathered(self, given: Given, silence: list[tuple[str, int]]) -> Scene:
        try:
            how: dict[str, Any] = {
                "run": self.run,
                "report": self.report,
                "number": self.count,
                "tsne": self.tsne,
            }
            scene = gather(self.model, given, name=self.name, silence=silence, **how)
        except ValueError:
            raise
        except Exception as error:  # of the model itself, which can be anything
            words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise ValueError(f"{self.name} cannot read this input: {words}") from error
        if not scene.seen and not any(view["view"] in SEEN_WITHOUT for view in scene.data["views"]):
            raise ValueError(
                f"no attention was heard in {self.name}, a {type(self.model).__name__}: neither fused attention nor a softmax "
                f"whose weights are summed with values"
            )
        scene.data["live"] = {
            "text": self.kind == "text",
            "target": self.takes_target,
            "image": self.kind == "image",
            "file": self.kind in ("points", "graph"),
            "node": any(
                view["view"] == "graph" and len(view["numbers"]) < view["count"]
                for view in scene.data["views"]
            ),
            "silence": can_silence(self.model),
            "move": given.ids is not None,
            "longest": LONGEST,
        }
        self.scenes[self.count] = scene
        self.scenes.pop(self.count - KEPT, None)
        self.count += 1
        return scene

    def heads(self, pairs: Any) -> list[tuple[str, int]]:
        """Heads by the name of their layer, which the last recording knows."""
        if not isinstance(pairs, list) or len(pairs) > 10_000:
            raise ValueError("silence is a list of [layer, head]")
        if not pairs:
            return []
        names = {entry.layer: entry.name for scene in self.scenes.values() for entry in scene.seen}
        found = []
        for pair in pairs:
            layer, head = numbers(pair, "silence") if isinstance(pair, list) and len(pair) == 2 else (-1, -1)
            if layer not in names:
                raise ValueError(
                    f"silence names layers and heads that are there, such as [0, 1]; got {str(pair)[:40]}"
                )
            found.append((names[layer], head))
        return found

    def weights(self, record: int, layer: int, call: int, head: int, window: int = 0) -> bytes:
        """All weights of one head in one call of its layer, in one of its windows, as float32 bytes, n × m."""
        with self.lock:
            scene = self.scenes.get(record)
            if scene is None:
                raise ValueError(f"recording {record} is no longer kept; run it again")
            for entry in scene.seen:
                here = (entry.layer, entry.call) == (layer, call) and entry.proved and head in entry.heads
                if here and 0 <= window < count_of(entry):
                    weights = matrix(entry, window)[entry.heads.index(head)]
                    return weights.float().cpu().contiguous().numpy().astype("<f4").tobytes()
        raise ValueError(
            f"there is no proved head {head} in window {window}, call {call}, layer {layer} of recording {record}"
        )


def words(asked: Mapping[str, Any], name: str) -> str | None:
    value = asked.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {type(value).__name__}")
    if len(value) > LONGEST:
        raise ValueError(f"{name} has {len(value):,} characters; at most {LONGEST:,} are read")
    return value


def numbers(value: Any, name: str, *, one: bool = False) -> list[int]:
    found = [value] if one else value
    if not isinstance(found, list) or not all(type(each) is int for each in found):
        raise ValueError(f"{name} must be {'a whole number' if one else 'a list of whole numbers'}")
    return found


def bytes_of(asked: Mapping[str, Any], name: str, start: str) -> bytes | None:
    """The bytes of a data URL."""
    value = asked.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith(start) or ";base64," not in value:
        example = "data:image/png" if name == "image" else "data:text/csv"
        raise ValueError(f"{name} must be a data URL such as {example};base64,…")
    try:
        return base64.b64decode(value.partition(";base64,")[2], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} is no valid base64") from error

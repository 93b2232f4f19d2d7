"""The texts that are nearest to one of them, or to another text, by the cosine of their vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.errors import RegardError
from regard.look import encode_arrays
from regard.look.ablation import silenced
from regard.look.model_input import ModelInput
from regard.look.reader import Control
from regard.look.view import View, web_files
from regard.recipes.text.model_input import TextInput

if TYPE_CHECKING:
    from regard.look.scene import Scene

NEAREST = 10  # texts that are listed
QUERY = Control(name="query", type="string")


class NearestView(View):
    """Search by meaning: cosines of a text with all others."""

    name, order, stands_alone = "nearest", 10, True
    files = web_files(Path(__file__).parent, "22-nearest.js", "nearest.css")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, TextInput) and given.among is not None

    def build(self, scene: Scene) -> dict[str, Any] | None:
        assert isinstance(scene.given, TextInput) and scene.given.among is not None
        return {
            "view": "nearest",
            "texts": scene.given.among.texts,
            "vectors": encode_arrays.floats(self._vectors(scene)),
            "count": NEAREST,
        }

    def ask(self, scene: Scene, asked: Mapping[str, Any]) -> dict[str, Any]:
        """`query`, a text. The answer is the numbers of the texts nearest to it, each with its cosine."""
        unknown = sorted(set(asked) - {QUERY.name})
        if unknown:
            raise RegardError(f"nearest texts take no {unknown[0]!r}; known: {QUERY.name}")
        query = QUERY.parse(asked.get(QUERY.name)).decode("utf-8")
        if not query.strip():
            raise RegardError("the query is empty; type a text")
        assert isinstance(scene.given, TextInput) and scene.given.among is not None
        with silenced(scene.model, scene.silence):
            vector = scene.given.among.embed(scene.model, [query])[0]
        cosines = self._vectors(scene) @ vector
        found = cosines.sort(descending=True, stable=True)
        count = min(NEAREST, len(cosines))
        nearest = zip(found.indices[:count].tolist(), found.values[:count].tolist(), strict=True)
        return {"nearest": [[i, round(cosine, 6)] for i, cosine in nearest]}

    def _vectors(self, scene: Scene) -> Tensor:
        """The vectors of all texts, as the model gives them when the silenced heads add nothing.   n d"""
        assert isinstance(scene.given, TextInput) and scene.given.among is not None
        among = scene.given.among

        def embed() -> Tensor:
            return among.vectors(scene.model, keep=not scene.silence)

        return scene.once("vectors of texts", embed)

"""Which expert takes which token, and how much work each has, of a model whose MLPs are experts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from torch import nn

from regard.look.encode_arrays import round_digits
from regard.look.token_streams import Streams
from regard.look.view import View
from regard.nn.moe import Experts, Routing, hear_routes
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.look.scene import Scene

MOST = 4096  # tokens that are shown


class ExpertsView(View):
    """The experts that each token chose, layer by layer."""

    name, order, stands_alone = "experts", 24, True

    def record(self, model: nn.Module) -> AbstractContextManager[dict[str, Routing]]:
        return _hear(model)

    def build(self, scene: Scene) -> dict[str, Any] | None:
        known = _loads(scene.run)
        layers = [
            _layer(name, routing, scene.streams, known.get(name))
            for name, routing in scene.recorded.get(self.name, {}).items()
            if routing.scores.dim() == 3 and 0 < routing.scores.shape[1] <= MOST
        ]
        if layers:
            return {"view": "experts", "layers": layers}
        return None


@contextmanager
def _hear(model: nn.Module) -> Iterator[dict[str, Routing]]:
    """Where each layer sends its tokens, by its name; of several calls, the last."""
    heard: dict[str, Routing] = {}

    def tell(name: str, layer: Experts, routing: Routing) -> None:
        heard[name] = routing

    with hear_routes(model, tell):
        yield heard


def _layer(name: str, routing: Routing, streams: Streams, load: list[float] | None) -> dict[str, Any]:
    """The first example of the batch."""
    chosen, gates = routing.chosen[0], routing.gates[0]
    first = Routing(routing.scores[:1], routing.chosen[:1], routing.gates[:1], None)
    counts = first.hits()
    several = len(streams.given.streams) > 1
    return {
        "name": name,
        "stream": streams.find(len(chosen), prefer=1 if several and "decoder" not in name else 0),
        "experts": routing.scores.shape[-1],
        "chosen": chosen.tolist(),
        "gates": round_digits(gates.float(), 3),
        "load": round_digits(counts / counts.sum().clamp(min=1)),
        "validation": None if load is None else [round(share, 4) for share in load],
    }


def _loads(run: Run | None) -> Mapping[str, list[float]]:
    """The load of each layer in the last evaluation of a training."""
    if run is None:
        return {}
    told = [event for event in run.metrics() if event.get("event") == "experts"]
    found = told[-1].get("load") if told else None
    if not isinstance(found, dict):
        return {}
    return {name: shares for name, shares in found.items() if isinstance(shares, list)}

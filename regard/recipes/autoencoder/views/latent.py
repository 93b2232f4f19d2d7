"""The latent space as a map, with what is decoded at a place, and a strip of decodings along each dimension."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.look import encode_arrays
from regard.look.contribution import tensor_of
from regard.look.model_input import ModelInput
from regard.look.view import View, web_files
from regard.recipes.autoencoder.processor import name_input
from regard.recipes.autoencoder.views.exhibit import count_that_fits, describe_inputs, exhibit, exhibit_large
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.still import draw_latent

if TYPE_CHECKING:
    from regard.look.scene import Scene

WIDTH = 3.0  # σ that strips, sliders and the map reach from the middle
INSIDE = 0.9973002039367398  # of a normal distribution, within 3 σ
STEPS = 9  # decodings in a strip
STRIPS = 16  # dimensions whose strips are in the page, and that are asked for at once
NARROWEST = 0.6  # the shortest side of the map, as a part of the longest
GRID = 15  # decodings along the longest side of the map
SMALLEST_GRID = 5
FARTHEST = 1e4  # from 0 that a number of a code may be
LATENT_FILES = web_files(
    Path(__file__).parents[1],
    "37-exhibit.js",
    "38-latent-axes.js",
    "38-latent-map.js",
    "38-dimensions.js",
    "39-latent.js",
    "39-reconstructions.js",
    "39-rate.js",
    "latent.css",
)


class LatentView(View):
    """Codes on a map. Served, every place is decoded that is pointed at."""

    name, order, stands_alone = "latent", 5, True
    files = LATENT_FILES

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def applies(self, given: ModelInput) -> bool:
        return "x" in given.inputs

    def build(self, scene: Scene) -> dict[str, Any]:
        codes = self.codes
        base = tensor_of(scene.out)[0].detach().float().cpu()
        if not bool(base.isfinite().all()):
            base = torch.zeros_like(base)
        low, high = self._frame(base)
        first = codes.order[:STRIPS]
        return {
            "view": self.name,
            "inputs": describe_inputs(codes.processor, codes.reach),
            "latent": codes.latent,
            "variational": codes.variational,
            "axes": list(codes.plane.names),
            "explained": encode_arrays.round_digits(torch.tensor(codes.plane.explained), 3),
            "low": encode_arrays.round_digits(low),
            "high": encode_arrays.round_digits(high),
            "origin": encode_arrays.round_digits(codes.plane.place(torch.zeros(1, codes.latent))[0]),
            "held": _map_points(codes),
            "within": share_within(codes),
            "grid": self._grid(low, high),
            "here": {
                "name": scene.given.name or "this input",
                "place": encode_arrays.round_digits(codes.plane.place(base[None])[0]),
                "code": encode_arrays.round_digits(base, 5),
                "original": exhibit_large(scene.given.inputs["x"][0], codes.processor.form),
                "decoded": exhibit_large(codes.decode(base[None])[0], codes.processor.form),
            },
            "dimensions": self._dimensions(),
            "strips": self._strips(base, first),
            "note": self._note(),
        }

    def _note(self) -> str | None:
        held = self.codes.held_out
        if held is None:
            return "The data of this run cannot be read any more, so the map of the latent space has no inputs on it."
        if len(held.rows) < held.of:
            return (
                f"The map, the errors and the KL are of {len(held.rows):,} of the {held.of:,} inputs of the "
                f"{held.split} split, evenly taken."
            )
        return None

    # ---- parts

    def _frame(self, base: Tensor) -> tuple[Tensor, Tensor]:
        """The corners of the map: all codes are inside, and 3 σ of a prior. No side is much longer than another.
        k, k"""
        codes = self.codes
        seen = [codes.plane.place(base[None])]
        if codes.held_out is not None:
            seen.append(codes.plane.place(codes.held_out.codes))
        if codes.held_out is None or codes.variational:
            origin = codes.plane.place(torch.zeros(1, codes.latent))
            seen += [origin - WIDTH, origin + WIDTH]
        places = torch.cat(seen).nan_to_num().clamp(-FARTHEST, FARTHEST)
        low, high = places.amin(0), places.amax(0)
        longest = (high - low).max().clamp_min(1e-3)
        air = 0.04 * longest + 0.5 * (NARROWEST * longest - (high - low)).clamp_min(0)
        return low - air, high + air

    def _grid(self, low: Tensor, high: Tensor) -> dict[str, Any] | None:
        """What is decoded in the middle of each field of the map, row by row from the top."""
        if len(low) > 2:
            return None
        side = min(GRID, int(count_that_fits(self.codes.processor) ** 0.5))
        if side < SMALLEST_GRID:
            return None
        sides = (high - low) / (high - low).max()
        counts = [max(1, round(side * float(part))) for part in sides]  # fields are as wide as they are high
        middles = [low[i] + (torch.arange(count) + 0.5) / count * (high[i] - low[i]) for i, count in enumerate(counts)]
        if len(counts) == 1:
            places = middles[0][:, None]
        else:
            places = torch.cartesian_prod(middles[1].flip(0), middles[0]).flip(1)
        decoded = self.codes.decode(self.codes.plane.code(places))
        rows = counts[1] if len(counts) > 1 else 1
        return {"rows": rows, "columns": counts[0], "shown": exhibit(decoded, self.codes.processor.form)}

    def _dimensions(self) -> list[dict[str, Any]]:
        codes = self.codes
        middle, sigma = codes.spread
        active = codes.active.tolist()
        kl = codes.kl
        return [
            {
                "number": i,
                "kl": None if kl is None else encode_arrays.round_digits(float(kl[i])),
                "variance": encode_arrays.round_digits(float(codes.variance[i])),
                "active": active[i],
                "low": encode_arrays.round_digits(float(middle[i] - WIDTH * sigma[i])),
                "high": encode_arrays.round_digits(float(middle[i] + WIDTH * sigma[i])),
                "sigma": encode_arrays.round_digits(float(sigma[i])),
            }
            for i in codes.order
        ]

    def _strips(self, base: Tensor, dimensions: list[int]) -> dict[str, Any]:
        """Decodings along each of some dimensions; all other numbers are those of a code."""
        middle, sigma = self.codes.spread
        steps = torch.linspace(-WIDTH, WIDTH, STEPS)
        codes = base.repeat(len(dimensions), STEPS, 1)
        for place, i in enumerate(dimensions):
            codes[place, :, i] = middle[i] + steps * sigma[i]
        decoded = self.codes.decode(codes.flatten(0, 1))
        return {"of": dimensions, "steps": STEPS, "shown": exhibit(decoded, self.codes.processor.form)}

    # ---- questions

    def ask(self, scene: Scene, asked: Mapping[str, Any]) -> dict[str, Any]:
        """One of: `code`, its numbers; `place` on the map; `row`, the number of an input on the map. The answer is
        that code, its place, and what is decoded from it. With `code` and `strips`, a list of dimensions: their
        strips through that code."""
        known = ("code", "place", "row", "strips")
        unknown = sorted(set(asked) - set(known))
        if unknown:
            raise RegardError(f"a latent space takes no {unknown[0]!r}; known: {', '.join(known)}")
        code = self._asked_code(asked)
        if "strips" in asked:
            return {"strips": self._strips(code, self._asked_dimensions(asked["strips"]))}
        decoded = self.codes.decode(code[None])[0]
        return {
            "code": encode_arrays.round_digits(code, 5),
            "place": encode_arrays.round_digits(self.codes.plane.place(code[None])[0], 5),
            "decoded": exhibit_large(decoded, self.codes.processor.form),
        }

    def _asked_code(self, asked: Mapping[str, Any]) -> Tensor:
        if sum(name in asked for name in ("code", "place", "row")) != 1:
            raise RegardError("ask with one of these: code, place or row")
        if "code" in asked:
            return _numbers("code", asked["code"], self.codes.latent)
        if "place" in asked:
            place = _numbers("place", asked["place"], len(self.codes.plane.names))
            return self.codes.plane.code(place[None])[0]
        held, row = self.codes.held_out, asked["row"]
        count = 0 if held is None else len(held.rows)
        if held is None or type(row) is not int or not 0 <= row < count:
            raise RegardError(f"row must be a whole number from 0 to below {count}, got {str(row)[:40]}")
        return held.codes[row].float()

    def _asked_dimensions(self, given: Any) -> list[int]:
        whole = isinstance(given, list) and 0 < len(given) <= STRIPS and all(type(each) is int for each in given)
        if not whole or not all(0 <= each < self.codes.latent for each in given):
            raise RegardError(
                f"strips must be up to {STRIPS} dimensions from 0 to {self.codes.latent - 1}, got {str(given)[:40]}"
            )
        found: list[int] = given
        return found

    def still(self, scene: Scene, title: str) -> Any:
        return draw_latent(self.codes, title)


def _numbers(name: str, given: Any, count: int) -> Tensor:
    """Real numbers of a request, none of them too large.   count"""
    numbers = isinstance(given, list) and all(type(each) in (int, float) for each in given)
    if not numbers or len(given) != count or not all(abs(each) <= FARTHEST for each in given):
        raise RegardError(f"{name} must be {count} numbers from −{FARTHEST:g} to {FARTHEST:g}")
    return torch.tensor([float(each) for each in given])


def _map_points(codes: Codes) -> dict[str, Any] | None:
    """Inputs on the map; None: there are none."""
    held, dataset = codes.held_out, codes.dataset
    if held is None or dataset is None:
        return None
    few = min(len(held.rows), count_that_fits(codes.processor))
    shown = torch.linspace(0, len(held.rows) - 1, few).round().long()
    return {
        "split": held.split,
        "count": len(held.rows),
        "places": encode_arrays.pack_array(codes.plane.place(held.codes).nan_to_num().numpy().astype(np.float32)),
        "names": [name_input(dataset.examples, int(row)) for row in held.rows],
        "labels": list(codes.labels),
        "classes": held.classes.tolist() if codes.labels else None,
        "thumbs": shown.tolist(),
        "shown": exhibit(held.x[shown], codes.processor.form),
    }


def share_within(codes: Codes) -> dict[str, Any] | None:
    """The share of codes of which every number is within 3 σ of the middle, and what it is for normal codes."""
    held = codes.held_out
    if held is None:
        return None
    middle, sigma = codes.spread
    inside = ((held.codes - middle).abs() <= WIDTH * sigma).all(1)
    return {"share": float(inside.float().mean()), "expected": INSIDE**codes.latent, "count": len(inside)}

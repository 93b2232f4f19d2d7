"""Every registered model keeps what it declares, measured by `check` itself: in float64 to 1e-9, and in float32."""

import pytest
import torch

from regard import registry
from regard.symmetry.check import check
from regard.symmetry.groups import Permutations, Reflections, Rotations, Shifts
from tests.models.sequences import ATTENTIONS, decoder, encoder, some_tokens

REGISTERED = list(registry.entries("models"))


@pytest.mark.parametrize("name", REGISTERED)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_declared_is_measured(name, dtype):
    model, inputs = registry.find("models", name).tiny()
    report = check(model, inputs, dtype=dtype)
    assert report.ok, str(report)
    assert str(model.symmetry) == registry.entries("models")[name].symmetry, "what regard list models prints"
    if model.roles.nodes is not None:
        assert report["relabelling"].measured == report["determinism"].measured == "holds", str(report)
        return
    if model.roles.grid is not None:
        of_grids = {"permutation": Permutations, "shift": Shifts, "rotation": Rotations, "reflection": Reflections}
        for law, group in of_grids.items():
            kept = any(isinstance(part, group) for part in model.symmetry.parts())
            if law in report or model.roles.patch is not None:
                assert report[law].measured == ("holds" if kept else "broken"), str(report)
        assert report["neighbours"].measured == report["determinism"].measured == "holds", str(report)
        return
    placed = model.roles.stream.places is not None  # a set has no places to shift or to move along
    for law, group in (("permutation", Permutations()), ("shift", Shifts()))[: 1 + placed]:
        assert report[law].measured == ("holds" if group <= model.symmetry else "broken"), str(report)
    for law in ("padding", "neighbours", "determinism", "reach", "padding in training", "reordering")[: 5 + placed]:
        assert report[law].measured == "holds" and report[law].declared == "holds", str(report)
    assert all(
        f.tolerance in ((1e-9,) if dtype == torch.float64 else (1e-4, 1e-9))  # float64 decides where it is near
        for f in report
        if f.law not in ("precision", "reach")
    )


def test_a_decoder_is_causal_and_its_cache_is_right_and_an_encoder_promises_neither():
    decoder = check(*registry.find("models", "decoder").tiny(), laws=["causality", "cache"])
    assert [(f.declared, f.measured) for f in decoder] == [("holds", "holds")] * 2
    encoder = check(*registry.find("models", "encoder").tiny())
    assert (encoder["causality"].declared, encoder["causality"].measured) == ("not promised", "broken")
    assert "cache" not in encoder


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("make, position", [(decoder, "rotary"), (encoder, "none")])
def test_every_attention_keeps_what_it_declares(name, make, position):
    """With its defaults, which hide nothing from so few tokens: what is lost only in longer texts is not promised."""
    if make is decoder and name == "linformer":
        return
    how = {key: ATTENTIONS[name][key] for key in ("attention", "weights") if key in ATTENTIONS[name]}
    hygiene = ["reordering", "padding", "neighbours", "determinism"]
    if make is decoder:
        hygiene += ["causality", "cache"]
    model = make(torch.float32, position=position, depth=1, **how)
    report = check(model, {"tokens": some_tokens()}, laws=["permutation", "shift", *hygiene], trials=2)
    assert report.ok, str(report)
    assert all(report[law].measured == "holds" for law in hygiene), str(report)


def test_what_each_approximation_keeps():
    """Bare: a performer permutations, lsh shifts, linformer nothing; turned by a rotary position, none keeps any."""
    bare = {name: encoder(position="none", **how).symmetry for name, how in ATTENTIONS.items()}
    assert Permutations() <= bare["performer"] and Shifts() <= bare["performer"]
    assert Shifts() <= bare["lsh"] and not Permutations() <= bare["lsh"]
    assert not bare["linformer"].parts()
    for name in ("performer", "linformer", "lsh"):
        assert not encoder(position="rotary", **ATTENTIONS[name]).symmetry.parts()

"""Each planted bug is caught by the right law and found in the right module; the same model without it passes."""

import pytest

from regard.symmetry.check import check
from tests.symmetry import (  # noqa: F401  (importing them fills the list)
    planted_caches,
    planted_experts,
    planted_graphs,
    planted_maps,
    planted_masks,
    planted_meshes,
    planted_order,
    planted_padding,
    planted_pictures,
    planted_rows,
)
from tests.symmetry.planted import BUGS

TRIALS = 4

# Laws and bugs for which a module around the right one will do, if it is marked as such.
WIDE = {
    "places_counted_from_the_end",  # the cache was spoilt in an earlier step
    "reach",  # a token is lost inside a module, never at its door
    "precision",  # rounding adds up along the whole way
    "rotary_on_keys_only",  # how inner tensors should change with places is not known
    "rotary_on_values_too",
    "learned_place_in_a_relative_model",
    "a_vector_taken_for_two_numbers",  # vectors of maps are recognised by their lengths, and not followed
    "stray_bias_on_vectors",  # vectors inside are not recognised
    "experts_that_drop_tokens",  # inside, tokens of all rows lie sorted by expert
    "padding_that_takes_the_room_of_experts",
}


def names(findings):
    """A law measured again in training is the same law."""
    return {finding.law.removesuffix(" in training") for finding in findings}


@pytest.mark.parametrize("planted", BUGS, ids=lambda bug: bug.name)
def test_without_the_bug_all_is_as_declared(planted):
    model, inputs, told = planted.model(bug=False)
    report = check(model, inputs, **told, trials=TRIALS)
    assert report.ok, report
    found = report[planted.law]
    assert found.measured == "holds", found
    assert found.declared in ("holds", "invariant", "equivariant"), found


@pytest.mark.parametrize("planted", BUGS, ids=lambda bug: bug.name)
def test_the_bug_is_caught_and_found(planted):
    model, inputs, told = planted.model(bug=True)
    report = check(model, inputs, **told, trials=TRIALS)
    found = report[planted.law]
    assert found.measured == "broken", report
    assert names(report.wrong) - set(planted.also) == {planted.law.removesuffix(" in training")}, report
    if found.exact or found.after:  # after: it is not known what inner tensors should be
        assert found.layer == planted.layer, found
    else:
        assert {planted.law, planted.name} & WIDE, found
        assert not found.layer or f"{planted.layer}.".startswith(f"{found.layer}."), found


def test_there_are_many_of_every_kind():
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 36
    assert {bug.law for bug in BUGS} == {
        "permutation", "shift", "rotation", "reflection", "scaling", "translation", "relabelling", "edge_order", "gauge",
        "reordering", "padding",
        "padding in training", "neighbours", "causality", "cache", "determinism", "precision", "reach",
    }  # fmt: skip
    assert {bug.law for bug in BUGS} | {bug.name for bug in BUGS} >= WIDE

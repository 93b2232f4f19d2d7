"""The measurement itself: what it refuses to call a pass, what it leaves behind, and what it says."""

import io
import json
import math
from random import Random

import pytest
import torch
from rich.console import Console
from torch import nn

from regard import registry
from regard.look.terminal import laws_table
from regard.symmetry.actions import Fixed, OnAxis, OnGrid
from regard.symmetry.align import Equal
from regard.symmetry.check import LAWS, check
from regard.symmetry.groups import Permutations, Shifts
from regard.symmetry.laws import Law, Symmetry, Trial
from regard.symmetry.report import Finding, Report
from regard.symmetry.roles import Roles, Stream

X = torch.randn(2, 13, 6, generator=torch.Generator().manual_seed(0))


class Places(nn.Module):
    """Adds a learned vector to each place, asleep (zero) at first."""

    def __init__(self, value=0.0):
        super().__init__()
        self.vectors = nn.Parameter(torch.full((64, 6), value))

    def forward(self, x):
        return x + self.vectors[: x.shape[1]]


class Model(nn.Module):
    def __init__(self, middle=None, head=None):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.middle, self.head = nn.Linear(6, 6), middle or nn.Identity(), head or nn.Linear(6, 5)

    def forward(self, x):
        return self.head(self.middle(self.embed(x)).relu())


def test_every_law_is_listed_and_every_listed_law_is_one():
    assert [law.name for law in LAWS] == list(registry.entries("laws"))
    assert all(registry.find("laws", law.name) is law for law in LAWS)


def test_a_parameter_that_sleeps_cannot_hide_a_break_and_sleeps_again_afterwards():
    model = Model(Places())
    found = check(model, X, symmetry=Permutations())["permutation"]
    assert (found.declared, found.measured, found.layer, found.exact) == ("equivariant", "broken", "middle", True)
    assert (model.middle.vectors == 0).all()


def test_nothing_is_left_behind_also_after_an_exception():
    model = Model(nn.Sequential(nn.Dropout(0.4), nn.BatchNorm1d(13), Places())).train()
    model.head.eval()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    modes = {name: module.training for name, module in model.named_modules()}
    rates, random = model.middle[0].p, torch.get_rng_state()

    class Fails(Law):
        name = "fails"

        def trials(self, subject, random, count):
            raise KeyboardInterrupt

    check(model, X)
    with pytest.raises(KeyboardInterrupt):
        check(model, X, laws=[Fails()])
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert model.middle[0].p == rates and torch.equal(torch.get_rng_state(), random)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


class Still(nn.Module):
    def forward(self, x):
        return torch.ones_like(x)


class Deaf(nn.Module):
    def forward(self, x):
        return torch.arange(x.numel()).view(x.shape).to(x)


class Hollow(nn.Module):
    def forward(self, x):
        return x / 0


@pytest.mark.parametrize(
    "middle, words",
    [(Still(), "all its numbers are equal"), (Deaf(), "not depend on the input"), (Hollow(), "not finite")],
)
def test_a_constant_or_endless_output_is_vacuous_and_no_pass(middle, words):
    report = check(middle, X, symmetry=Permutations())
    assert not report.ok
    assert {finding.measured for finding in report} == {"vacuous"}
    assert all(words in finding.reason for finding in report)


def test_the_same_seed_measures_the_same():
    model = Model(Places(1.0))
    again = [[(f.law, f.error, f.worst) for f in check(model, X, seed=seed)] for seed in (3, 3, 4)]
    assert again[0] == again[1] != again[2]


def test_a_law_is_broken_by_as_little_as_float64_can_see():
    """A break of 1e-6 is rounding for float32's tolerance; float64 decides, and tells it from the rounding of a good model."""

    class Faint(nn.Module):
        def forward(self, x):
            return x + 3e-6 * torch.arange(x.shape[1]).to(x)[:, None]

    found = check(Model(Faint()), X, symmetry=Permutations())["permutation"]
    assert (found.measured, found.dtype, found.tolerance) == ("broken", "float64", 1e-9)
    assert found.error < 1e-4 and found.layer == "middle"


def test_a_law_of_ones_own():
    class Odd(Law):
        """f(−x) = −f(x)."""

        name = "odd"
        kind = "hygiene"

        def trials(self, subject, random: Random, count):
            x = subject.inputs["x"]
            yield Trial("times −1", {"x": x}, {"x": -x}, Equal(), lambda first, second: (-first, second))

    odd, even = nn.Linear(6, 6, bias=False), nn.Linear(6, 6)
    named = {"roles": Roles(streams=(Stream("x"),)), "laws": [Odd()]}
    assert check(lambda x: odd(x), {"x": X}, **named)["odd"].measured == "holds"
    assert check(lambda x: even(x), {"x": X}, **named)["odd"].measured == "broken"


def test_declared_symmetries_are_measured_as_declared():
    pooled = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    invariant = Symmetry(Permutations(), into=OnAxis(1), out=Fixed())
    equivariant = Symmetry(Permutations(), into=OnAxis(1), out=OnAxis(1))
    assert check(lambda x: pooled(x).sum(1), X, symmetry=invariant).ok
    assert check(pooled, X, symmetry=equivariant).ok
    wrong = check(pooled, X, symmetry=invariant)
    assert not wrong.ok and wrong["permutation"].declared == "invariant"
    declared_broken = check(pooled, X, symmetry=Shifts())["permutation"]
    assert (declared_broken.declared, declared_broken.measured, declared_broken.ok) == ("broken", "holds", False)


def test_images_roll_turn_and_flip():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    round_about = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
    report = check(nn.Sequential(round_about, nn.ReLU()), x, symmetry=Shifts())
    assert report["shift"].measured == "holds" and report["shift"].declared == "equivariant" and report.ok
    assert report["rotation"].declared == "broken" and report["rotation"].measured == "broken"
    assert report["rotation"].layer == "0" and report["rotation"].exact
    zeros = check(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()), x, symmetry=Shifts())["shift"]
    assert (zeros.measured, zeros.layer, zeros.exact) == ("broken", "0", True)
    strided = nn.Sequential(nn.Conv2d(3, 4, 2, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert check(strided, x, symmetry=Shifts(2)).ok
    assert check(strided, x, symmetry=Shifts())["shift"].measured == "broken"
    assert check(strided, x, symmetry=Symmetry(Shifts(2), into=OnGrid(), out=Fixed())).ok


def test_of_several_the_first_is_named():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    around = {"padding": 1, "padding_mode": "circular"}
    first, second, third = (nn.Conv2d(channels, 4, 3, **around) for channels in (3, 4, 4))
    deep = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)
    found = check(deep, x, laws=["rotation"])["rotation"]
    assert (found.measured, found.layer, found.exact) == ("broken", "0", True)
    assert "; 2 and 1 more break it, too" in found.reason
    first, second = (nn.Conv2d(channels, 4, 3, padding=1) for channels in (3, 4))
    zeros = nn.Sequential(first, nn.ReLU(), second, nn.Flatten(), nn.Linear(256, 5))
    found = check(zeros, x, laws=["shift"])["shift"]
    assert found.measured == "broken" and (found.layer, found.exact) in (("0", True), ("", False))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_drawn_seldom_in_training_is_no_break(seed):
    """Experts chosen at random in training: two runs are often equal by chance."""

    class Draws(nn.Linear):
        def forward(self, x):
            if self.training and torch.rand(()) < 0.2:
                x = x + 1
            return super().forward(x)

    report = check(Draws(4, 4), torch.randn(3, 4), laws=["neighbours"], seed=seed)
    assert report["neighbours"].measured == "holds"
    assert report["neighbours in training"].measured in ("unknown", "holds")


def test_batch_norm_mixes_rows_in_training_and_only_there():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(6)

        def forward(self, x):
            return self.norm(x.transpose(1, 2)).transpose(1, 2)

    report = check(Model(Normed()), X)
    assert report["neighbours"].measured == "holds"
    training = report["neighbours in training"]
    assert (training.declared, training.measured, training.layer) == ("not promised", "broken", "middle.norm")
    assert report.ok


def test_unknown_says_why():
    class Masked(nn.Module):
        def forward(self, x, mask=None):
            return x if mask is None else x * mask[..., None]

    found = check(Masked(), X)["padding"]
    assert found.measured == "unknown" and found.ok
    assert found.reason.startswith(
        "it is not known what 'mask' means; give roles=Roles(streams=(Stream('x', mask='mask', "
    )
    roles = Roles(streams=(Stream("x", mask="mask"),))
    assert check(Masked(), X, roles=roles)["padding"].measured == "holds"


def test_the_report_for_machines_and_for_people():
    report = check(Model(Places(1.0)), X, symmetry=Permutations())
    found = json.loads(json.dumps(report.to_json()))
    assert set(found) == {"ok", "seed", "model", "laws"} and found["ok"] is False and found["seed"] == 0
    line = found["laws"][0]
    assert set(line) == {
        "law",
        "by",
        "named",
        "declared",
        "measured",
        "error",
        "tolerance",
        "worst",
        "layer",
        "exact",
        "reason",
        "dtype",
        "seconds",
        "length",
        "rows",
        "after",
        "ok",
    }
    assert [line[key] for key in ("law", "measured", "layer", "exact")] == ["permutation", "broken", "middle", True]
    assert line["ok"] is False
    text = str(report)
    assert " ".join(text.splitlines()[0].split()) == "law declared measured tokens error tolerance worst case breaks at"
    assert "permutation: declared equivariant, measured broken (error" in text and "it breaks at middle" in text
    assert "permutation: declared equivariant" in repr(report)
    assert "<table" in report._repr_html_() and "color:#cf222e;font-weight:bold'>broken" in report._repr_html_()
    assert "laws as declared" in repr(check(Model(), X))
    with pytest.raises(KeyError, match="'spin' was not measured; this report has permutation"):
        report["spin"]


def test_a_model_that_gives_something_else_each_time_is_compared_with_nothing():
    class Dice(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x, 0.5, training=True)

    report = check(Model(Dice()), X, symmetry=Permutations())
    assert report["determinism"].measured == "broken" and not report.ok
    others = [finding for finding in report if finding.law != "determinism"]
    assert {finding.measured for finding in others} == {"unknown"}
    assert all("something else each time" in finding.reason for finding in others)


def test_infinite_errors_are_words_in_json():
    class Grows(nn.Module):
        def forward(self, x):
            return x if x.shape[0] == 1 else x / (x.shape[0] - 3)

    report = check(Grows(), X, laws=["neighbours"])
    assert report["neighbours"].error == math.inf
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["laws"][0]["error"] == "inf"


@pytest.mark.parametrize(
    "how, words",
    [
        (
            {"laws": ["permutatoin"]},
            "there is no law 'permutatoin'; did you mean 'permutation'. there are permutation, shift",
        ),
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"symmetry": ["permutation"]}, "symmetry must be a group or Symmetry objects, got str"),
        ({"roles": Roles(streams=(Stream("ids"),))}, "roles name the tokens 'ids', and the inputs are input"),
    ],
)
def test_words_of_errors(how, words):
    with pytest.raises(ValueError, match=words):
        check(nn.Linear(6, 6), X, **how)


def test_a_model_that_does_not_run_is_an_error_of_one_line():
    with pytest.raises(ValueError, match="the model does not run on the inputs given: RuntimeError: mat1 and mat2"):
        check(nn.Linear(5, 5), X)
    with pytest.raises(ValueError, match=r"model must be a torch.nn.Module or a function, got int"):
        check(3, X)
    with pytest.raises(ValueError, match=r"the model returned dict, and none of it is the tensor that counts"):
        check(lambda x: {"a": 1}, X)


class Rounds(nn.Module):
    """A sum that loses digits, taken in float32 whatever is given, as norms of most language models are."""

    def __init__(self, by_place=0.0):
        super().__init__()
        self.by_place = by_place

    def forward(self, x):
        places = self.by_place * torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        return (((1 + places) * x + 300).float().mean(1) - 300).to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_a_model_casts_to_float32_on_its_way_is_measured_in_float64_too(dtype):
    for copy in (None, torch.float64):
        found = check(Rounds(), X.to(dtype), symmetry=Permutations(), laws=["permutation"], dtype=copy)["permutation"]
        assert (found.measured, found.dtype) == ("holds", "float64"), found
        found = check(Rounds(1e-6), X.to(dtype), symmetry=Permutations(), laws=["permutation"], dtype=copy)[
            "permutation"
        ]
        assert (found.measured, found.dtype) == ("broken", "float64"), found


class Reuses(nn.Module):
    """Gives the same tensor every time, with other numbers in it, as a captured graph does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("out", torch.zeros(64, 13, 6))

    def forward(self, x):
        return self.out[: len(x), : x.shape[1]].copy_(2 * x)


def test_a_model_may_write_into_what_it_gave_before():
    found = check(Reuses(), X, symmetry=Permutations(), laws=["permutation"])["permutation"]
    assert (found.declared, found.measured, found.error) == ("equivariant", "holds", 0.0)


def test_a_copy_of_a_copy_in_float64_runs_its_own_layers():
    found = check(Model(Places(0.3)), X, symmetry=Permutations(), laws=["permutation"], dtype=torch.float64)[
        "permutation"
    ]
    assert (found.measured, found.dtype, found.layer, found.exact) == ("broken", "float64", "middle", True)


def test_what_is_declared_is_explained_where_it_stands():
    broken, idle = (
        Finding("shift", "broken", "broken", error=1.0),
        Finding("causality", "not promised", "broken", error=1.0),
    )
    kept = Finding("permutation", "invariant", "holds", error=0.0)
    meant = {
        name: Report(found, 0).words()
        for name, found in {"none": (kept,), "one": (broken, kept), "both": (kept, idle, broken)}.items()
    }
    assert meant["none"] == [] and len(meant["one"]) == 1 and len(meant["both"]) == 2
    assert meant["one"][0].startswith("declared broken: the architecture cannot keep this law")
    for report in (Report((kept, broken, idle), 0), Report((kept,), 0)):
        stream = io.StringIO()
        laws_table(report, Console(file=stream, force_terminal=True, width=300, color_system=None))
        for text in (str(report), stream.getvalue()):
            assert text.count("declared broken: ") == text.count("not promised: ") == (len(report) == 3)


def test_the_name_of_a_layer_is_never_cut_off():
    layer = "encoder.layers.0.a_module_with_a_very_long_name_of_its_own.norm1"
    report = Report((Finding("shift", "broken", "broken", error=1.0, tolerance=0.1, layer=layer, exact=True),), 0)
    assert str(report).splitlines()[1].endswith(f"  {layer}")
    stream = io.StringIO()
    laws_table(report, Console(file=stream, force_terminal=True, width=80, color_system=None))
    table = [line.split() for line in stream.getvalue().splitlines()]
    parts = [words[-1] for words in table[1:-1] if words and words[-1] in layer]
    assert "".join(parts) == layer and len(parts) > 1  # on several lines


def test_a_law_that_is_named_and_not_measured_is_not_ok():
    model, x = nn.Linear(4, 4), torch.randn(2, 5, 4)
    for laws in (["relabelling"], "relabelling", ["permutation", "relabelling"]):
        report = check(model, x, laws=laws)
        assert report["relabelling"].measured == "unknown" and not report.ok
    assert report.verdict == "1 law not measured" and check(model, x).ok

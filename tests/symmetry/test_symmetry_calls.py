"""What a check must see of how modules are called, of what they keep between calls, and of batches and shapes as they come."""

import itertools

import pytest
import torch
from torch import nn

from regard.symmetry.check import check
from regard.symmetry.roles import Roles, Stream

WIDTH = 8
IDS, MASK = torch.arange(27).reshape(3, 9) % 11, torch.ones(3, 9, dtype=torch.long)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


# ── where: modules that are called without hooks


class Attention(nn.Module):
    def __init__(self, leaks):
        super().__init__()
        self.to_qkv, self.out, self.leaks = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), leaks

    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, -1)
        allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(int(self.leaks))
        return self.out((q @ k.mT).masked_fill(~allowed, -torch.inf).softmax(-1) @ v)


class Block(nn.Module):
    def __init__(self, leaks, by_forward):
        super().__init__()
        self.attention, self.norm, self.by_forward = Attention(leaks), nn.LayerNorm(WIDTH), by_forward

    def forward(self, x):
        h = self.norm(x)
        return x + (self.attention.forward(h) if self.by_forward else self.attention(h))


class Decoder(nn.Module):
    def __init__(self, leaks=(1,), by_forward=False):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, WIDTH), nn.Linear(WIDTH, 11)
        self.blocks = nn.ModuleList([Block(i in leaks, by_forward) for i in range(3)])

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def with_compiled_blocks(model):
    model.blocks = nn.ModuleList([torch.compile(block, backend="eager") for block in model.blocks])
    return model


@pytest.mark.parametrize(
    "model",
    [Decoder(by_forward=True), with_compiled_blocks(Decoder()), torch.compile(Decoder(), backend="eager")],
    ids=["by forward", "compiled blocks", "compiled"],
)
def test_a_module_is_named_however_it_is_called(model):
    before = [set(vars(module)) for module in model.modules()]
    found = check(model, {"input_ids": IDS}, laws=["causality"])["causality"]
    assert (found.measured, found.layer, found.exact) == ("broken", "blocks.1.attention", True)
    assert [set(vars(module)) for module in model.modules()] == before


# ── what is kept between calls


class Keeps(nn.Module):
    """Attention that keeps something from its calls."""

    def __init__(self, kept):
        super().__init__()
        self.kept, self.cache, self.range = kept, {}, None
        self.register_buffer("low", torch.tensor(0.0))
        self.register_buffer("high", torch.tensor(0.0))

    def forward(self, x, mask):
        if self.kept == "mask by shape":
            mask = self.cache.setdefault(x.shape, mask)
        y = (x @ x.mT).masked_fill(mask[:, None] == 0, -1e9).softmax(-1) @ x
        if self.kept == "range of the first call":
            self.range = float(y.abs().mean()) if self.range is None else self.range
            y = (y / self.range * 20).round() / 20 * self.range
        if self.kept == "observed range":
            self.low.copy_(torch.minimum(self.low, y.min()))
            self.high.copy_(torch.maximum(self.high, y.max()))
            step = (self.high - self.low) / 50
            y = (y / step).round() * step
        if self.kept == "places by length":  # which is right: they are the same every time
            y = y + self.cache.setdefault(len(x[0]), torch.arange(len(x[0]))[:, None] / 9)
        return y


class Model(nn.Module):
    def __init__(self, core):
        super().__init__()
        self.embed, self.core, self.head = nn.Embedding(11, WIDTH), core, nn.Linear(WIDTH, 5)

    def forward(self, input_ids, attention_mask):
        return self.head(self.core(self.embed(input_ids), attention_mask))


def found_in(core, law, inputs=None):
    return check(Model(core), inputs or {"input_ids": IDS, "attention_mask": MASK}, laws=[law])[law]


@pytest.mark.parametrize("kept", ["mask by shape", "range of the first call", "observed range"])
def test_what_is_kept_from_other_inputs_is_seen_where_it_is_kept(kept):
    found = found_in(Keeps(kept), "determinism")
    assert (found.measured, found.layer, found.exact) == ("broken", "core", True) and "after a run on" in found.worst


def test_what_may_be_kept_is_no_alarm():
    assert found_in(Keeps("places by length"), "determinism").measured == "holds"


# ── rows and batches


class Rows(nn.Module):
    """Attention with a mistake that shows in batches of some sizes only."""

    def __init__(self, mistake):
        super().__init__()
        self.mistake = mistake

    def forward(self, x, mask):
        scores = x @ x.mT
        if self.mistake != "no mask for one row" or len(x) > 1:
            scores = scores.masked_fill(mask[:, None] == 0, -1e9)
        y = scores.softmax(-1) @ x
        if self.mistake == "later rows":
            y = torch.cat([y[:5], 2 * y[5:]])
        return y


@pytest.mark.parametrize("mistake, law", [("no mask for one row", "padding"), ("later rows", "neighbours")])
def test_batches_of_one_row_and_of_many_are_tried(mistake, law):
    found = found_in(Rows(mistake), law)
    assert (found.measured, found.layer) == ("broken", "core")
    right = found_in(Rows(None), law)
    assert right.measured == "holds" and right.rows > 1 and f"{right.rows} rows" in right.sentence()


def test_a_layer_that_takes_no_single_row_in_training_is_tried_with_others():
    model = nn.Sequential(nn.Linear(4, 4), nn.Flatten(1), nn.BatchNorm1d(20), nn.Linear(20, 3))
    found = check(model, torch.randn(4, 5, 4), laws=["neighbours"])["neighbours in training"]
    assert found.measured == "broken" and found.layer == "2"


class FlipsABranch(nn.Module):
    """For all rows, by a sum over them."""

    def forward(self, x, mask):
        return x * (2 if x[:, 0].sum() > 2 else 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_branch_that_other_rows_flip_now_and_then_is_found_with_any_seed(seed):
    model = Model(FlipsABranch())
    found = check(model, {"input_ids": IDS, "attention_mask": MASK}, laws=["neighbours"], seed=seed)["neighbours"]
    assert found.measured == "broken"


# ── what a dtype hides


class Places(nn.Module):
    """Causal attention whose mask compares places in a dtype."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype, self.to_qkv = dtype, nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, -1)
        places = torch.arange(x.shape[1]).to(self.dtype or x.dtype)
        return (q @ k.mT).masked_fill(places[None] > places[:, None], -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize(
    "cast_to, dtype, measured",
    [
        (torch.bfloat16, None, "broken"),  # place 257 and place 258 are one
        (None, torch.bfloat16, "unknown"),
        (torch.long, torch.bfloat16, "holds"),
    ],
)
def test_places_that_become_equal_in_a_dtype_are_no_rounding(cast_to, dtype, measured):
    found = check(Places(cast_to), torch.randn(1, 270, WIDTH), laws=["causality"], dtype=dtype)["causality"]
    assert found.measured == measured and (measured != "unknown" or "equal" in found.reason)


# ── outputs and inputs that are not as usual


class Begins(nn.Module):
    """A causal model that puts a start token in front."""

    def __init__(self):
        super().__init__()
        self.embed, self.start, self.attention = (
            nn.Embedding(11, WIDTH),
            nn.Parameter(torch.randn(WIDTH)),
            Attention(False),
        )

    def forward(self, input_ids):
        x = self.embed(input_ids)
        return self.attention(torch.cat([self.start.expand(len(x), 1, -1), x], 1))


def test_an_output_with_one_entry_more_than_tokens_says_what_to_give():
    roles = Roles(streams=(Stream("input_ids"),), read=lambda out: out[:, 1:])
    assert "out[:, 1:]" in check(Begins(), {"input_ids": IDS})["causality"].reason
    assert check(Begins(), {"input_ids": IDS}, roles=roles)["causality"].measured == "holds"


class Adds(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.randn(40, 4))

    def forward(self, x):
        x += self.places[: x.shape[1]]
        return 2 * x


def test_a_forward_that_writes_into_its_input_is_found_and_the_callers_tensor_stays():
    x = torch.randn(2, 9, 4)
    before = x.clone()
    report = check(Adds(), x)
    assert torch.equal(x, before) and any("writes into its input 'x'" in note for note in report.notes)
    assert report["determinism"].measured == "broken" and "same tensors" in report["determinism"].worst
    assert report["causality"].measured == report["neighbours"].measured == "holds"


# ── names and shapes of other inputs

NAMES = [
    "attention_mask",
    "real",
    "key_padding_mask",
    "position_ids",
    "where",
    "token_type_ids",
    "edge_index",
    "labels",
]
SHAPES = [
    (),
    (1,),
    (3,),
    (9,),
    (3, 9),
    (1, 9),
    (3, 1),
    (9, 9),
    (3, 1, 1, 9),
    (3, 1, 9, 9),
    (3, 9, 9),
    (3, 3, 9),
    (2, 9),
]
SHAPES += [(0,), (3, 0), (3, 11), (4, 9)]
DTYPES = {"float": torch.float32, "ids": torch.long, "bool": torch.bool}


def takes(name):
    """A module whose forward has this input beside its tokens, and does not mind its shape."""

    class Takes(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(11, 4), nn.Linear(4, 3)

        def score(self, input_ids, other):
            return self.head(self.embed(input_ids) + other.float().sum())

    scope = {}
    exec(f"def forward(self, input_ids, {name}):\n    return self.score(input_ids, {name})", scope)
    Takes.forward = scope["forward"]
    return Takes()


@pytest.mark.parametrize("name", NAMES)
def test_no_shape_of_another_input_is_an_exception(name):
    model = takes(name)
    for shape, dtype in itertools.product(SHAPES, DTYPES.values()):
        other = torch.randint(0, 2, shape).to(dtype)
        report = check(model, {"input_ids": IDS, name: other}, trials=1)
        assert len(report) > 3 and all(each.reason for each in report if each.measured == "unknown"), (shape, dtype)


@pytest.mark.parametrize(
    "name, shape", [("attention_mask", (3, 1, 1, 9)), ("attention_mask", (3, 9, 9)), ("position_ids", (3, 3, 9))]
)
def test_an_input_of_another_shape_than_its_role_is_named(name, shape):
    report = check(takes(name), {"input_ids": IDS, name: torch.ones(shape)}, laws=["causality", "permutation"])
    for found in report:
        assert found.measured == "unknown" and repr(name) in found.reason and "3 9" in found.reason

"""Models of images: what each choice keeps and breaks is as declared, and located; options do something; errors speak."""

from dataclasses import fields, replace

import pytest
import torch

from regard.config import from_json, to_json
from regard.models.convnets import (
    DenseNet,
    DenseNetConfig,
    LeNet,
    LeNetConfig,
    ResNet,
    ResNet9,
    ResNet9Config,
    ResNetConfig,
)
from regard.models.group_cnn import GroupCNN, GroupCNNConfig
from regard.models.sample_inputs import build_seeded
from regard.models.swin import Swin, SwinConfig
from regard.models.vit import ViT, ViTConfig
from regard.symmetry.check import check
from regard.symmetry.groups import Permutations, Reflections, Rotations, Shifts, Trivial, product

SMALL = {
    LeNet: LeNetConfig(classes=3, size=8, widths=(4, 4), hidden=12),
    ResNet: ResNetConfig(classes=3, size=8, width=3, blocks=(1, 1)),
    ResNet9: ResNet9Config(classes=3, size=8, stem=3, widths=(3, 4), residual=(1, 1)),
    DenseNet: DenseNetConfig(classes=3, size=8, growth=3, blocks=(1, 1)),
    GroupCNN: GroupCNNConfig(classes=3, size=14, hidden=3, depth=3, last=2),
    ViT: ViTConfig(classes=3, size=12, patch=4, dim=16, depth=2, heads=2),
    Swin: SwinConfig(classes=3, size=12, patch=2, dim=8, depths=(2, 1), heads=(2, 2), window=3),
}


def images(config, rows=2, seed=0):
    sides = (config.size, config.size)
    return torch.randn(rows, config.colours, *sides, generator=torch.Generator().manual_seed(seed))


def made(kind, **changes):
    config = replace(SMALL[kind], **changes)
    return build_seeded(kind, config), images(config)


@pytest.mark.parametrize("kind, changes, keeps", [
    (ResNet, {"padding": "circular"}, Shifts(2)),
    (ResNet, {"padding": "circular", "blocks": (1, 1, 1)}, Shifts(4)),
    (ResNet, {"padding": "circular", "size": 7}, Trivial()),  # 7 is no whole number of steps
    (ResNet9, {"padding": "circular"}, Shifts(4)),
    (ResNet9, {"padding": "circular", "stride": 3, "size": 36}, Shifts(12)),
    (ResNet9, {"padding": "circular", "size": 6}, Trivial()),  # an odd side is halved with its last row alone
    (ResNet9, {}, Trivial()),
    (DenseNet, {"padding": "circular"}, Shifts(2)),
    (DenseNet, {}, Trivial()),
    (GroupCNN, {}, Rotations()),
    (GroupCNN, {"size": 13}, Rotations()),  # an odd side is halved symmetrically
    (GroupCNN, {"group": "p4m"}, product(Rotations(), Reflections())),
    (GroupCNN, {"group": "p1"}, Trivial()),
    (GroupCNN, {"padding": "zeros", "last": 1}, Rotations()),
    (GroupCNN, {"padding": "circular", "last": 1}, product(Rotations(), Shifts(2))),
    (GroupCNN, {"padding": "circular", "last": 3, "halve": ()}, product(Rotations(), Shifts())),
    (ViT, {"position": "none"}, product(Permutations(), Shifts(4))),
    (ViT, {"position": "none", "pool": "mean", "registers": 2}, product(Permutations(), Shifts(4))),
    (ViT, {"position": "none", "size": 10}, Trivial()),  # the last patches are filled up with zeros
    (ViT, {"position": "rotary", "pool": "mean"}, Trivial()),
    (Swin, {"size": 10}, Trivial()),
])  # fmt: skip
def test_what_is_declared_is_measured(kind, changes, keeps):
    model, x = made(kind, **changes)
    assert model.symmetry == keeps
    report = check(model, x, laws=["shift", "rotation", "reflection"], trials=2, dtype=torch.float64)
    assert report.ok, str(report)
    for law, group in (("shift", Shifts), ("rotation", Rotations), ("reflection", Reflections)):
        kept = any(isinstance(part, group) for part in keeps.parts())
        assert report[law].measured == ("holds" if kept else "broken"), str(report)


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_a_position_breaks_the_order_of_patches_and_is_named(position):
    model, x = made(ViT, position=position)
    finding = check(model, x, laws=["permutation"])["permutation"]
    assert (finding.declared, finding.measured, finding.layer, finding.exact) == ("broken", "broken", "position", True)


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_rotary_positions_turn_queries_and_keys_within_attention_which_is_named(pool):
    model, x = made(ViT, position="rotary", pool=pool)
    finding = check(model, x, laws=["permutation"])["permutation"]
    assert (finding.declared, finding.layer, finding.exact) == ("broken", "stack.blocks.0.attention.f", True)


FIRST = {  # what comes first and does not know a shift, a quarter turn, a mirror, another order of patches
    LeNet: ({}, "first", "first", "first", None),
    ResNet: ({}, "stem", "stem", "stem", None),
    ResNet9: ({}, "stem", "stem", "stem", None),
    DenseNet: ({}, "stem", "stem", "stem", None),
    GroupCNN: ({"padding": "zeros", "last": 1, "group": "p1"}, "layers.0", "layers.0", "layers.0", None),
    ViT: ({}, "embed", "embed.linear", "embed.linear", "position"),
    Swin: ({}, "embed", "embed.linear", "embed.linear", "stages.0.0"),
}


@pytest.mark.parametrize("kind", FIRST)
def test_what_breaks_is_located_in_every_kind(kind):
    changes, *layers = FIRST[kind]
    report = check(
        *made(kind, **changes), laws=["shift", "rotation", "reflection", *(["permutation"] if layers[3] else [])]
    )
    found = [(each.measured, each.layer, each.exact) for each in report]
    assert found == [("broken", layer, True) for layer in layers if layer]


@pytest.mark.parametrize("kind, changes, title", [
    (ResNet, {"padding": "circular", "blocks": (1, 1, 1)}, "shift by multiples of 4 pixels"),
    (ViT, {"position": "none"}, "shift by multiples of 4 pixels"),
    (GroupCNN, {"padding": "circular", "last": 3, "halve": ()}, "shift"),  # by every step
    (ResNet, {}, "shift"),  # broken, whatever the step
])  # fmt: skip
def test_a_law_is_said_with_the_steps_it_was_tried_by(kind, changes, title):
    report = check(*made(kind, **changes), laws=["shift", "rotation"], trials=2)
    assert [row[0] for row in report.rows()] == [title, "rotation by quarter turns"]
    assert str(report).splitlines()[1].startswith(f"{title}  ") and report["shift"].sentence().startswith(f"{title}: ")
    shift, turn = report.to_json()["laws"]
    assert (shift["law"], shift["by"], turn["by"]) == (
        "shift",
        title.removeprefix("shift").removeprefix(" by ") or None,
        "quarter turns",
    )


def test_zeros_beyond_the_border_break_shifts_and_the_layer_is_named():
    model, x = made(ResNet, blocks=(1,), size=12)
    finding = check(model, x, laws=["shift"])["shift"]
    assert (finding.declared, finding.measured) == ("broken", "broken")
    assert finding.layer in ("stem", "blocks.0", "blocks.0.conv1", "blocks.0.conv2")


@pytest.mark.parametrize("kind, norms", [(ResNet, "blocks.0.norm1"), (DenseNet, "layers.0.norm"), (GroupCNN, "norms.")])
@pytest.mark.parametrize("many", [False, True])
def test_batch_norm_mixes_rows_in_training_only_and_one_is_named(kind, norms, many):
    """Few norms are put right one by one; of many it is shown that all of them together explain it."""
    deep = {ResNet: {"blocks": (2, 2)}, DenseNet: {"blocks": (3, 3)}, GroupCNN: {"size": 28, "depth": 6}}
    report = check(*made(kind, **(deep[kind] if many else {})), laws=["neighbours"])
    assert report["neighbours"].measured == "holds"
    finding = report["neighbours in training"]
    assert (finding.declared, finding.measured) == ("not promised", "broken")
    assert finding.layer.startswith(norms) and finding.exact and finding.place == finding.layer
    assert not many or "and others of its kind" in finding.reason


class Mixing(torch.nn.Module):
    """Something else than the norms mixes rows, too, so that they are not all there is to blame."""

    def __init__(self):
        super().__init__()
        self.norms = torch.nn.Sequential(*(torch.nn.BatchNorm2d(1) for _ in range(6)))

    def forward(self, x):
        return self.norms(x).mean((2, 3)) + self.training * x.std()


def test_norms_are_not_blamed_for_what_others_do():
    torch.manual_seed(0)
    finding = check(Mixing(), torch.randn(3, 1, 6, 6), laws=["neighbours"])["neighbours in training"]
    assert finding.measured == "broken" and finding.exact is False and "no module alone explains it" in finding.reason


@pytest.mark.parametrize("kind", [kind for kind in SMALL if kind is not LeNet])
def test_other_sizes_are_taken(kind):
    model, _ = made(kind)
    for sides in ((16, 16), (13, 22)):
        out = model(torch.randn(1, model.config.colours, *sides))
        assert out.shape == (1, 3) and torch.isfinite(out).all()


@pytest.mark.parametrize("position", ["none", "learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("pool", ["class", "mean"])
def test_the_shortcut_of_the_last_block_changes_nothing(position, pool):
    """With a class token the last block works for it alone; the whole stack says the same."""
    model, x = made(ViT, position=position, pool=pool, registers=2)
    model, x = model.double(), x.double()
    seen = []

    def hear(module, given, kwargs, out):
        seen.append((given[0], kwargs))

    hook = model.stack.blocks[0].register_forward_hook(hear, with_kwargs=True)
    found = model.features(x)
    hook.remove()
    ((tokens, how),) = seen
    whole = model.stack(tokens, where=how["where"])
    torch.testing.assert_close(found, whole[:, 0] if pool == "class" else whole[:, 2:].mean(1))
    assert tokens.shape[1] == 9 + 2 + (pool == "class")


OTHERS = {
    "classes": 4,
    "colours": 2,
    "size": 15,
    "hidden": 5,
    "dim": 32,
    "depth": 4,
    "heads": 4,
    "patch": 3,
    "widths": (3, 3),
    "width": 4,
    "stem": 4,
    "stride": 2,
    "residual": (1, 0),
    "blocks": (2, 1),
    "growth": 4,
    "kernel": 5,
    "last": 3,
    "group": "p4m",
    "position": "rotary",
    "base": 7.0,
    "pool": "mean",
    "registers": 1,
    "placed": 1,
    "layer_scale": 0.3,
    "eps": 0.1,
    "mlp": "swiglu",
    "depths": (1, 1),
    "window": 2,
    "ratio": 3,
    "halve": (),
}


@pytest.mark.parametrize("kind, option", [(kind, f.name) for kind, config in SMALL.items() for f in fields(config)])
def test_every_option_does_something(kind, option):
    config = SMALL[kind]
    if option == "base":
        config = replace(config, position="rotary")
    changes = {option: OTHERS.get(option)}
    if option == "padding":
        config = replace(config, last=1) if kind is GroupCNN else config
        changes = {option: "circular" if config.padding != "circular" else "zeros"}
    if option in ("dropout", "drop_path"):
        changes = {option: 0.5}
    if option == "heads" and kind is Swin:
        changes = {option: (4, 4)}
    other = replace(config, **changes)

    def fingerprint(config):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = kind(config).train()
            torch.manual_seed(1)
            out = model(images(config, rows=3))
        return [tuple(p.shape) for p in model.parameters()], out

    (shapes, out), (shapes_now, out_now) = fingerprint(config), fingerprint(other)
    assert shapes != shapes_now or out.shape != out_now.shape or not torch.allclose(out, out_now)
    assert from_json(type(other), to_json(other)) == other


@pytest.mark.parametrize("kind", list(SMALL))
def test_the_state_is_the_parameters_and_norms_and_every_parameter_learns(kind):
    model, x = made(kind)
    again = kind(model.config).eval()
    again.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(model(x), again(x))
    assert not [name for name in model.state_dict() if name.endswith("table") and "norm" in name]
    model(x).sin().sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]


@pytest.mark.parametrize("kind, changes, words", [
    (ViT, {"heads": 3}, "dim.*heads=3.*16"),
    (ViT, {"position": "rotary", "heads": 8}, "position 'rotary'.*dim=16.*heads=8: channels.*even"),
    (ViT, {"position": "rotor"}, "position.*learned.*'rotor'"),
    (ViT, {"registers": -1}, "registers.*0.*-1"),
    (ViT, {"patch": 100}, "patch.*12 pixels.*100.*image"),
    (Swin, {"patch": 100}, "patch.*100.*image"),
    (Swin, {"heads": (2,)}, "depth.*heads"),
    (Swin, {"heads": (2, 3)}, "heads.*stage 1.*16 wide.*3"),
    (GroupCNN, {"size": 7}, "size.*8.*7.*3 layers"),
    (GroupCNN, {"padding": "zeros"}, "sides.*padding.*'valid'.*kernel=3.*last=2; last=3"),
    (GroupCNN, {"halve": (3,)}, r"halve.*layers.*1.*2.*\(3,\)"),
    (ResNet, {"blocks": ()}, "blocks.*at least 1"),
    (ResNet9, {"stride": 9}, "stride.*size=8.*9"),
    (ResNet9, {"widths": ()}, "widths.*at least 1"),
    (ResNet9, {"residual": (1,)}, r"residual.*2 stages.*widths=\(3, 4\).*\(1,\)"),
    (LeNet, {"size": 3}, "size.* 4 .*3"),
])  # fmt: skip
def test_bad_configs_are_refused_in_one_line(kind, changes, words):
    with pytest.raises(ValueError, match=words) as caught:
        replace(SMALL[kind], **changes)
    assert "\n" not in str(caught.value)


def test_bad_images_are_refused():
    with pytest.raises(ValueError, match="x.*'b c h w'.*c=1, h=8, w=8.*shape"):
        made(LeNet)[0](torch.zeros(1, 1, 9, 9))
    with pytest.raises(ValueError, match="images.*sides.*8.*7 × 12"):
        made(GroupCNN)[0](torch.zeros(1, 1, 7, 12))
    with pytest.raises(ValueError, match="images.*sides.*2.*1 × 9"):
        made(DenseNet)[0](torch.zeros(1, 1, 1, 9))


@pytest.mark.parametrize("kind", list(SMALL))
def test_what_is_no_image_yet_is_refused(kind):
    model, x = made(kind)
    with pytest.raises(ValueError, match=r"images.*torch.uint8; x.float\(\) / 255.*bytes"):
        model((255 * x.abs().clamp(max=1)).to(torch.uint8))
    with pytest.raises(TypeError, match=r"x.*tensor.*ndarray; torch.as_tensor\(x\)"):
        model(x.numpy())
    with pytest.raises(ValueError, match=r"images.*float64.*weights.*float32; x.to\(torch"):
        model(x.double())
    with torch.autocast("cpu", torch.bfloat16):  # sees to it by itself
        assert model(x.bfloat16()).isfinite().all()
    if kind is not LeNet:  # whose images have one size
        with pytest.raises(ValueError, match="image.*pixels.*0 × 8"):
            model(x[:, :, :0, :1].expand(-1, -1, -1, 8))


@pytest.mark.parametrize("kind", list(SMALL))
def test_a_batch_may_be_empty(kind):
    model, x = made(kind)
    assert model(x[:0]).shape == (0, model.config.classes)


def test_a_model_learns_digits():
    """Sixty steps on four digits of 8 × 8: each kind gets most of them right."""
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = datasets.load_digits(n_class=4, return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(y)
    configs = {
        LeNet: LeNetConfig(classes=4, size=8, widths=(4, 8), hidden=16),
        ResNet9: ResNet9Config(classes=4, size=8, stem=4, widths=(8,), residual=(1,)),
        ViT: ViTConfig(classes=4, colours=1, size=8, patch=4, dim=16, depth=1, heads=2),
        Swin: SwinConfig(classes=4, colours=1, size=8, patch=2, dim=16, depths=(2, 1), heads=(2, 2), window=2, ratio=2),
    }
    for kind, config in configs.items():
        model = build_seeded(kind, config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for i in range(60):
            rows = slice(32 * (i % 15), 32 * (i % 15) + 32)
            loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right = (model.eval()(x[480:]).argmax(1) == y[480:]).float().mean()
        assert right > 0.8, (kind.__name__, right)

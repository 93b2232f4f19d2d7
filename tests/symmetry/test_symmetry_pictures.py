"""Where images' laws break: in every kind of model of ours, in Hugging Face's, and what is said of it."""

import pytest
import torch
from torch import nn

from regard.models.convnets import DenseNet, DenseNetConfig, LeNet, LeNetConfig, ResNet, ResNetConfig
from regard.models.group_cnn import GroupCNN, GroupCNNConfig
from regard.models.swin import Swin, SwinConfig
from regard.models.vit import ViT, ViTConfig
from regard.symmetry.actions import Fixed, OnGrid
from regard.symmetry.check import check
from regard.symmetry.groups import Shifts
from regard.symmetry.laws import Symmetry
from regard.symmetry.roles import Roles

SMALL = {"classes": 5, "colours": 2, "size": 16}
AROUND = {"padding": 1, "padding_mode": "circular"}
OURS = {
    "vit": (lambda: ViT(ViTConfig(**SMALL, patch=4, dim=32, depth=2, heads=4)),
            {"permutation": "position", "shift": "embed", "rotation": "embed.linear", "reflection": "embed.linear"}),
    "swin": (lambda: Swin(SwinConfig(**SMALL, patch=1, dim=8, depths=(2, 1), heads=(2, 4), window=4, ratio=2)),
             {"permutation": "stages.0.0", "shift": "stages.0.0",
              "rotation": "stages.0.0.attention", "reflection": "stages.0.0.attention"}),
    "lenet": (lambda: LeNet(LeNetConfig(**SMALL, widths=(4, 8), hidden=16)),
              {"shift": "first", "rotation": "first", "reflection": "first"}),
    "resnet": (lambda: ResNet(ResNetConfig(**SMALL, width=4, blocks=(1, 1, 1))),
               {"shift": "stem", "rotation": "stem", "reflection": "stem"}),
    "densenet": (lambda: DenseNet(DenseNetConfig(**SMALL, growth=4, blocks=(2, 2))),
                 {"shift": "stem", "rotation": "stem", "reflection": "stem"}),
    "groupcnn": (lambda: GroupCNN(GroupCNNConfig(**SMALL, hidden=4, depth=4, last=1, padding="zeros")),
                 {"shift": "layers.0", "reflection": "layers.0"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", OURS)
def test_every_kind_of_model_names_its_layer(kind):
    make, layers = OURS[kind]
    torch.manual_seed(0)
    report = check(make(), torch.randn(2, 2, 16, 16), laws=list(layers), trials=2)
    assert report.ok, report
    assert {found.law: (found.layer, found.exact) for found in report} == {
        law: (name, True) for law, name in layers.items()
    }


def test_a_layer_says_what_it_does_to_an_image():
    model, x = OURS["vit"][0](), torch.randn(2, 2, 16, 16)
    does = "embed takes squares of 4 × 4 pixels, side by side, and weighs each pixel by its place in its square"
    # of the layer itself, and of one that it is made of
    for found in check(model, x, laws=["shift", "rotation"], trials=2):
        assert found.reason.endswith(f"; {does}"), found.reason
    swin = Swin(SwinConfig(**SMALL, patch=1, dim=8, depths=(2, 1), heads=(2, 4), window=4, ratio=2))
    (found,) = check(swin, x, laws=["shift"], trials=2)
    assert found.reason.endswith("; stages.0.0 attends within windows of 4 × 4 patches"), found.reason


TOKENS = {"patch_size": 4, "image_size": 16}
FOREIGN = {
    "ViT": (TOKENS | {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2},
            {"shift": "embeddings.patch_embeddings.projection", "permutation": "embeddings"}),
    "Swin": (TOKENS | {"patch_size": 1, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
             {"shift": "encoder.layers.0.blocks.0",
              "reflection": "encoder.layers.0.blocks.0.attention.relative_position_bias"}),
    "ResNet": ({"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
               {"shift": "embedder.embedder.convolution", "rotation": "embedder.embedder.convolution"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_models_of_hugging_face_name_theirs(kind):
    import transformers

    options, layers = FOREIGN[kind]
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**options))
    roles = Roles(grid="pixel_values", patch=options.get("patch_size"))
    pooled = roles if kind != "ResNet" else Roles(grid="pixel_values", read=lambda out: out.pooler_output)
    report = check(model, {"pixel_values": torch.randn(2, 3, 16, 16)}, roles=pooled, laws=list(layers), trials=2)
    assert {found.law: (found.layer, found.exact) for found in report} == {
        law: (name, True) for law, name in layers.items()
    }


def shift_of(*layers: nn.Module):
    torch.manual_seed(0)
    ends = (nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    symmetry = Symmetry(Shifts(), OnGrid(), Fixed(), "shift")
    return check(nn.Sequential(*layers, *ends), torch.randn(2, 3, 16, 16), symmetry=symmetry, laws=["shift"])["shift"]


def test_padding_and_strides_are_told_apart():
    assert shift_of(nn.Conv2d(3, 4, 3, padding=1)).reason.endswith(
        "wrong output, only within 2 of the border of its map"
    )
    coarse = "a map 2 times coarser than the image, on which a shift by +1, +0 is no whole step"
    assert shift_of(nn.Conv2d(3, 4, 3, stride=2, **AROUND)).reason.endswith(coarse)
    assert "a map of 14 × 14, which does not go on around its end" in shift_of(nn.Conv2d(3, 4, 3)).reason


def test_a_blank_border_hides_nothing():
    """On an image that is blank at its border, zeros beyond it change nothing in the first layer; they do on others."""
    torch.manual_seed(0)
    image = torch.zeros(2, 3, 16, 16)
    image[:, :, 6:10, 6:10] = torch.randn(2, 3, 4, 4)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GELU(), nn.Conv2d(4, 4, 3, padding=1), nn.GELU())
    found = check(model, image, laws=["shift"])["shift"]
    assert (found.measured, found.layer, found.exact) == ("broken", "0", True)


def test_an_output_that_moves_along_where_it_should_stay():
    torch.manual_seed(0)
    symmetry = Symmetry(Shifts(), OnGrid(), Fixed(), "shift")
    model = nn.Sequential(nn.Conv2d(3, 4, 3, **AROUND), nn.GELU())
    found = check(model, torch.randn(2, 3, 8, 8), symmetry=symmetry, laws=["shift"])["shift"]
    assert (found.layer, found.exact) == ("", False)
    assert found.reason == "the same numbers come out, and move along where they should stay: no layer breaks it alone"


def test_reasons_are_given_once_below_the_table():
    torch.manual_seed(0)
    make, _ = OURS["resnet"]
    report = check(make(), torch.randn(2, 2, 16, 16), laws=["rotation", "reflection"], trials=2)
    (line,) = report.reasons()
    assert line.startswith(
        "rotation by quarter turns, reflection: stem (Convolution) has correct inputs and a wrong output"
    )
    assert str(report).count(line) == 1 and str(report).endswith("\n".join([line, *report.words()]))


class Single(nn.Module):
    """Works in float32 whatever it is given: then rounding hides what is exact, and it is not claimed."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return self.conv(x).relu().mean((2, 3))


def test_what_runs_in_float32_only_is_not_exact():
    torch.manual_seed(0)
    found = check(Single(), torch.randn(2, 3, 8, 8), laws=["shift"])["shift"]
    assert (found.measured, found.layer, found.exact) == ("broken", "conv", False)

"""ViT and Swin with the weights of Hugging Face's give the same numbers, in every stage and for shapes that need padding."""

import pytest
import torch

from regard.models.swin import Swin, SwinConfig, windows
from regard.models.vit import ViT, ViTConfig
from tests.models.theirs_images import shaken, swin_weights, vit_weights

transformers = pytest.importorskip("transformers")

EPS = 1e-5  # of our norms


def images(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def vits():
    theirs = shaken(
        transformers.ViTForImageClassification(
            transformers.ViTConfig(
                image_size=32,
                patch_size=8,
                hidden_size=24,
                num_hidden_layers=3,
                num_attention_heads=3,
                intermediate_size=48,
                num_labels=5,
                layer_norm_eps=EPS,
            )
        )
    )
    ours = ViT(ViTConfig(classes=5, size=32, patch=8, dim=24, depth=3, heads=3, hidden=48)).eval()
    ours.load_state_dict(vit_weights(theirs), strict=True)
    return ours, theirs


def gap(found, true):
    return float((found - true).abs().max() / true.abs().max())


def test_vit():
    ours, theirs = vits()
    x = images(3, 3, 32, 32)
    with torch.no_grad():
        assert gap(ours(x), theirs(x).logits) < 1e-5


@pytest.mark.parametrize("sides", [(48, 48), (24, 40), (8, 8)])
def test_vit_at_another_resolution(sides):
    ours, theirs = vits()
    x = images(2, 3, *sides)
    with torch.no_grad():
        assert gap(ours(x), theirs(x, interpolate_pos_encoding=True).logits) < 1e-5


def test_vit_learns_the_same():
    ours, theirs = vits()
    x, labels = images(3, 3, 32, 32), torch.tensor([0, 3, 1])
    losses = [torch.nn.functional.cross_entropy(y, labels) for y in (ours(x), theirs(x).logits)]
    grads = [
        torch.autograd.grad(loss, parameter)[0]
        for loss, parameter in zip(
            losses, (ours.embed.linear.weight, theirs.vit.embeddings.patch_embeddings.projection.weight), strict=True
        )
    ]
    assert gap(grads[0], grads[1].flatten(1)) < 1e-4


def swins(window=3, patch=2, depths=(2, 2, 2)):
    heads = tuple(2 ** (i + 1) for i in range(len(depths)))
    theirs = shaken(
        transformers.SwinForImageClassification(
            transformers.SwinConfig(
                image_size=24,
                patch_size=patch,
                embed_dim=8,
                depths=list(depths),
                num_heads=list(heads),
                window_size=window,
                mlp_ratio=2.0,
                num_labels=5,
                layer_norm_eps=EPS,
                drop_path_rate=0.0,
            )
        )
    )
    ours = Swin(
        SwinConfig(classes=5, size=24, patch=patch, dim=8, depths=depths, heads=heads, window=window, ratio=2)
    ).eval()
    ours.load_state_dict(swin_weights(theirs), strict=True)
    return ours, theirs


def stages_of(theirs, x):
    seen = []

    def hear(module, given, out):
        seen.append(out[0] if isinstance(out, tuple) else out)

    hooks = [stage.blocks[-1].register_forward_hook(hear) for stage in theirs.swin.encoder.layers]
    with torch.no_grad():
        logits = theirs(x).logits
    for hook in hooks:
        hook.remove()
    return seen, logits


@pytest.mark.parametrize("window, patch, sides", [
    (3, 2, (24, 24)),
    (3, 2, (36, 24)),
    (4, 2, (38, 50)),  # 19 × 25 tokens: windows, merges and the second stage all need padding
    (3, 4, (47, 61)),  # patches, too
    (2, 1, (9, 14)),
])  # fmt: skip
def test_swin_in_every_stage(window, patch, sides):
    ours, theirs = swins(window, patch)
    x = images(2, 3, *sides)
    seen, logits = stages_of(theirs, x)
    with torch.no_grad():
        found = ours.maps(x)
        assert [tuple(y.shape) for y in found] == [tuple(y.shape) for y in seen]
        for mine, true in zip(found, seen, strict=True):
            assert gap(mine, true) < 1e-5
        assert gap(ours(x), logits) < 1e-5


def test_swin_learns_the_same():
    ours, theirs = swins()
    x, labels = images(3, 3, 24, 24), torch.tensor([0, 3, 1])
    losses = [torch.nn.functional.cross_entropy(y, labels) for y in (ours(x), theirs(x).logits)]
    true = dict(theirs.named_parameters())
    attention = "swin.encoder.layers.0.blocks.1.attention"
    names = {
        "embed.linear.weight": "swin.embeddings.patch_embeddings.projection.weight",
        "stages.0.1.bias.table": f"{attention}.relative_position_bias.relative_position_bias_table",
    }
    for mine, other in names.items():
        (found,) = torch.autograd.grad(losses[0], ours.get_parameter(mine), retain_graph=True)
        (grad,) = torch.autograd.grad(losses[1], true[other], retain_graph=True)
        assert gap(found, grad.flip(0) if mine.endswith("table") else grad.flatten(1)) < 1e-4


@pytest.mark.parametrize("height, width, side, shift", [(12, 12, 3, 1), (10, 14, 4, 2), (7, 21, 7, 3), (6, 6, 3, 1)])
def test_the_mask_from_places_is_that_of_regions(height, width, side, shift):
    """As the first Swin numbers them: nine regions, and only tokens of the same region see each other."""
    cut = windows(height, width, side, shift, torch.device("cpu"))
    tall, wide = height + -height % side, width + -width % side
    if min(height, width) <= side:
        assert cut.allowed is None
        return
    region = torch.zeros(tall, wide)
    for i, rows in enumerate((slice(0, -side), slice(-side, -shift), slice(-shift, None))):
        for j, columns in enumerate((slice(0, -side), slice(-side, -shift), slice(-shift, None))):
            region[rows, columns] = 3 * i + j
    cells = region.view(tall // side, side, wide // side, side).transpose(1, 2).reshape(-1, side * side)
    assert torch.equal(cut.allowed, cells[:, :, None] == cells[:, None, :])

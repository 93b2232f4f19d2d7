"""Where models of images look: against brute force, against the models themselves, for all seven kinds."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from regard import registry
from regard.look import encode_arrays
from regard.look.colours import FAINT, reach
from regard.look.record import record
from regard.look.thumbnails import SIDE, Sheets
from regard.look.views import contribution
from regard.look.views.filters import filters
from regard.models.group_cnn import GroupCNN, GroupCNNConfig
from regard.models.swin import Swin, SwinConfig
from regard.models.vit import ViT, ViTConfig
from regard.recipes.images import overlays, windows
from regard.recipes.images.attention_maps import attention_maps
from regard.recipes.images.feature_maps import grid_of, penultimate, record_feature_maps
from regard.recipes.images.foreign_reader import ForeignImageReader
from regard.recipes.images.model_input import ImageInput, ReferenceImages
from regard.recipes.images.views.features import in_colours
from regard.targets.hugging_face_inputs import HuggingFaceImage
from tests.look.scenes import gather
from tests.models.theirs_images import shaken, swin_weights

KINDS = ("vit", "swin", "lenet", "resnet", "resnet9", "densenet", "groupcnn")


def given_for(model, x, **how):
    side = x.shape[-1]
    patch = getattr(model.config, "patch", None) or -(-side // 8)
    grid = (-(-side // patch),) * 2
    known = {"pixels": "x", "answers": "classes", "called": str, "grid": grid, "patch": patch}
    return ImageInput(inputs={"x": x[:1]}, image=torch.rand(3, side, side), **known | how)


def tiny(kind):
    model, inputs = registry.find("models", kind).tiny()
    return model.eval(), inputs["x"]


def views(model, given):
    return {view["view"]: view for view in gather(model, given, name="a model", tsne=False).data["views"]}


def unpacked(levels):
    return levels["low"] + encode_arrays.unpack_array(levels["data"], "u1", *levels["shape"]) / 255 * (
        levels["high"] - levels["low"]
    )


# ---- attention within windows


def swin(side=10, window=4):
    torch.manual_seed(0)
    how = {"colours": 1, "patch": 2, "dim": 8, "depths": (2, 1), "heads": (2, 4), "ratio": 2}
    config = SwinConfig(classes=3, size=2 * side, window=window, **how)
    model = Swin(config).eval()
    for parameter in model.parameters():  # attention far from even
        nn.init.normal_(parameter, std=0.6)
    return model, torch.randn(1, 1, 2 * side, 2 * side)


def in_windows(weights, side, grid, shift):
    """Attention of all tokens to all, by a loop over pairs: token (r, c) is at (r − shift, c − shift) around the end."""
    rows, columns = grid
    tall, wide = -(-rows // side) * side, -(-columns // side) * side
    whole = torch.zeros(weights.shape[1], rows * columns, rows * columns)

    def slot(r, c):
        r, c = (r - shift) % tall, (c - shift) % wide
        return (r // side) * (wide // side) + c // side, (r % side) * side + c % side

    for i in range(rows * columns):
        for j in range(rows * columns):
            (one, query), (other, key) = slot(*divmod(i, columns)), slot(*divmod(j, columns))
            if one == other:
                whole[:, i, j] = weights[one, :, query, key]
    return whole


# fitting; filled up; an odd side to merge
@pytest.mark.parametrize("side, window", [(8, 4), (10, 4), (9, 3)])
def test_rollout_through_windows_is_that_of_its_definition(side, window):
    model, x = swin(side, window)
    with torch.no_grad(), record(model) as seen:
        model(x)
    given = given_for(model, x)
    found = attention_maps(model, seen, given)
    half = -(-side // 2)
    grids, shifts = [(side, side), (side, side), (half, half)], [0, window // 2, 0]
    full = [
        in_windows(entry.weights, min(window, grid[0]), grid, shift)
        for entry, grid, shift in zip(seen, grids, shifts, strict=True)
    ]
    for layer, one, grid in zip(found.layers, full, grids, strict=True):
        torch.testing.assert_close(layer.maps, one.mean(1).unflatten(-1, grid))
    step = [0.5 * one.mean(0) + 0.5 * torch.eye(len(one[0])) for one in full]
    merge = torch.zeros(half * half, side * side)
    for r in range(side):
        for c in range(side):
            merge[(r // 2) * half + c // 2, r * side + c] = 0.25
    torch.testing.assert_close(found.rollout.flatten(), (step[2] @ merge @ step[1] @ step[0]).mean(0))
    assert found.query == "the mean of all patches" and found.within == "within windows"


def test_a_window_that_is_not_shifted_back_is_noticed(monkeypatch):
    model, x = swin()
    with torch.no_grad(), record(model) as seen:
        model(x)
    right = attention_maps(model, seen, given_for(model, x)).layers[1].maps
    plain = windows.windows
    monkeypatch.setattr(windows, "windows", lambda h, w, side, shift, device: plain(h, w, side, 0, device))
    assert not torch.allclose(attention_maps(model, seen, given_for(model, x)).layers[1].maps, right, rtol=0.1)


# fitting; filled up; odd; one window last
@pytest.mark.parametrize("size, window", [(32, 4), (40, 4), (36, 3), (28, 7)])
def test_windows_of_hugging_face_lie_where_ours_do(size, window):
    import transformers

    shape = {
        "image_size": size,
        "patch_size": 2,
        "num_channels": 1,
        "embed_dim": 8,
        "window_size": window,
        "mlp_ratio": 2,
    }
    config = transformers.SwinConfig(depths=[2, 2], num_heads=[2, 4], num_labels=3, drop_path_rate=0.0, **shape)
    theirs = shaken(transformers.SwinForImageClassification(config))
    sizes = {
        "colours": 1,
        "size": size,
        "patch": 2,
        "dim": 8,
        "depths": (2, 2),
        "heads": (2, 4),
        "window": window,
        "ratio": 2,
    }
    ours = Swin(SwinConfig(classes=3, **sizes))
    ours.load_state_dict(swin_weights(theirs))
    reader = ForeignImageReader(HuggingFaceImage(theirs, None))
    found = []
    for model, given in ((theirs, reader.read()), (ours.eval(), None)):
        given = given or given_for(model, reader.read().inputs["pixel_values"])
        for _ in range(2):  # (Hugging Face's changes its windows while it runs)
            with torch.no_grad(), record(model) as seen:
                model(**given.inputs)
        found.append(attention_maps(model, seen, given))
    for theirs_here, ours_here in zip(found[0].layers, found[1].layers, strict=True):
        torch.testing.assert_close(theirs_here.maps, ours_here.maps)
    torch.testing.assert_close(found[0].rollout, found[1].rollout)
    assert found[0].query == found[1].query and found[0].rollout.shape == (size // 2, size // 2)


def test_a_cut_that_does_not_fit_what_was_heard_gives_no_map():
    model, x = swin()
    with torch.no_grad(), record(model) as seen:
        model(x)
    cuts = windows.cuts(model, *x.shape[-2:])
    assert len(windows.blocks(cuts, seen)) == len(cuts) == 3
    for wrong in (replace(cuts[0], window=5), replace(cuts[0], layer="stages.7"), replace(cuts[0], grid=(20, 20))):
        assert windows.blocks((wrong, *cuts[1:]), seen) == []
        given = replace(given_for(model, x), cuts=(wrong, *cuts[1:]))
        assert attention_maps(nn.Identity(), seen, given) is None


# ---- whole attention


def test_registers_are_no_class_token():
    torch.manual_seed(0)
    config = ViTConfig(classes=3, colours=1, size=8, patch=2, dim=16, depth=2, heads=2, pool="mean", registers=3)
    model, x = ViT(config).eval(), torch.randn(1, 1, 8, 8)
    with torch.no_grad(), record(model) as seen:
        model(x)
    found = attention_maps(model, seen, given_for(model, x, reads="mean"))
    assert found.query == "the mean of all patches"
    torch.testing.assert_close(found.layers[0].maps.flatten(1), seen[0].weights[0, :, 3:, 3:].mean(1))
    first, second = (0.5 * entry.weights[0].mean(0) + 0.5 * torch.eye(19) for entry in seen)
    torch.testing.assert_close(found.rollout.flatten(), (second @ first)[3:, 3:].mean(0))


def test_an_image_whose_last_patches_are_cut_off():
    config = ViTConfig(classes=3, colours=1, size=9, patch=4, dim=16, depth=1, heads=2)
    model, x = ViT(config).eval(), torch.randn(1, 1, 9, 9)
    shown = views(model, given_for(model, x, reads="class"))
    assert shown["image"]["grid"] == {"rows": 3, "columns": 3} and shown["image"]["query"] == "the class token"
    values = shown["contribution"]["columns"][1]["values"]
    grey = x.clone()
    grey[..., 4:8, 8:] = 0  # row 1, column 2
    with torch.no_grad():
        best = model(x)[0].argmax()
        assert values[5] == pytest.approx(float((model(x) - model(grey))[0, best]), abs=1e-4)


# ---- windows by name


@pytest.mark.parametrize("side, window, shift", [(8, 4, 0), (8, 4, 2), (10, 4, 2), (6, 4, 0)])
def test_tokens_of_a_window_are_called_by_their_places(side, window, shift):
    """Against a grid of names that is filled up, rolled and cut by hand."""
    cut = windows.windows(side, side, window, shift, torch.device("cpu"))
    registry = [[f"row {i + 1}, column {j + 1}" for j in range(side)] for i in range(side)]
    wide = side + -side % window
    padded = [
        [registry[i][j] if i < side and j < side else "beyond the edge" for j in range(wide)] for i in range(wide)
    ]
    rolled = np.roll(np.array(padded, dtype=object), (-shift, -shift), (0, 1))
    cuts = range(0, wide, window)
    wanted = [rolled[i : i + window, j : j + window].flatten().tolist() for i in cuts for j in cuts]
    found = windows.name_windows(windows.Block(None, (side, side), cut))
    assert [list(each.labels) for each in found] == wanted
    first = {(0, 8): "1–4", (2, 8): "3–6", (2, 10): "3–6", (0, 6): "1–4"}[shift, side]
    assert found[0].name == f"window of rows {first}, columns {first}"
    if (side, shift) == (8, 2):
        assert found[-1].name == "window of rows 1–2 and 7–8, columns 1–2 and 7–8"  # around the edge


def test_the_page_has_all_windows_of_each_layer():
    model, x = swin()
    with torch.no_grad(), record(model) as seen:
        model(x)
    scene = gather(model, given_for(model, x), name="swin", tsne=False)
    layers = next(view for view in scene.data["views"] if view["view"] == "attention")["layers"]
    for layer, entry in zip(layers, seen, strict=True):
        assert len(layer["windows"]) == entry.shape[0] > 1
        for k, window in enumerate(layer["windows"]):
            count = window["largest"]["count"]
            kept = encode_arrays.unpack_array(window["largest"]["weights"], "float32", *entry.shape[1:3], count)
            np.testing.assert_allclose(np.sort(kept)[..., -1], entry.weights[k].amax(-1), rtol=1e-3)
            labels = scene.data["streams"][window["rows"]]["labels"]
            assert len(labels) == layer["n"] and window["rows"] == window["columns"]
            assert {label[:3] for label in labels} <= {"row", "bey"}
    patches = [stream for stream in scene.data["streams"] if stream["grid"] is not None]
    assert [len(stream["labels"]) for stream in patches] == [100]  # a window is not taken for the whole image


# ---- all kinds


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_maps_features_filters_and_a_figure_of_its_prediction(kind):
    model, x = tiny(kind)
    given = given_for(model, x, reads="class" if kind == "vit" else None)
    shown = views(model, given)
    assert bool(shown["image"]["layers"]) == (kind in ("vit", "swin")) == bool(shown["image"]["rollout"])
    assert [each["name"] for each in shown["image"]["matters"]] == ["leave one out", "gradient × input"]
    assert {"features", "filters", "contribution"} <= shown.keys()
    for layer in shown["features"]["layers"]:
        assert layer["maps"]["shape"][0] == len(layer["channels"]) * layer["poses"] and 0 < layer["explained"] <= 1.001
    above = [overlay.title for overlay in overlays.of_prediction(model, given, 2)]
    assert above[-1].startswith("occlusion map") and len(above) == {"vit": 3, "swin": 2}.get(kind, 1)


def test_what_is_no_patch_is_called_a_part():
    model, x = tiny("resnet")
    given = given_for(model, x, piece="part")
    shown = views(model, given)
    assert shown["contribution"]["thing"] == "part" == shown["image"]["piece"]
    assert "when this part is greyed out" in shown["contribution"]["columns"][1]["sentence"]
    assert overlays.of_prediction(model, given, 2)[0].title.startswith("occlusion map")


def test_what_hardly_matters_is_faint():
    values = torch.tensor([1e-4, -2e-4, 5e-5])
    assert reach(values) == pytest.approx(2e-4) and reach(values, FAINT) == FAINT
    assert reach(torch.tensor([0.1, -0.9])) == pytest.approx(0.9)  # of two numbers none hides the other
    assert reach(100 * values, FAINT) == FAINT and reach(1e4 * values, FAINT) == pytest.approx(2.0)
    model, x = tiny("resnet")
    columns = views(model, given_for(model, x))["contribution"]["columns"]
    assert [column["faint"] for column in columns] == [0.0, FAINT]  # gradient × input has its own scale
    figure = overlays.draw_lines(
        [overlays.Line("", torch.rand(3, 4, 4), [overlays.Overlay("", values[None], signed=True)])]
    )
    assert [image.get_clim() for axis in figure.axes for image in axis.images][-1] == (-FAINT, FAINT)


def test_a_contribution_is_that_of_the_class_that_was_asked_for():
    model, x = tiny("resnet")
    given = given_for(model, x)
    (overlay,) = overlays.of_prediction(model, given, 3)
    grey = given.inputs["x"].clone()
    grey[..., 2:4, 4:6] = 0
    with torch.no_grad():
        lost = (model(given.inputs["x"]) - model(grey))[0]
    assert float(overlay.map[1, 2]) == pytest.approx(float(lost[3]), abs=1e-6) and overlay.signed


def test_features_are_what_convolutions_put_out():
    model, x = tiny("lenet")
    with torch.no_grad(), record_feature_maps(model) as found:
        model(x)
        wanted = model.first(x)[0]
    assert [each.name for each in found] == ["first", "second", "first"]
    torch.testing.assert_close(found[0].value, wanted)
    layer = views(model, given_for(model, x))["features"]["layers"][0]
    assert layer["channels"] == [0, 1, 2, 3] and (layer["rows"], layer["columns"]) == (12, 12)
    low, high = layer["maps"]["low"], layer["maps"]["high"]
    np.testing.assert_allclose(unpacked(layer["maps"]), wanted, atol=(high - low) / 255)


def test_maps_of_a_turned_image_are_turned_and_their_poses_move_on():
    torch.manual_seed(0)
    model = GroupCNN(GroupCNNConfig(classes=2, size=8, hidden=3, depth=2, last=1, halve=(), padding="zeros")).eval()
    x = torch.randn(1, 1, 8, 8)
    with torch.no_grad(), record_feature_maps(model) as found:
        model(x)
        model(x.rot90(1, (-2, -1)))
    plain, turned = (found[k].value.unflatten(0, (3, 4)) for k in (0, 2))
    torch.testing.assert_close(turned, plain.rot90(1, (-2, -1)).roll(1, 1))
    name, weight = filters(model)
    assert name == "layers.0" and weight.shape == (12, 1, 3, 3)
    torch.testing.assert_close(weight[1], weight[0].rot90(1, (-2, -1)))
    assert views(model, given_for(model, x))["filters"]["layers"][0]["poses"] == 4


def test_filters_of_patches_are_what_a_patch_is_multiplied_with():
    model, x = tiny("vit")
    name, weight = filters(model)
    wanted = torch.nn.functional.conv2d(x, weight, model.embed.linear.bias, stride=4).flatten(2).transpose(1, 2)
    assert name == "embed"
    torch.testing.assert_close(model.embed(x), wanted)


def test_large_maps_are_made_smaller_and_the_page_says_so():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Conv2d(3 if not k else 40, 40, 3, padding=1) for k in range(30)))
    given = ImageInput(
        inputs={"input": torch.randn(1, 3, 128, 128)}, pixels="input", image=torch.rand(3, 128, 128), grid=(8, 8)
    )
    shown = views(model, given)["features"]
    assert len(shown["layers"]) == 24 and shown["layers"][0]["maps"]["shape"] == [32, 24, 24]
    assert (
        shown["layers"][-1]["name"] == "29" and shown["layers"][0]["rows"] == 128 and "24 of 30 layers" in shown["note"]
    )


def test_rounding_is_no_colour():
    flat = torch.ones(5, 4, 4) + 1e-6 * torch.randn(5, 4, 4)
    assert in_colours(flat)[0].unique().tolist() == [0.5]
    flat[:, 1, 2] += 1
    colours, explained = in_colours(flat)
    assert (colours[1, 2, 0] - colours[0, 0, 0]).abs() == pytest.approx(1, abs=1e-3) and explained == pytest.approx(
        1, abs=1e-3
    )
    assert colours[..., 1:].unique().tolist() == [0.5]  # in one direction they differ, and in no other


@pytest.mark.parametrize("tokens, grid", [(16, (4, 4)), (17, (4, 4)), (4, (2, 2)), (40, None), (1, None), (7, None)])
def test_on_which_grid_tokens_lie(tokens, grid):
    assert grid_of(tokens, (4, 4)) == grid


# ---- images among others


def crowd_for(x, count=5):
    more = torch.randn(count, *x.shape[1:])
    registry = tuple(f"{i}.png" for i in range(count))
    return ReferenceImages(
        what="others", x=more, images=torch.rand(count, 3, 12, 12), labels=tuple("ababa"[:count]), names=registry
    )


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_are_what_the_last_layer_reads(kind):
    model, x = tiny(kind)
    points, outputs = penultimate(model, "x", x)
    with torch.no_grad():
        torch.testing.assert_close(outputs, model(x))
        if kind == "groupcnn":
            maps = []
            handle = model.layers[-1].register_forward_pre_hook(lambda module, given: maps.append(given[0]))
            model(x)
            handle.remove()
            wanted = maps[0].mean((-2, -1)).unflatten(1, (-1, 8)).amax(2)
            turned, _ = penultimate(model, "x", x.rot90(1, (-2, -1)))
            torch.testing.assert_close(turned, points)
        else:
            wanted = model.features(x)
    torch.testing.assert_close(points, wanted)


def test_an_image_among_others_has_a_thumbnail_for_each():
    model, x = tiny("lenet")
    given = given_for(model, x, crowd=lambda: crowd_for(x))
    shown = views(model, given)["embeddings"]
    first = shown["items"][0]
    assert first["labels"] == ["this image", "0.png", "1.png", "2.png", "3.png", "4.png"]
    assert first["groups"] == ["this image", *"ababa"] and first["thumbs"] == {"sheet": 0, "cells": [0, 1, 2, 3, 4, 5]}
    with torch.no_grad():
        assert first["said"][0] == str(int(model(x[:1]).argmax()))


def test_thumbnails_are_small_and_in_their_cells():
    import base64
    import io

    from PIL import Image

    def opened(sheet):
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet["picture"].partition(",")[2]))))

    sheets = Sheets()
    few = (torch.randint(256, (18, 3, 8, 8)) / 255).float()
    assert sheets.laid_out(few) == 0 and (sheets.found[0]["rows"], sheets.found[0]["columns"]) == (2, 16)
    cell = opened(sheets.found[0])[8:16, 8:16]  # the second of the second row
    np.testing.assert_array_equal(cell, (few[17] * 255).round().permute(1, 2, 0).numpy())
    flat = torch.rand(30, 3, 1, 1).expand(-1, -1, 100, 100)
    assert sheets.laid_out(flat + 0.02 * torch.rand(30, 3, 100, 100)) == 1
    large = opened(sheets.found[1])
    assert large.shape == (2 * SIDE, 16 * SIDE, 3) and len(sheets.found[1]["picture"]) < 40_000
    middle = large[SIDE // 2, 3 * SIDE + SIDE // 2] / 255
    np.testing.assert_allclose(middle, flat[3, :, 0, 0].clamp(0, 1), atol=0.04)
    image = torch.rand(3, 12, 12)
    assert sheets.cut(image, (3, 3)) == sheets.cut(image, (3, 3)) == 2 != sheets.cut(image, (6, 6))


def test_patches_have_parts_of_the_image_as_thumbnails():
    model, x = tiny("vit")
    item = views(model, given_for(model, x))["embeddings"]["items"][0]
    assert item["name"] == "after stack.blocks.0" and item["thumbs"]["cells"] == [None, None, *range(9)]


def test_how_long_leaving_out_takes_is_told_where_it_is_too_long(monkeypatch):
    model, x = tiny("resnet")
    asked = []
    monkeypatch.setattr(contribution, "seconds_of_call", lambda model, x: asked.append(len(x)) or 0.5 + 0.01 * len(x))
    shown = views(model, given_for(model, x))["contribution"]  # 36 parts: 18 s one by one, 2 s in three calls
    assert asked == [1, 1, 16] and [each["name"] for each in shown["columns"]] == ["gradient × input", "leave one out"]
    monkeypatch.setattr(contribution, "seconds_of_call", lambda model, x: 0.01)
    # short however it is asked
    assert contribution.seconds(model, torch.ones(1, 64), 0.0) == pytest.approx(0.64)
    monkeypatch.setattr(contribution, "seconds_of_call", lambda model, x: 3.0)
    scene = gather(model, given_for(model, x), name="a model", tsne=False)
    said = "Leaving out one patch after the other would take about 108 seconds here, so it was not done."
    assert said in scene.data["notes"]
    assert contribution.seconds(model, torch.ones(1, 1), None) is None  # nothing would be left

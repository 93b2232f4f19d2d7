"""Views of autoencoders: what is on the map is what the model computes, and what is asked is answered exactly."""

import base64
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.look import encode_arrays, page, server
from regard.recipes.autoencoder.views.exhibit import POINTS, exhibit
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.latent import INSIDE, STEPS, STRIPS, share_within
from regard.recipes.autoencoder.views.plane import find_plane
from regard.recipes.autoencoder.views.reconstructions import EACH, choose_places
from regard.recipes.autoencoder.views.still import PAIRS
from regard.targets.open import open_target
from regard.verbs.train import train
from tests.look.asked import TOKEN, check_answer, post
from tests.recipes.autoencoder.latent_pages import (
    COLUMNS,
    SCALE,
    codes_of,
    inputs_of,
    model_of,
    part,
    session_of,
    shown_page,
)

FORMS = ("images", "rows", "points")


def numbers_of(shown):
    """What is drawn, as an array."""
    if shown["numbers"] is not None:
        return encode_arrays.unpack_array(shown["numbers"]["data"], "f4", *shown["numbers"]["shape"])
    content = base64.b64decode(shown["sheet"]["picture"].partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))[..., 0] / 255


# ---- the map


@pytest.mark.parametrize("d", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("count", [0, 1, 5, 60])
def test_a_place_on_the_map_is_a_code_and_back(d, count):
    codes = torch.randn(count, d, generator=torch.Generator().manual_seed(d)) * torch.arange(1.0, d + 1)
    plane = find_plane(codes)
    k = d if d <= 3 else 2
    assert len(plane.names) == k
    places = torch.randn(7, k)
    torch.testing.assert_close(plane.place(plane.code(places)), places, atol=1e-4, rtol=1e-4)
    if d <= 3:
        assert torch.equal(plane.place(codes), codes) and plane.explained == ()


def test_the_plane_is_that_of_the_principal_components():
    codes = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)) @ torch.diag(
        torch.tensor([0.1, 4, 0.2, 2, 0.3])
    )
    plane = find_plane(codes)
    values = np.linalg.eigvalsh(np.cov(codes.double().numpy().T))[::-1]
    np.testing.assert_allclose(plane.explained, values[:2] / values.sum(), rtol=1e-5)
    np.testing.assert_allclose(plane.place(codes).double().var(0).numpy(), values[:2], rtol=1e-4)


def test_codes_that_are_no_numbers_have_a_place():
    codes = torch.full((4, 5), torch.nan)
    assert bool(find_plane(codes).place(torch.zeros(1, 5)).isfinite().all())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("latent", [1, 2, 3, 5])
def test_inputs_are_where_their_codes_are(form, latent):
    codes = codes_of(form, latent=latent)
    data = session_of(codes).show({})
    latent_part = part(data, "latent")
    held = latent_part["held"]
    dims = len(latent_part["axes"])
    places = torch.from_numpy(encode_arrays.unpack_array(held["places"], "f4", held["count"], dims).copy())
    with torch.no_grad():
        means = codes.model.encode(codes.held_out.x)[0]
    torch.testing.assert_close(places, codes.plane.place(means), atol=1e-5, rtol=1e-5)
    low, high = torch.tensor(latent_part["low"]), torch.tensor(latent_part["high"])
    assert bool(((places >= low) & (places <= high)).all())
    assert held["split"] == "test" and held["classes"] == [each % 2 for each in codes.held_out.rows.tolist()]
    assert (latent_part["grid"] is None) == (dims > 2)
    sides = high - low
    assert float(sides.min() / sides.max()) > 0.55  # a map that a person can point at


def test_the_share_within_three_sigma_is_counted():
    codes = codes_of("rows", latent=2)
    held = codes.held_out
    held.codes[:] = torch.zeros_like(held.codes)
    held.codes[0, 1], held.codes[1, 0], held.codes[2, 0] = 3.01, -3.5, 2.99
    found = share_within(codes)
    assert found["share"] == pytest.approx(1 - 2 / len(held.codes))
    assert (
        found["expected"] == pytest.approx((math.erf(3 / math.sqrt(2))) ** 2)
        and pytest.approx(math.erf(3 / math.sqrt(2))) == INSIDE
    )


def test_without_a_prior_sigma_is_that_of_the_codes():
    codes = codes_of("rows", "autoencoder")
    middle, sigma = codes.spread
    torch.testing.assert_close(middle, codes.held_out.codes.mean(0))
    torch.testing.assert_close(sigma, codes.held_out.codes.std(0))
    assert codes.kl is None and codes.order == codes.variance.argsort(descending=True).tolist()


# ---- what is decoded


@pytest.mark.parametrize("form", FORMS)
def test_a_strip_moves_one_number_of_the_code(form):
    codes = codes_of(form, latent=20)
    seen = []
    decode = codes.decode
    codes.decode = lambda z: seen.append(z) or decode(z)
    session = session_of(codes)
    data = session.show({})
    found = part(data, "latent")["strips"]
    assert found["of"] == codes.order[:STRIPS] and found["steps"] == STEPS
    base = torch.tensor(part(data, "latent")["here"]["code"])
    asked = next(z for z in seen if len(z) == STRIPS * STEPS).unflatten(0, (STRIPS, STEPS))
    for strip, number in zip(asked, found["of"], strict=True):
        torch.testing.assert_close(strip[:, number], torch.linspace(-3, 3, STEPS))
        others = [i for i in range(20) if i != number]
        torch.testing.assert_close(strip[:, others], base[others].expand(STEPS, -1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("latent", [1, 2, 5])
def test_each_field_of_the_map_shows_what_is_decoded_in_its_middle(latent):
    session, data = shown_page("rows", "autoencoder", latent)
    codes, found = session.reader.codes, part(data, "latent")
    grid, low, high = found["grid"], found["low"], found["high"]
    shown = numbers_of(grid["shown"])
    assert len(shown) == grid["rows"] * grid["columns"]
    for row, column in ((0, 0), (grid["rows"] - 1, 2), (grid["rows"] // 2, grid["columns"] - 1)):
        across = low[0] + (column + 0.5) / grid["columns"] * (high[0] - low[0])
        place = [across]
        if latent > 1:
            place.append(high[1] - (row + 0.5) / grid["rows"] * (high[1] - low[1]))
        with torch.no_grad():
            expected = codes.model.decode_mean(codes.plane.code(torch.tensor(place)))
        # the corners of the map have four digits
        np.testing.assert_allclose(shown[row * grid["columns"] + column], expected, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("latent", [2, 5])
def test_every_question_is_answered_with_what_the_model_decodes(form, latent):
    session, data = shown_page(form, "vae", latent)
    codes = session.reader.codes
    asked = {"record": data["record"], "view": "latent"}
    code = [0.5, -1.25, 2, 0.0, -0.1][:latent]
    place = [0.25, -0.75]
    expected = {
        "code": torch.tensor(code),
        "place": codes.plane.code(torch.tensor([place]))[0],
        "row": codes.held_out.codes[3],
    }
    for name, given in {"code": code, "place": place, "row": 3}.items():
        found = session.ask(asked | {name: given})
        torch.testing.assert_close(torch.tensor(found["code"]), expected[name], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(
            torch.tensor(found["place"]), codes.plane.place(expected[name][None])[0], atol=1e-4, rtol=1e-4
        )
        with torch.no_grad():
            decoded = codes.model.decode_mean(expected[name])
        if form == "images":
            np.testing.assert_allclose(numbers_of(found["decoded"]), decoded[0].clamp(0, 1), atol=0.51 / 255)
        else:
            np.testing.assert_allclose(numbers_of(found["decoded"])[0], decoded, atol=1e-4, rtol=1e-4)
    strips = session.ask(asked | {"code": code, "strips": [1]})["strips"]
    assert strips["of"] == [1] and strips["shown"]["count"] == STEPS


@pytest.mark.parametrize(
    "asked, words",
    [
        ({}, "code, place or row"),
        ({"code": [0, 0], "row": 1}, "code, place or row"),
        ({"code": [0]}, "2 numbers"),
        ({"code": [0, True]}, "2 numbers"),
        ({"code": ["0", 0]}, "2 numbers"),
        ({"code": [10**400, 0]}, "2 numbers"),
        ({"code": [1e308, 0]}, "2 numbers"),
        ({"code": {"a": 1}}, "2 numbers"),
        ({"place": [0, 0, 0]}, "2 numbers"),
        ({"place": None}, "2 numbers"),
        ({"row": -1}, "row"),
        ({"row": 10**6}, "row"),
        ({"row": 1.0}, "row"),
        ({"code": [0, 0], "strips": []}, "strips"),
        ({"code": [0, 0], "strips": [2]}, "0 to 1"),
        ({"code": [0, 0], "strips": [0] * 17}, "strips"),
        ({"code": [0, 0], "strips": "all"}, "strips"),
        ({"kode": [0, 0]}, "kode"),
        ({"view": "rate"}, "rate"),
        ({"view": "nothing"}, "nothing"),
        ({"view": 3}, "view"),
        ({"record": 77, "code": [0, 0]}, "77"),
        ({"record": "0", "code": [0, 0]}, "record"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(asked, words):
    session, data = shown_page("rows")
    app = server.app(session, TOKEN)
    answer = post(app, {"record": data["record"], "view": "latent", **asked}, path="/api/ask")
    check_answer(answer, [400])
    assert words in answer.json()["error"]


def test_the_server_answers_a_question():
    session, data = shown_page("rows")
    answer = post(server.app(session, TOKEN), {"record": data["record"], "view": "latent", "row": 0}, path="/api/ask")
    check_answer(answer, [200])
    assert answer.json()["decoded"]["count"] == 1


# ---- reconstructions, rate and distortion


@pytest.mark.parametrize("count", [1, 2, EACH, EACH + 1, 2 * EACH, 2 * EACH + 1, 200])
def test_worst_typical_and_best_have_no_input_in_common(count):
    groups = choose_places(torch.arange(count), EACH)
    every = [place for places in groups.values() for place in places]
    assert len(set(every)) == len(every) == min(count, 3 * EACH)
    assert groups["worst"] == list(range(min(count, EACH)))
    if count > EACH:
        assert groups["best"][0] == count - 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["vae", "autoencoder", "denoising"])
def test_reconstructions_come_worst_first(form, kind):
    session, data = shown_page(form, kind)
    codes, found = session.reader.codes, part(data, "reconstructions")
    errors = [item["error"] for item in found["items"]][: found["groups"]["worst"]]
    assert errors == sorted(errors, reverse=True) and errors[0] == pytest.approx(
        float(codes.held_out.error.max().sqrt()), rel=1e-3
    )
    assert (found["given"] is not None) == (kind == "denoising")
    held = codes.held_out
    worst = held.worst_first[0]
    with torch.no_grad():
        back = codes.model.reconstruct((held.x if held.given is None else held.given)[worst][None])[0]
    torch.testing.assert_close(held.back[worst], back, atol=1e-5, rtol=1e-4)
    if form != "images":
        np.testing.assert_allclose(numbers_of(found["back"])[0], back, atol=1e-4, rtol=1e-4)
        np.testing.assert_array_equal(numbers_of(found["original"])[0], held.x[worst])


def test_errors_by_column_have_the_units_of_the_table():
    session, data = shown_page("rows", "autoencoder")
    held = session.reader.codes.held_out
    units = (held.back - held.x).double() * torch.tensor(SCALE)
    expected = units.square().mean(0).sqrt()
    found = part(data, "reconstructions")["columns"]
    assert [each["name"] for each in found] == list(COLUMNS)
    np.testing.assert_allclose([each["rmse"] for each in found], expected, rtol=1e-3)
    assert found[3]["share"] is None  # of a column that never changes


def test_an_autoencoder_without_variance_has_no_rate():
    _, data = shown_page("images", "autoencoder")
    found = part(data, "rate")
    assert found["rate"] is None and found["steps"] == [] and all(x["kl"] is None for x in found["dimensions"])


# ---- all of it


@pytest.mark.parametrize("form", FORMS)
def test_data_that_are_gone_leave_what_the_model_knows(form):
    def gone():
        raise FileNotFoundError("no such folder")

    codes = Codes(model_of(form), inputs_of(form).processor, gone)
    session = session_of(codes)
    data = session.show({})
    assert part(data, "latent")["held"] is None and part(data, "reconstructions") is None
    assert part(data, "rate") is None and any("cannot be read" in note for note in data["notes"])
    assert session.ask({"record": 0, "view": "latent", "code": [0, 1]})["decoded"]["count"] == 1
    with pytest.raises(ValueError, match="row"):
        session.ask({"record": 0, "view": "latent", "row": 0})
    assert session.latest().still("gone").axes


@pytest.mark.parametrize("kind", ["vae", "denoising"])
def test_a_model_that_diverged_has_a_page(kind):
    codes = codes_of("images", kind)
    with torch.no_grad():
        for parameter in codes.model.parameters():
            parameter.fill_(torch.nan)
    data = session_of(codes).show({})
    json.loads(page.to_json(data), parse_constant=lambda text: 1 / 0)
    assert part(data, "latent") is not None


@pytest.mark.parametrize("form", FORMS)
def test_a_still_is_drawn(form):
    session, _ = shown_page(form, "denoising")
    figure = session.latest().still("a $still")
    assert len(figure.axes) == 1 + 3 * min(PAIRS, len(session.reader.codes.held_out.rows))


def test_without_labels_there_are_no_classes():
    data = session_of(codes_of("rows", inputs=inputs_of("rows", labels=()))).show({})
    assert part(data, "latent")["held"]["classes"] is None
    assert {item["label"] for item in part(data, "reconstructions")["items"]} == {None}


def test_large_clouds_are_thinned_and_small_ones_are_not():
    for points in (POINTS, POINTS + 1, 5000):
        assert exhibit(torch.zeros(2, points, 3), "points")["numbers"]["shape"] == [2, min(points, POINTS), 3]


def test_the_format_names_everything():
    text = (Path(__file__).parents[3] / "regard/look/web/README.md").read_text()
    for form, kind in (("rows", "vae"), ("images", "denoising")):
        _, data = shown_page(form, kind)
        for each in [part(data, name) for name in ("latent", "reconstructions", "rate")]:
            assert f"`{each['view']}`" in text
            for key in [*each, *each.get("inputs", {}), *(each.get("here") or {}), *(each.get("held") or {})]:
                assert f'"{key}"' in text, f"{each['view']} has {key}"


# ---- a run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Digits, hardly trained, with its report."""
    place = tmp_path_factory.mktemp("autoencoder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(place / "cache"))
        options = {"model.latent": 2, "model.hidden": 16, "train.evaluate_every": 2}
        yield train("autoencoder", out=place / "run", steps=4, options=options, observers=[])


def test_the_report_of_a_run_shows_its_latent_space(run, everything):
    text = (run.path / "report.html").read_text("utf-8")
    start = text.index('type="application/json">') + len('type="application/json">')
    data = json.loads(text[start : text.index("</script>", start)])
    names = [view["view"] for view in data["views"]]
    assert names[:5] == ["outcome", "latent", "reconstructions", "prior", "rate"]
    assert data["live"] is None and str(run.path.parent) not in text
    rate, measured = part(data, "rate"), run.config.test
    assert rate["of"] == 359 and rate["split"] == "test"
    assert rate["rate"] == pytest.approx(measured["KL"], rel=1e-4)
    assert -rate["rate"] - rate["distortion"] == pytest.approx(measured["elbo"], rel=1e-4)
    assert rate["active"] == measured["active units"]
    assert part(data, "reconstructions")["rmse"] == pytest.approx(measured["RMSE"], rel=1e-3)
    assert [step for step, *_ in rate["steps"]] == [2, 4]
    validation = [event for event in run.metrics() if event["event"] == "validation"]
    for (_, kl, distortion), event in zip(rate["steps"], validation, strict=True):
        assert kl == pytest.approx(event["KL"], rel=1e-4)
        assert -kl - distortion == pytest.approx(event["elbo"], rel=1e-4)
    assert part(data, "prior")["shown"]["count"] == 64


def test_looking_at_another_input_computes_the_codes_of_others_once(run):
    target = open_target(run.path)
    views = target.reader.views
    codes = views[0].codes
    assert all(view.codes is codes for view in views)
    first = codes.held_out
    assert codes.held_out is first and np.unique(first.rows).size == len(first.rows) == 359

"""Search of texts by the cosine of their vectors: beside `embed`, in requests, and in the browser."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from safetensors.torch import save

from regard.data.fast_tokenizers import Bytes
from regard.look import encode_arrays, server
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.recipes.target import Target
from regard.recipes.text import reader as readers
from regard.recipes.text.config import LabelledTextConfig
from regard.recipes.text.nearest_view import NEAREST
from regard.recipes.text.processor import TextsFitted, TextsProcessor
from regard.runs.new_run import create_run
from regard.training.config import TrainConfig
from regard.verbs.look import look, open_session
from regard.verbs.predict import embed
from tests.look.asked import TOKEN, check_answer, post, running
from tests.look.browser import PHONE, eventually, opened, plain, ready, watched

TEXTS = ["abc abd", "<b>hi</b>", "fed cab", "a bad bee", "dig", "abc abe", "head ache", "cabbage"]
TEXTS += ["jig", "bad idea", "feed a hen", "ice", "dice"]


def made_run(path, cls=Encoder, sections=None, **options):
    """A run as training leaves it, without training."""
    torch.manual_seed(0)
    signs = Bytes()
    config = {Encoder: EncoderConfig, Decoder: DecoderConfig}[cls]
    model = cls(config(vocab=signs.size + (cls is Encoder), context=24, dim=16, depth=2, heads=2, **options))
    kind = cls.__name__.lower()
    run = create_run(
        path,
        {"recipe": "text", "problem": "masked", "kind": kind, "model": model.config, "data": {}, **(sections or {})},
    )
    run.publish(save(model.state_dict()))
    run.write("tokenizer.json", signs.to_json())
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A sentence encoder: an encoder without a head."""
    return made_run(tmp_path_factory.mktemp("nearest") / "run", head="none")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n\n".join([*TEXTS, TEXTS[0]]), "utf-8")  # empty lines and repeated ones do not count
    return path


def session_of(run, given):
    return open_session(run.path, str(given), tsne=False)


def part_of(data):
    return next((view for view in data["views"] if view["view"] == "nearest"), None)


def vectors_of(part):
    return encode_arrays.unpack_array(part["vectors"]["data"], "f4", *part["vectors"]["shape"])


def expected_order(run, texts, query):
    """Numbers and cosines of all texts by `embed`, the nearest first."""
    lines = run.path.parent / "lines.txt"
    lines.write_text("\n".join([*texts, query]), "utf-8")
    found, vectors = embed(run.path, str(lines))
    assert found == [*texts, query]
    cosines = vectors[:-1] @ vectors[-1]
    order = np.argsort(-cosines, kind="stable")
    return [(int(k), float(cosines[k])) for k in order]


# ── data


def test_the_page_carries_the_vectors_of_all_texts(run, file):
    data = session_of(run, file).show({})
    part = part_of(data)
    assert part["texts"] == TEXTS and part["count"] == NEAREST
    np.testing.assert_allclose(vectors_of(part), embed(run.path, str(file))[1][:-1], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors_of(part), axis=1), 1, atol=1e-5)
    assert data["input"]["text"] == TEXTS[0] and any("13 texts" in note for note in data["notes"])
    assert data["opens"] == "nearest"
    assert "next" not in [view["view"] for view in data["views"]]  # without a head nothing is filled in


def test_a_masked_model_still_shows_the_whole_of_a_short_file(tmp_path):
    run, path = made_run(tmp_path / "run"), tmp_path / "two.txt"
    path.write_text("abc\nfed\n")
    data = session_of(run, path).show({})
    assert part_of(data)["texts"] == ["abc", "fed"] and data["input"]["text"] == "abc\nfed\n"
    path.write_text("abc\n" + "fed " * 20)
    assert session_of(run, path).show({})["input"]["text"] == "abc"


@pytest.mark.parametrize("text", ["abc", "abc\n\n", "abc\nabc\n"])
def test_one_text_has_no_neighbours(run, tmp_path, text):
    path = tmp_path / "one.txt"
    path.write_text(text)
    assert part_of(session_of(run, path).show({})) is None


def test_a_text_that_is_typed_is_not_searched(run):
    assert part_of(session_of(run, "abc\nfed").show({})) is None


def test_models_that_read_one_text_have_no_search(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text("abc\nfed\n")
    assert part_of(session_of(made_run(tmp_path / "run", Decoder), path).show({})) is None


def test_a_classifier_that_started_from_a_sentence_encoder_says_classes(tmp_path):
    """Its config still says that there was no head."""
    data, fitted = LabelledTextConfig(context=24), TextsFitted(kind="bytes", vocabulary=256)
    processor = TextsProcessor(data, fitted, Target(classes=("bad", "good")))
    sections = {"data": data, "problem": "supervised", "processor": processor.store(), "train": TrainConfig()}
    run, path = made_run(tmp_path / "run", sections=sections, head="none", classes=2), tmp_path / "two.txt"
    path.write_text("abc\nfed\n")
    data = session_of(run, path).show({})
    assert part_of(data) is None and data["input"]["text"] == "abc\nfed\n"
    likely = next(view["likely"] for view in data["views"] if view["view"] == "classes")
    assert {name for name, _ in likely} == {"bad", "good"}


def test_of_many_texts_the_first_are_searched(run, file, monkeypatch):
    monkeypatch.setattr(readers, "SEARCHED", 5)
    data = session_of(run, file).show({})
    assert part_of(data)["texts"] == TEXTS[:5]
    assert any("13 texts; the first 5" in note for note in data["notes"])


# ── questions


def ask(session, record, **asked):
    return post(server.app(session, TOKEN), {"record": record, "view": "nearest", **asked}, path="/api/ask")


@pytest.mark.parametrize("query", ["abc", "bad hen", "j", "feed " * 30, " ice "])
def test_the_nearest_are_those_of_embed(run, file, query):
    session = session_of(run, file)
    answer = ask(session, session.show({})["record"], query=query)
    check_answer(answer, [200])
    found, expected = answer.json()["nearest"], expected_order(run, TEXTS, query)[:NEAREST]
    assert [k for k, _ in found] == [k for k, _ in expected]
    np.testing.assert_allclose([x for _, x in found], [x for _, x in expected], atol=1e-5)


def test_a_query_is_never_a_path(run, file):
    """The path of a file that is there is a text like any other."""
    session = session_of(run, file)
    found = ask(session, session.show({})["record"], query=str(file)).json()["nearest"]
    expected = expected_order(run, TEXTS, str(file))[:NEAREST]
    np.testing.assert_allclose([x for _, x in found], [x for _, x in expected], atol=1e-5)


@pytest.mark.parametrize(
    "asked, words",
    [
        ({}, "query must be a text"),
        ({"query": None}, "query must be a text"),
        ({"query": ["abc"]}, "query must be a text"),
        ({"query": ""}, "query is empty"),
        ({"query": " \n "}, "query is empty"),
        ({"query": "a" * 20_001}, "20,001 characters"),
        ({"query": "\ud800"}, "half a character"),
        ({"query": "abc", "count": 3}, "'count'"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(run, file, asked, words):
    session = session_of(run, file)
    answer = ask(session, session.show({})["record"], **asked)
    check_answer(answer, [400])
    assert words in answer.json()["error"]


def test_silenced_heads_change_vectors_and_answers(run, file):
    """Of the vectors that a page then has, and of a query alike; without silence all is as before."""
    session = session_of(run, file)
    plain_page = session.show({})
    silent = session.show({"silence": [[0, 0], [1, 1]]})
    again = session.show({})
    first, second, third = (vectors_of(part_of(data)) for data in (plain_page, silent, again))
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(first, third)
    for data, vectors in ((plain_page, first), (silent, second)):
        found = ask(session, data["record"], query=TEXTS[3]).json()["nearest"]
        expected = np.sort(vectors @ vectors[3])[::-1][:NEAREST]
        assert found[0] == [3, pytest.approx(1, abs=1e-5)]
        np.testing.assert_allclose([x for _, x in found], expected, atol=1e-5)


def test_another_text_is_shown_and_the_same_are_searched(run, file):
    session = session_of(run, file)
    session.show({})
    data = session.show({"text": "dice"})
    assert data["input"]["text"] == "dice" and part_of(data)["texts"] == TEXTS


# ── the browser


def check_list(shown, expected):
    texts = [TEXTS[k] for k, _ in expected]
    eventually(shown, lambda: shown.locator(".neighbour-text").all_inner_texts(), texts)
    figures = [float(each.replace("−", "-")) for each in shown.locator(".neighbour-figure").all_inner_texts()]
    assert figures == pytest.approx([x for _, x in expected], abs=0.00051)


def neighbours(run, k):
    return [each for each in expected_order(run, TEXTS, TEXTS[k]) if each[0] != k][:NEAREST]


@pytest.fixture(scope="module")
def written(run, file, tmp_path_factory):
    return look(run.path, str(file), out=tmp_path_factory.mktemp("page") / "page.html")


def test_a_page_file_lists_the_neighbours_of_a_text(browser, run, written):
    with opened(browser, written) as shown:
        ready(shown)
        assert shown.get_by_role("searchbox").count() == 0  # nobody would answer
        assert shown.locator(".text-row").all_inner_texts() == TEXTS
        check_list(shown, neighbours(run, 0))
        shown.locator(".text-row").nth(1).click()
        assert plain(shown.locator(".nearest h2").inner_text()) == "Nearest to “<b>hi</b>”"
        check_list(shown, neighbours(run, 1))
        shown.locator(".text-list").focus()
        shown.keyboard.press("ArrowDown")
        check_list(shown, neighbours(run, 2))
        shown.keyboard.press("End")
        check_list(shown, neighbours(run, len(TEXTS) - 1))
        assert shown.locator(".text-row[aria-selected=true]").inner_text() == TEXTS[-1]
        nearest = neighbours(run, len(TEXTS) - 1)[0][0]
        shown.locator(".neighbour").first.press("Enter")
        check_list(shown, neighbours(run, nearest))
        assert shown.evaluate("document.activeElement.className") == "text-list"


def test_a_phone_has_room_for_it(browser, written):
    with opened(browser, written, viewport=PHONE) as shown:
        ready(shown)
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")


@contextmanager
def served(browser, session):
    with running(session) as address, watched(browser, allowed=address.partition("?")[0]) as shown:
        shown.goto(address)
        ready(shown)
        yield shown


def test_a_served_page_searches(browser, run, file):
    with served(browser, session_of(run, file)) as shown:
        field = shown.get_by_role("searchbox")
        field.fill("bad hen")
        field.press("Enter")
        shown.locator(".nearest h2", has_text="bad hen").wait_for()
        check_list(shown, expected_order(run, TEXTS, "bad hen")[:NEAREST])
        assert shown.locator(".text-row[aria-selected=true]").count() == 0
        shown.locator(".text-row").nth(4).click()
        check_list(shown, neighbours(run, 4))
        field.fill("a" * 30_000)  # as much as a request takes is sent
        shown.get_by_role("button", name="Search").click()
        shown.locator(".nearest h2", has_text="aaa").wait_for()

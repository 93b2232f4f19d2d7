"""The page with a server behind it: other inputs, silenced heads, moved tokens, and what has changed."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch

from regard.look.session import as_json
from regard.recipes.images.reader import IMAGE
from regard.recipes.text.reader import ORDER, TEXT
from tests.look import pages
from tests.look.browser import opened, plain, point, readout, ready, three, watched
from tests.look.scenes import html_page, write_page

TOKENS = ["a", "b", "c", "d"]
LIVE = {"controls": [as_json(each) for each in (TEXT, ORDER, IMAGE)], "silence": True, "longest": 2000}


class Stub:
    """A server that answers like `regard look`, and remembers what it was asked."""

    def __init__(self):
        self.asked, self.weights = [], {}  # questions; record -> layers of weights, h n n
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, body, kind="application/json", status=200):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                path, _, query = self.path.partition("?")
                assert query == "token=of-the-stub"
                if path == "/":
                    return self.answer(html_page(stub.look()).encode(), "text/html; charset=utf-8")
                record, layer, call, head, window = map(int, path.removeprefix("/api/weights/").split("/"))
                assert call == window == 0
                weights = stub.weights[record][layer][head].numpy().astype("<f4")
                return self.answer(weights.tobytes(), "application/octet-stream")

            def do_POST(self):
                assert self.path == "/api/look?token=of-the-stub"
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.asked.append(question)
                if question["text"] == "bad":
                    return self.answer(json.dumps({"error": "the text has <b>no</b> tokens"}).encode(), status=400)
                return self.answer(json.dumps(stub.look(question)).encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        self.opened = f"{self.address}?token=of-the-stub"

    def look(self, question=None):
        record = len(self.weights)
        labels = list(question["text"]) if question else TOKENS
        if question and question.get("order"):
            labels = [labels[k] for k in question["order"]]
        n = len(labels)
        random = torch.Generator().manual_seed(record)
        weights = [pages.attended(torch.randn(2, n, n, generator=random)) for _ in range(2)]
        self.weights[record] = weights
        views = [{"view": "attention", "layers": [pages.layer_of(w, k, count=2) for k, w in enumerate(weights)]},
                 pages.next_token(labels, record), pages.classes()]  # fmt: skip
        text = question["text"] if question else "".join(TOKENS)
        return pages.page_of(views, labels, live=LIVE, record=record, silenced=question["silence"] if question else [],
                             input={"kind": "text", "text": text, "target": None})  # fmt: skip


@pytest.fixture
def stub():
    one = Stub()
    thread = threading.Thread(target=one.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield one
    one.server.shutdown()
    thread.join()
    one.server.server_close()


@contextmanager
def served(browser, stub, **options):
    with watched(browser, allowed=stub.address, **options) as shown:
        shown.goto(stub.opened)
        ready(shown)
        yield shown


def run(shown, text):
    """Type it, press Ctrl + Enter, and wait for the answer."""
    shown.get_by_label("text", exact=True).fill(text)
    with shown.expect_response("**/api/look?*"):
        shown.keyboard.press("Control+Enter")
    shown.locator(".state", has_text="done in").wait_for()
    shown.wait_for_function("text => document.querySelectorAll('.chip').length === text.length", arg=text)


def exact(shown, weights, i, j):
    """The matrix says a weight, in full."""
    return point(shown, len(weights), len(weights), i, j).endswith(f" {three(weights[i, j].item())}")


def test_another_text(browser, stub):
    with served(browser, stub) as shown:
        assert all(exact(shown, stub.weights[0][0][0], 3, j) for j in range(4))  # two of them are not listed
        run(shown, "abcde")
        assert stub.asked[-1] == {"text": "abcde", "order": None, "silence": []}
        shown.locator(".readout", has_text="Point at").wait_for()
        assert exact(shown, stub.weights[1][0][0], 4, 1)
        assert shown.locator(".chip").all_inner_texts() == list("abcde")
        shown.get_by_role("button", name="Run").click()
        shown.wait_for_function("() => !document.querySelector('.run').disabled")
        assert len(stub.asked) == 2


def test_an_error_is_one_line_and_nothing_is_lost(browser, stub):
    with served(browser, stub, expected="status of 400") as shown:
        shown.get_by_label("text", exact=True).fill("bad")
        with shown.expect_response("**/api/look?*"):
            shown.get_by_role("button", name="Run").click()
        alert = shown.get_by_role("alert")
        alert.wait_for()
        assert alert.inner_text() == "the text has <b>no</b> tokens"
        assert shown.locator(".chip").all_inner_texts() == TOKENS
        assert shown.get_by_role("button", name="Run").is_enabled()


def test_silence_a_head(browser, stub):
    with served(browser, stub) as shown:
        shown.get_by_role("button", name="layer 2, head 1").click()
        shown.get_by_role("button", name="silence this head").click()
        shown.get_by_role("button", name="layer 2, head 1, silenced").wait_for()
        assert stub.asked[-1]["silence"] == [[1, 0]]
        pressed = shown.get_by_role("button", name="silence this head")
        assert pressed.get_attribute("aria-pressed") == "true"
        pressed.click()
        shown.get_by_role("button", name="layer 2, head 1", exact=True).wait_for()
        assert stub.asked[-1]["silence"] == []
        assert shown.get_by_role("button", name="hear all heads again").count() == 0
        for head in (1, 2):
            shown.get_by_role("button", name=f"layer 2, head {head}").click()
            shown.get_by_role("button", name="silence this head").click()
            shown.get_by_role("button", name=f"layer 2, head {head}, silenced").wait_for()
        shown.get_by_role("button", name="hear all heads again (2 silenced)").click()
        shown.get_by_role("button", name="layer 2, head 2", exact=True).wait_for()
        assert stub.asked[-1]["silence"] == []


def test_move_a_token_with_keys_and_with_the_pointer(browser, stub):
    with served(browser, stub) as shown:
        shown.locator(".chip").nth(1).click()
        shown.keyboard.press("ArrowRight")
        shown.wait_for_function(
            "() => [...document.querySelectorAll('.chip')].map((c) => c.textContent).join('') === 'acbd'"
        )
        assert stub.asked[-1]["order"] == [0, 2, 1, 3]
        shown.wait_for_function("() => !document.querySelector('.run').disabled")
        shown.keyboard.press("ArrowRight")  # it is still chosen, and moves on
        shown.wait_for_function(
            "() => [...document.querySelectorAll('.chip')].map((c) => c.textContent).join('') === 'acdb'"
        )
        assert stub.asked[-1]["order"] == [0, 2, 3, 1]
        shown.wait_for_function("() => !document.querySelector('.run').disabled")
        shown.locator(".chip").nth(3).drag_to(shown.locator(".chip").nth(0))
        shown.wait_for_function(
            "() => [...document.querySelectorAll('.chip')].map((c) => c.textContent).join('') === 'bacd'"
        )
        assert stub.asked[-1]["order"] == [1, 0, 2, 3]
        run(shown, "abcd")
        assert stub.asked[-1]["order"] is None  # another text has another order


def test_compare_with_before(browser, stub):
    with served(browser, stub) as shown:
        assert shown.get_by_role("button", name="compare with before").count() == 0
        run(shown, "wxyz")
        shown.get_by_role("button", name="compare with before").click()
        shown.locator(".legend", has_text="change").wait_for()
        now, then = stub.weights[1][0][0], stub.weights[0][0][0]
        change = now[3, 1].item() - then[3, 1].item()
        shown.locator(".readout", has_text="Point at").wait_for()
        said = point(shown, 4, 4, 3, 1)
        numbers = (three(now[3, 1].item()), three(then[3, 1].item()), ("+" if change > 0 else "") + three(change))
        assert said == "query z 4 → key x 2 {} before {}, change {}".format(*numbers)
        shown.locator("#tab-next").click()
        shown.locator(".piece").nth(2).click()
        assert shown.locator(".bars.compared").is_visible()
        before = pages.next_token(TOKENS, 0)["at"][2]["likely"][0][1]
        assert f"before {100 * before:.1f}%" in plain(shown.locator(".at-token").inner_text())
        run(shown, "longer")  # other shapes cannot be compared
        shown.locator("#tab-attention").click()
        shown.locator(".legend", has_text="weight").wait_for()
        assert "before" not in readout(shown)


def test_an_image_is_sent_as_it_is(browser, stub, tmp_path):
    where = tmp_path / "small.png"
    where.write_bytes(base64.b64decode(pages.image_url(8).partition(",")[2]))
    with served(browser, stub) as shown:
        with shown.expect_response("**/api/look?*"):
            shown.get_by_label("image").set_input_files(where)
        assert stub.asked[-1]["image"] == pages.image_url(8)
        shown.locator(".answer", has_text="small.png").wait_for()  # the server does not know how it was called


def test_a_page_that_was_saved(browser, tmp_path):
    """It still shows what it lists, asks for nothing, and says that it cannot run."""
    stub = Stub()
    data = stub.look()
    stub.server.server_close()
    where = write_page(data, tmp_path / "saved.html")
    with opened(browser, where) as shown:
        ready(shown)
        weights = stub.weights[0][0][0].half().float().numpy()
        largest = int(np.argmax(weights[3]))
        assert point(shown, 4, 4, 3, largest).endswith(f" {three(float(weights[3, largest]))}")
        shown.get_by_role("button", name="Run").click()
        shown.get_by_role("alert").wait_for()
        assert "does not answer" in shown.get_by_role("alert").inner_text()

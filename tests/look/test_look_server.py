"""The server answers this machine and nobody else, and survives whatever it is sent."""

import http.client
import json
import threading

import numpy as np
import pytest
import torch

from regard.look import server
from regard.look.session import Session
from regard.models.decoder import Decoder, DecoderConfig
from tests.look.scenes import Reads
from tests.look.test_look_session import read


@pytest.fixture(scope="module")
def address():
    pytest.importorskip("uvicorn")
    import uvicorn

    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=26, context=16, dim=32, depth=1, heads=2)).eval()
    application = server.app(Session(model, Reads(read), "letters </script>", tsne=False))
    config = uvicorn.Config(application, host="127.0.0.1", port=0, log_level="error")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        thread.join(0.02)
        assert thread.is_alive(), "the server did not start"
    yield running.servers[0].sockets[0].getsockname()[1]
    running.should_exit = True
    thread.join(10)


def ask(port, method="GET", path="/", body=None, host=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"Host": host or f"127.0.0.1:{port}", **named})
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


JSON = {"Content_Type": "application/json"}


def test_the_page_and_new_data(address):
    status, page, headers = ask(address)
    assert status == 200 and b"letters &lt;/script&gt;" in page and headers["x-frame-options"] == "DENY"
    status, body, _ = ask(address, "POST", "/api/look", json.dumps({"text": "hello"}), **JSON)
    data = json.loads(body)
    assert status == 200 and data["streams"][0]["labels"] == list("hello")
    status, body, _ = ask(address, path=f"/api/weights/{data['record']}/0/0/1/0")
    weights = np.frombuffer(body, "<f4").reshape(5, 5)
    assert status == 200
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
    assert (np.triu(weights, 1) == 0).all()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example:1",
        "[::1]",
        "x",
    ],
)
def test_other_hosts_are_refused(address, host):
    assert ask(address, host=host)[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_other_origins_are_refused(address, headers):
    assert ask(address, "POST", "/api/look", "{}", **JSON, **headers)[0] == 403


def test_its_own_origin_is_not(address):
    assert ask(address, "POST", "/api/look", "{}", Origin=f"http://127.0.0.1:{address}", **JSON)[0] == 200
    assert ask(address, host=f"localhost:{address}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/../../etc/passwd",
        "/%2e%2e/page.py",
        "/static/page.css",
        "/api/weights/0/0/0/99/0",
        "/api/weights/0/0/7/0/0",
        "/api/weights/x/0/0/0/0",
        "/api/weights/-1/0/0/0/0",
        "/api/weights/0/0/0/0/1",
    ],
)
def test_only_its_own_is_served(address, path):
    assert ask(address, path=path)[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        "5",
        '{"order": {}}',
        '{"text": 1}',
        '{"a": 1}',
        "[" * 100_000,
        b"\xff\xfe",
        '{"silence": [[1e99, 0]]}',
        '{"silence": [[true, 0]]}',
        '{"image": "data:image/png;base64,AAAA"}',
    ],
)
def test_junk_gets_one_line_and_the_server_goes_on(address, body):
    status, answer, _ = ask(address, "POST", "/api/look", body, **JSON)
    assert status == 400 and set(json.loads(answer)) == {"error"} and "\n" not in json.loads(answer)["error"]
    assert ask(address)[0] == 200


def test_a_form_of_another_site_is_refused(address):
    assert ask(address, "POST", "/api/look", "{}", Content_Type="text/plain")[0] == 415
    assert ask(address, "GET", "/api/look")[0] == 405


def test_a_huge_request_is_cut_off(address, monkeypatch):
    monkeypatch.setattr(server, "LARGEST", 1000)
    status, answer, _ = ask(address, "POST", "/api/look", json.dumps({"text": "a" * 2000}), **JSON)
    assert status == 400 and "1,000 bytes" in json.loads(answer)["error"]


def test_a_taken_port_is_told(address):
    with pytest.raises(ValueError, match=f"port {address} cannot be used: .*; choose another with --port"):
        server.serve(None, port=address)

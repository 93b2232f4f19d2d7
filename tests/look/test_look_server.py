"""The server answers its owner and nobody else, and survives whatever it is sent."""

import base64
import hashlib
import http.client
import json
import random
import re
import socket
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from regard.look import page, server
from regard.look.reader import LARGEST_FILE, Control
from regard.look.session import Session
from regard.models.decoder import Decoder, DecoderConfig
from regard.serving import guard
from tests.look.asked import HEADERS, PORT, TOKEN, ask, check_answer, post, running
from tests.look.scenes import Reads, reader_for
from tests.look.test_look_session import read
from tests.look.test_look_things import graph_net, points_of, set_transformer
from tests.test_hostile_files import CONTENTS

pytest.importorskip("uvicorn")


def session_of(reader=None, name="letters </script>"):
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=26, context=16, dim=32, depth=1, heads=2)).eval()
    return Session(model, reader or Reads(read), name, tsne=False)


@pytest.fixture(scope="module")
def app():
    return server.app(session_of(), TOKEN)


# ── what it serves


def test_the_page_and_new_data(app):
    start = ask(app)
    check_answer(start, [200])
    assert b"letters &lt;/script&gt;" in start.body
    found = post(app, {"text": "hello"})
    check_answer(found, [200])
    data = found.json()
    assert data["streams"][0]["labels"] == list("hello")
    answer = ask(app, path=f"/api/weights/{data['record']}/0/0/1/0")
    check_answer(answer, [200])
    weights = np.frombuffer(answer.body, "<f4").reshape(5, 5)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
    assert (np.triu(weights, 1) == 0).all()


def test_the_policy_names_the_script_and_the_style_by_their_hashes(app):
    answer = ask(app)
    text = answer.body.decode()
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in answer.headers["content-security-policy"]
    (meta,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert answer.headers["content-security-policy"] == f"{meta}; frame-ancestors 'none'"
    assert "connect-src 'self'" in meta
    assert "connect-src 'none'" in page.html({"title": "still", "live": None, "views": []})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_null(bad):
    data = {"title": "t", "live": None, "a": [1.5, bad, {"b": (bad, "NaN")}], "half": "\ud800"}
    found = json.loads(page.to_json(data), parse_constant=lambda text: 1 / 0)
    assert found["a"] == [1.5, None, {"b": [None, "NaN"]}]
    assert b"NaN," not in page.encode(page.html(data)).split(b'id="data"')[1].split(b"</script>")[0]


# ── who may ask


@pytest.mark.parametrize(
    "query",
    [
        "",
        "token=",
        "token=wrong",
        f"token={TOKEN}x",
        f"token={TOKEN[:-1]}",
        f"token={TOKEN.upper()}",
        f"Token={TOKEN}",
        f"token={TOKEN}&token={TOKEN}",
        f"token={TOKEN}&token=wrong",
        f"x[token]={TOKEN}",
        "&".join(f"a{i}=1" for i in range(1000)) + f"&token={TOKEN}",
        "token=%FF%FE",
        "token=\xe9",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/look", "/api/region", "/api/weights/0/0/0/0/0", "/nothing/here"])
def test_without_the_token_nothing_is_told(app, query, path):
    answer = ask(app, "POST" if path in ("/api/look", "/api/region") else "GET", path, query=query)
    check_answer(answer, [403])
    assert "token" in answer.json()["error"] and TOKEN.encode() not in answer.body


def test_the_token_is_random_and_compared_in_constant_time(monkeypatch, app):
    tokens = {guard.new_token() for _ in range(100)}
    assert len(tokens) == 100 and min(map(len, tokens)) >= 43
    compared = []
    monkeypatch.setattr(guard.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or False)
    check_answer(ask(app), [403])
    assert compared == [(TOKEN.encode(), TOKEN.encode())]


RIGHT = (f"127.0.0.1:{PORT}", f"localhost:{PORT}")
WRONG = [
    "", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:1", "[::1]", "x",
    "127.0.0.1", "localhost", "127.0.0.1:1", f"127.0.0.1:{PORT}0", f"127.0.0.1:0{PORT}", f"127.0.0.1:{PORT} ",
    f"LOCALHOST:{PORT}", f"127.0.0.2:{PORT}", f"0.0.0.0:{PORT}", f"127.1:{PORT}", f"2130706433:{PORT}",
    f"user@127.0.0.1:{PORT}", f"localhost.:{PORT}", f"[::1]:{PORT}",
]  # fmt: skip


@pytest.mark.parametrize("host", WRONG)
def test_other_hosts_are_refused(app, host):
    check_answer(ask(app, host=host), [403])


@pytest.mark.parametrize("host", RIGHT)
def test_its_own_hosts_are_not(app, host):
    check_answer(ask(app, host=host), [200])
    check_answer(post(app, {}, host=host, headers=[("origin", f"http://{host}")]), [200])


@pytest.mark.parametrize(
    "headers",
    [
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Origin", "http://127.0.0.1:1")],
        [("Origin", f"https://127.0.0.1:{PORT}")],
        [("Origin", f"http://localhost:{PORT}")],
        [("Origin", f"http://127.0.0.1:{PORT}"), ("Origin", "http://evil.example")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
        [("Host", f"127.0.0.1:{PORT}")],
    ],
)
def test_other_origins_are_refused(app, headers):
    check_answer(post(app, {}, headers=headers), [403])


def test_a_region_is_answered_or_refused(app):
    record = post(app, {}).json()["record"]
    headers = [("content-type", "application/json")]

    def region(value):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        answer = ask(app, "POST", "/api/region", body=body, headers=headers)
        check_answer(answer, [200, 400])
        return answer.status, answer.json()

    status, found = region({"record": record, "region": [1, 2]})
    assert status == 200 and set(found) == {"label", "shares", "logits", "then"}
    for odd in (b"", b"[]", b"{", b"NaN", {"record": record}, {"record": 10**30, "region": [0]}, {"region": [[0]]}):
        status, found = region(odd)
        assert status == 400 and set(found) == {"error"}
    check_answer(ask(app, "POST", "/api/region", body=b"{}"), [415])
    check_answer(ask(app, "GET", "/api/region"), [405])


# ── addresses and bodies


ODD = ["99999999999999999999", "-1", "1.0", "1e3", "NaN", "inf", "٣", "０", "²", "0x1", "+1", " 1", "1_0", "",
       "9" * 5000, "x", "%30", "\x00", "true"]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", range(5))
def test_odd_numbers_in_addresses_are_not_found(app, odd, place):
    parts = ["0"] * 5
    parts[place] = odd
    check_answer(ask(app, path=f"/api/weights/{'/'.join(parts)}"), [404])


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/../../etc/passwd",
        "/%2e%2e/page.py",
        "//",
        "/api/look/",
        "/static/page.css",
        "/api/weights/0/0/0/99/0",
        "/api/weights/0/0/7/0/0",
        "/api/weights/0/0/0/0/1",
        "/api/weights/0/0/0/0/0/0",
    ],
)
def test_only_its_own_is_served(app, path):
    check_answer(ask(app, path=path), [404])


JUNK = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"5",
    b"NaN",
    b'{"order": {}}',
    b'{"text": 1}',
    b'{"a": 1}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"\xff\xfe",
    b'{"text": "\\ud800"}',
    b'{"text": NaN}',
    b'{"order": [' + b"9" * 5000 + b"]}",
    b'{"order": [1e400]}',
    b'{"silence": [[1e99, 0]]}',
    b'{"silence": [[true, 0]]}',
    b'{"silence": [[0, 99999999999999999999]]}',
    b'{"silence": [[0, -1]]}',
    b'{"image": "data:image/png;base64,AAAA"}',
]


@pytest.mark.parametrize("body", JUNK, ids=range(len(JUNK)))
def test_junk_gets_one_line_and_the_server_goes_on(app, body):
    check_answer(post(app, body), [400])
    check_answer(ask(app), [200])


def test_a_form_of_another_site_is_refused(app):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        check_answer(ask(app, "POST", "/api/look", body=b"{}", headers=[("content-type", kind)]), [415])
    for method, path in (("GET", "/api/look"), ("POST", "/"), ("PUT", "/"), ("TRACE", "/"), ("X", "/")):
        check_answer(ask(app, method, path), [405])


def test_a_huge_request_is_cut_off(app, monkeypatch):
    monkeypatch.setattr(server, "LARGEST", 1000)
    read_so_far = []

    async def more():
        read_so_far.append(1)
        return b"a" * 400

    check_answer(post(app, {"text": "a" * 2000}), [413])
    kind = ("content-type", "application/json")
    endless = ask(app, "POST", "/api/look", body=[more] * 100, headers=[kind])
    check_answer(endless, [413])
    assert "1,000 bytes" in endless.json()["error"] and len(read_so_far) == 3
    for declared in ("1001", "99999999999999", "-5", "x", "٣"):
        declared = declared.encode("utf-8").decode("latin-1")
        refused = ask(app, "POST", "/api/look", body=[more], headers=[kind, ("content-length", declared)])
        check_answer(refused, [413])
    assert len(read_so_far) == 3  # what is declared too large is not read at all


def test_a_body_that_does_not_come_is_not_waited_for(app, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)

    async def slow():
        await guard.asyncio.sleep(0.02)
        return b" "

    kind = ("content-type", "application/json")
    check_answer(ask(app, "POST", "/api/look", body=[slow] * 1000, headers=[kind]), [408])


def test_long_headers_are_refused(app):
    check_answer(ask(app, headers=[("x", "a" * 20_000)]), [431])
    check_answer(ask(app, query=f"token={TOKEN}&x={'a' * 20_000}"), [431])


def test_a_bug_is_one_line_with_all_headers(capfd, monkeypatch):
    class Panic(BaseException):
        """As extensions written in Rust raise it."""

    for error in (TypeError("planted\nfault"), Panic("planted panic"), MemoryError(), KeyError("x")):
        session = session_of()
        monkeypatch.setattr(session, "show", lambda asked, error=error: (_ for _ in ()).throw(error))
        broken = server.app(session, TOKEN)
        for answer in (ask(broken), post(broken, {"text": "a"})):
            check_answer(answer, [500])
            assert type(error).__name__ in answer.json()["error"]
    assert "Traceback" not in capfd.readouterr().err


# ── strings are never paths, files are bounded


def test_a_typed_text_is_a_text_even_if_it_is_the_path_of_a_file(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("abc")
    seen = []

    def spy(given=None, target=None):
        seen.append((given, target))
        return read("abc")

    session = session_of()
    session.reader.read = spy
    app = server.app(session, TOKEN)
    check_answer(post(app, {"text": str(secret)}), [200])
    assert seen == [(str(secret).encode(), None)]  # bytes: no reader opens a file by them


def test_every_control_gives_bytes_or_numbers():
    assert Control(name="a", type="string").parse("/etc/passwd") == b"/etc/passwd"
    assert Control(name="a", type="file").parse("data:,x;base64,YWI=") == b"ab"
    with pytest.raises(ValueError, match="3 bytes; at most 2"):
        Control(name="a", type="file", most=2).parse("data:;base64,YWJj")
    for odd in (2**53 + 1, -(2**60)):
        with pytest.raises(ValueError, match="none above"):
            Control(name="a", type="number").parse(odd)
    with pytest.raises(ValueError, match="100,000 numbers"):
        Control(name="a", type="numbers").parse([0] * 100_001)
    assert server.LARGEST > LARGEST_FILE * 4 / 3


@pytest.fixture(scope="module")
def apps():
    """A server of sets and one of graphs."""
    inputs = {"x": points_of(6)}
    model = set_transformer()
    sets = Session(model, reader_for(model, inputs), "sets", tsne=False)
    draw = torch.Generator().manual_seed(0)
    network = graph_net()
    known = {"x": torch.randn(9, 4, generator=draw), "edges": torch.randint(9, (2, 20), generator=draw)}
    graphs = Session(network, reader_for(network, known), "graphs", tsne=False)
    return {"sets": server.app(sets, TOKEN), "graphs": server.app(graphs, TOKEN)}


@pytest.mark.parametrize("kind", ["sets", "graphs"])
def test_files_that_a_page_sends(apps, kind):
    """Hostile bytes get one line, and nothing of the machine is in it."""
    for name, content in CONTENTS.items():
        if len(content) > 2**20:
            continue
        sent = "data:text/csv;base64," + base64.b64encode(content).decode()
        answer = post(apps[kind], {"file": sent})
        check_answer(answer, [200, 400])
        if answer.status == 400:
            assert "/tmp" not in answer.json()["error"], (name, answer.json())
    check_answer(ask(apps[kind]), [200])


@pytest.mark.parametrize("kind", ["sets", "graphs"])
@pytest.mark.parametrize("value", [-1, 10**6, 2**53, 2**60, -(2**60), 1.5, True, "3", [], None, {}])
def test_numbers_that_a_page_sends(apps, kind, value):
    for field in ("node", "order", "file", "silence", "text"):
        check_answer(post(apps[kind], {field: value}), [200, 400])


# ── anything at all


words = some.text(max_size=12)
values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | words, lambda x: some.lists(x, max_size=3)
)
fields = some.sampled_from(["text", "order", "silence", "file", "image", "node", "target", ""]) | words
questions = some.dictionaries(fields, values, max_size=3) | values
paths = some.sampled_from(["/", "/api/look", "/api/weights/0/0/0/0/0", "/api/weights/0/0/0/0/"]) | some.builds(
    lambda parts: "/api/weights/" + "/".join(parts), some.lists(some.integers().map(str) | words, max_size=6)
)
methods = some.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "BREW"])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(method=methods, path=paths | words.map("/".__add__), question=questions, sent=some.booleans())
def test_any_request_gets_a_proper_answer(app, method, path, question, sent):
    body = json.dumps(question).encode() if sent else repr(question).encode("utf-8", "replace")
    answer = ask(app, method, path, body=body, headers=[("content-type", "application/json")])
    if method == "HEAD" and answer.status == 200:
        return
    check_answer(answer)


def test_random_bytes_in_every_place(app):
    chance = random.Random(0)

    def junk(most):
        return "".join(chr(chance.randrange(1, 256)) for _ in range(chance.randrange(most)))

    for _ in range(300):
        headers = [(f"x{junk(5)}", junk(30)), ("origin", junk(20)), ("content-type", "application/json")]
        chosen = chance.sample(headers, chance.randrange(len(headers) + 1))
        query = chance.choice([f"token={TOKEN}", f"token={TOKEN}&{junk(9)}", junk(30)])
        host = chance.choice([None, None, junk(20)])
        method = chance.choice(["GET", "POST"])
        path = chance.choice(["/", "/api/look", f"/{junk(20)}"])
        body = junk(50).encode("latin-1")
        check_answer(ask(app, method, path, query=query, headers=chosen, host=host, body=body))


# ── the connection itself


@pytest.fixture(scope="module")
def port():
    with running(session_of()) as address:
        yield int(address.split("/")[2].split(":")[1])


def say(port, data, *more, pause=0.0):
    """Send bytes, and read all that comes until the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as talk:
        for each in (data, *more):
            talk.sendall(each)
            time.sleep(pause)
        return hear(talk)


def hear(talk):
    found = b""
    try:
        while chunk := talk.recv(1 << 16):
            found += chunk
    except ConnectionResetError:
        pass
    return found


def check_raw(found, *statuses):
    assert int(found[9:12]) in statuses, found[:200]
    lines = dict(line.lower().split(": ", 1) for line in found.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:])
    for name, value in HEADERS.items():
        assert lines.get(name) == value.lower(), name
    assert "frame-ancestors 'none'" in lines["content-security-policy"]
    assert "server" not in lines


def wait_until_all_are_gone(port):
    head = f"Host: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    for _ in range(200):
        if b" 200 " in say(port, f"GET /?token={TOKEN} HTTP/1.1\r\n{head}".encode())[:20]:
            return
        time.sleep(0.02)
    raise AssertionError("the server does not answer any more")


def test_a_browser_would_be_answered(port):
    talk = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    for _ in range(3):  # on one connection
        talk.request("GET", f"/?token={TOKEN}")
        answer = talk.getresponse()
        assert answer.status == 200 and b"letters" in answer.read()
        names = [name.lower() for name, _ in answer.getheaders()]
        assert len(names) == len(set(names)) and {*HEADERS} <= {*names}
    talk.request("GET", "/")
    assert talk.getresponse().status == 403
    talk.close()


@pytest.mark.parametrize(
    "data, statuses",
    [
        (b"\0\1\2\3\r\n\r\n", [400]),
        (b"GET / HTTP/9.9\r\n\r\n", [400, 403]),
        (b"GET /\r\n\r\n", [400]),
        (b"GET / HTTP/1.1\r\n\r\n", [400, 403]),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", [400, 403]),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", [403]),
        (b"GET / HTTP/1.0\r\n\r\n", [403]),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", [403]),
        (b"POST /api/look HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", [403]),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", [400]),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", [400]),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100_000, [400, 431]),
        (b"GET /" + b"a" * 200_000, [431]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n" * 3, [400]),  # who speaks TLS
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400, 403]),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            [403],
        ),
    ],
)
def test_what_is_no_request_is_answered_with_all_headers(port, data, statuses):
    check_raw(say(port, data), *statuses)
    wait_until_all_are_gone(port)


def test_slow_headers_are_cut_off(port, monkeypatch):
    monkeypatch.setattr(guard, "HEADER_SECONDS", 0.3)
    began = time.monotonic()
    silent = say(port, b"")
    check_raw(silent, 408)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as talk:
        talk.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(6):  # a line now and then does not put it off
            time.sleep(0.1)
            try:
                talk.sendall(b"A: b\r\n")
            except OSError:
                break
        found = hear(talk)
    assert time.monotonic() - began < 5
    assert found == b"" or found.startswith(b"HTTP/1.1 408")
    wait_until_all_are_gone(port)


def test_too_many_connections_are_refused_and_room_comes_back(port, monkeypatch):
    monkeypatch.setattr(guard, "CONNECTIONS", 8)
    held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(8)]
    time.sleep(0.1)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as talk:
        check_raw(hear(talk), 503)
    for each in held:
        each.close()
    wait_until_all_are_gone(port)


def test_a_taken_port_is_told(port):
    for taken in (port, 65536, -1, 10**18):
        with pytest.raises(ValueError, match=f"port {taken} cannot be used: .*; choose another with --port"):
            guard.listen(taken)

"""An application asked without a socket: what it answers, and what every answer must have."""

import asyncio
import json
import threading
from contextlib import contextmanager
from functools import cache

from regard.look import server
from regard.serving.guard import listen

PORT, TOKEN = 8765, "the-token-of-this-test"
HEADERS = {  # of every answer, errors included
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
}


@cache
def loop():
    """A loop in a thread of its own: the driver of the browser has one in the thread of the tests."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, daemon=True).start()
    return made


class Answer:
    """Status, headers by name, and the body."""

    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        assert len(self.headers) == len(headers), f"a header is there twice: {headers}"

    def json(self):
        return json.loads(self.body, parse_constant=lambda text: 1 / 0)  # NaN is no JSON


@contextmanager
def running(session):
    """The address of a page that is served."""
    process = server.server(session, TOKEN)
    with listen(None) as listening:
        thread = threading.Thread(target=process.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not process.started:
            thread.join(0.02)
            assert thread.is_alive(), "the server did not start"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/?token={TOKEN}"
        process.should_exit = True
        thread.join(10)


def ask(app, method="GET", path="/", *, query=f"token={TOKEN}", body=b"", headers=(), host=None):
    """One request. headers: pairs of text, added to the host; host=None: the right one"""
    lines = [("host", f"127.0.0.1:{PORT}" if host is None else host), *headers]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "root_path": "",
        "query_string": query.encode("latin-1"),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in lines],
        "server": ("127.0.0.1", PORT),
        "client": ("127.0.0.1", 50000),
    }
    chunks = list(body) if isinstance(body, list) else [body]
    sent = []

    async def receive():
        if not chunks:
            return {"type": "http.disconnect"}
        chunk = chunks.pop(0)
        if callable(chunk):
            chunk = await chunk()
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    async def send(message):
        sent.append(message)

    asyncio.run_coroutine_threadsafe(app(scope, receive, send), loop()).result(60)
    assert sent and sent[0]["type"] == "http.response.start"
    return Answer(sent[0]["status"], sent[0]["headers"], b"".join(each.get("body", b"") for each in sent[1:]))


def post(app, value, path="/api/look", **how):
    """New data for what is asked."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    headers = [("content-type", "application/json"), *how.pop("headers", ())]
    return ask(app, "POST", path, body=body, headers=headers, **how)


def check_answer(answer, allowed=(200, 400, 403, 404, 405, 408, 413, 415, 431)):
    """What every answer must be: an allowed status, all headers, and JSON, a page or weights."""
    assert answer.status in allowed, (answer.status, answer.body[:300])
    for name, value in HEADERS.items():
        assert answer.headers.get(name) == value, (name, answer.status)
    policy = answer.headers["content-security-policy"]
    assert "'unsafe" not in policy and "script-src 'sha256-" in policy and "frame-ancestors 'none'" in policy
    kind = answer.headers["content-type"]
    if kind == "application/json":
        found = answer.json()
        assert answer.status == 200 or (set(found) == {"error"} and "\n" not in found["error"] and found["error"])
    elif answer.status == 200:
        page = kind.startswith("text/html") and answer.body.startswith(b"<!doctype html>")
        assert page or kind == "application/octet-stream", kind
    else:
        raise AssertionError(f"an error as {kind}: {answer.body[:200]}")

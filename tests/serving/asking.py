"""A server of texts that is asked without a socket, and models whose texts are known."""

import asyncio
import json

import torch

from regard.data.chat_template import PLAIN
from regard.data.fast_tokenizers import Bytes
from regard.generation.scheduler import Scheduler
from regard.generation.writer import Writer
from regard.serving.openai import make_text_app
from tests.look.asked import HEADERS, PORT, Answer, loop

KEY, NAME, MARK = "the-key-of-this-test", "echo", 2
AUTHORIZED = ("authorization", f"Bearer {KEY}")


class Echo:
    """Slots of no model: after a prompt that ends with MARK comes its text again, and again. Every slot is its own."""

    def __init__(self, count=4, capacity=4096):
        self.count, self.capacity = count, capacity
        self.held = [[] for _ in range(count)]
        self.reads = 0

    def read(self, slots, tokens):
        self.reads += 1
        logits = torch.full((len(slots), 256), -torch.inf)
        for row, (slot, new) in enumerate(zip(slots, tokens, strict=True)):
            self.held[slot] = self.held[slot] + list(new)
            assert len(self.held[slot]) <= self.capacity
            said = self.held[slot]
            first = said.index(MARK) + 1 if MARK in said else 1
            logits[row, said[len(said) % first if first > 1 else 0]] = 0.0
        return logits

    def length(self, slot):
        return len(self.held[slot])

    def truncate(self, slot, length):
        self.held[slot] = self.held[slot][:length]

    def copy(self, source, target, length):
        self.held[target] = self.held[source][:length]


def echo_server(**how):
    """Writer, scheduler (running) and application of a server that repeats what it is told."""
    writer = Writer(None, Bytes(), PLAIN)
    scheduler = Scheduler(Echo(), ids=256, **how)
    scheduler.start()
    return writer, scheduler, make_text_app(writer, scheduler, NAME, KEY)


def ask(app, method="POST", path="/v1/completions", *, body=b"", headers=None, host=None, gone=None, slow=None):
    """One request. gone: the asker goes away after so many parts of the answer; slow: takes only so many"""
    if not isinstance(body, bytes | list):
        body = json.dumps(body).encode()
    lines = [("host", f"127.0.0.1:{PORT}" if host is None else host)]
    lines += [AUTHORIZED, ("content-type", "application/json")] if headers is None else headers
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in lines],
        "server": ("127.0.0.1", PORT),
        "client": ("127.0.0.1", 50000),
    }

    async def run():
        chunks = list(body) if isinstance(body, list) else [body]
        sent, over = [], asyncio.Event()
        if gone == 0:
            over.set()

        async def receive():
            if chunks:
                chunk = chunks.pop(0)
                return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}
            await over.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if slow is not None and len(sent) > slow:
                await asyncio.sleep(3600)
            sent.append(message)
            if gone is not None and len(sent) > gone:
                over.set()

        await app(scope, receive, send)
        return sent

    sent = asyncio.run_coroutine_threadsafe(run(), loop()).result(60)
    if not sent:
        return None
    assert sent[0]["type"] == "http.response.start"
    assert all(each["type"] == "http.response.body" for each in sent[1:])
    return Answer(sent[0]["status"], sent[0]["headers"], b"".join(each.get("body", b"") for each in sent[1:]))


def check_answer(answer, allowed):
    """What every answer must be: an allowed status, all headers, JSON or events; errors in OpenAI's form."""
    assert answer.status in allowed, (answer.status, answer.body[:300])
    for name, value in HEADERS.items():
        assert answer.headers.get(name) == value, (name, answer.status)
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    answer.body.decode("ascii")
    if answer.status != 200:
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"} and error["message"] and error["type"]
    return answer


def events(answer):
    """The JSON of each event of a stream that ended as it should."""
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    parts = answer.body.split(b"\n\n")
    assert parts[-2:] == [b"data: [DONE]", b""]
    return [json.loads(part.removeprefix(b"data: ")) for part in parts[:-2]]

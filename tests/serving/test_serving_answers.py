"""What the server answers: texts, whole or in events, and errors in OpenAI's form; whatever it is sent."""

import json
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from regard.data.chat_template import PLAIN
from regard.errors import RegardError
from regard.serving import openai
from regard.serving.openai import LARGEST
from regard.serving.request_fields import LONGEST_STOP, MOST_STOPS, MOST_TEXTS, NEUTRAL
from tests.serving.asking import AUTHORIZED, KEY, NAME, ask, check_answer, echo_server, events

WAYS = ("/v1/completions", "/v1/chat/completions")
BODY = {"prompt": "abc\x02", "max_tokens": 3}


def told(app, text, **how):
    """The answer to a prompt that is repeated."""
    size = len(text.encode()) + how.pop("more", 0)
    body = {"prompt": text + "\x02", "max_tokens": size, "temperature": 0, **how}
    return check_answer(ask(app, body=body), [200])


# ── texts


@settings(max_examples=40, deadline=None)
@example("a🙂é", "é", True)
@example("👩‍👩‍👧‍👦 ﷽ \u2028\r\n\0", "‍", True)
@given(some.text(min_size=1, max_size=30), some.text(max_size=3), some.booleans())
def test_a_text_arrives_as_it_is(echo, text, stop, stream):
    """Odd characters are never cut, whether whole, in events, or by a stop text."""
    text = text.replace("\x02", "")
    if not text:
        return
    how = {"stop": stop} if stop else {}
    answer = told(echo[1], text, stream=stream, **how)
    wanted, finish = text, "length"
    if stop and stop in text:
        wanted, finish = text[: text.index(stop)], "stop"
    if not stream:
        (choice,) = answer.json()["choices"]
        assert (choice["text"], choice["finish_reason"]) == (wanted, finish)
        return
    found = [event["choices"][0] for event in events(answer)]
    assert "".join(each["text"] for each in found) == wanted
    assert [each["finish_reason"] for each in found if each["finish_reason"]] == [finish]
    for each in found:
        each["text"].encode("utf-8")


def test_many_prompts_and_samples_in_one_request(echo):
    prompts = ["one\x02", "zwei\x02", [104, 105, 2]]
    answer = ask(echo[1], body={"prompt": prompts[:2], "n": 2, "max_tokens": 3})
    found = check_answer(answer, [200]).json()
    assert [(each["index"], each["text"]) for each in found["choices"]] == [
        (0, "one"),
        (1, "one"),
        (2, "zwe"),
        (3, "zwe"),
    ]
    assert found["usage"]["prompt_tokens"] == 4 + 5 and found["usage"]["completion_tokens"] == 12
    assert found["usage"]["total_tokens"] == 21
    ids = ask(echo[1], body={"prompt": prompts[2], "max_tokens": 2}).json()
    assert ids["choices"][0]["text"] == "hi" and ids["object"] == "text_completion"
    assert ids["model"] == NAME and ids["id"].startswith("cmpl-")


def test_a_stream_of_several_texts_with_usage(echo):
    body = {**BODY, "n": 2, "stream": True, "stream_options": {"include_usage": True}}
    found = events(check_answer(ask(echo[1], body=body), [200]))
    assert found[-1]["choices"] == [] and found[-1]["usage"]["completion_tokens"] == 6
    assert all(event["usage"] is None for event in found[:-1])
    texts = ["", ""]
    for event in found[:-1]:
        texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert texts == ["abc", "abc"]
    assert len({event["id"] for event in found}) == 1


def test_a_chat(echo):
    """The template of messages is before the answer; contents may be parts."""
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "you\x02"}]},
    ]
    shown = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello\nyou\x02"}]
    prompt = PLAIN.render(shown)
    period = prompt.index("\x02") + 1
    repeated = "".join(prompt[(len(prompt) + i) % period] for i in range(200))
    for stop, most in ((None, 3), ("brief", 100), (["zzz", "you"], 100)):
        body = {"messages": messages, "max_completion_tokens": most, "stop": stop}
        found = check_answer(ask(echo[1], path=WAYS[1], body=body), [200]).json()
        ends = [
            repeated.index(each) for each in ("<|end|>", "brief", "you") if each == "<|end|>" or each in (stop or ())
        ]
        wanted, finish = repeated[: min(ends)][:most], "stop" if min(ends) < most else "length"
        (choice,) = found["choices"]
        assert choice["message"] == {"role": "assistant", "content": wanted, "refusal": None}
        assert choice["finish_reason"] == finish and found["object"] == "chat.completion"
        streamed = events(ask(echo[1], path=WAYS[1], body={**body, "stream": True}))
        assert {event["object"] for event in streamed} == {"chat.completion.chunk"}
        deltas = [event["choices"][0]["delta"] for event in streamed]
        assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
        assert "".join(delta.get("content", "") for delta in deltas) == wanted
        assert streamed[-1]["choices"][0]["finish_reason"] == finish


def test_log_probabilities(echo):
    answer = told(echo[1], "hé", logprobs=2).json()["choices"][0]["logprobs"]
    assert answer["tokens"] == ["h", "\ufffd", "\ufffd"] and answer["token_logprobs"] == [0.0] * 3
    assert answer["text_offset"] == [0, 1, 1] and answer["top_logprobs"][0]["h"] == 0.0
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "logprobs": True, "top_logprobs": 1}
    content = ask(echo[1], path=WAYS[1], body=body).json()["choices"][0]["logprobs"]["content"]
    assert len(content) == 2 and set(content[0]) == {"token", "logprob", "bytes", "top_logprobs"}
    assert content[0]["top_logprobs"][0]["token"] == content[0]["token"]


def test_a_beginning_that_is_known_is_counted(echo):
    told(echo[1], "the same long beginning")
    usage = told(echo[1], "the same long beginning").json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1 == 23


def test_text_ends_where_the_context_does(echo):
    full = "a" * 4094 + "\x02"
    (choice,) = ask(echo[1], body={"prompt": full, "max_tokens": 100}).json()["choices"]
    assert choice["text"] == "aa" and choice["finish_reason"] == "length"
    answer = check_answer(ask(echo[1], body={"prompt": full + "xx"}), [400]).json()["error"]
    assert answer["code"] == "context_length_exceeded" and "4,097 tokens, and 4,096 fit" in answer["message"]


# ── models and addresses


def test_other_addresses(echo):
    app = echo[1]
    models = check_answer(ask(app, "GET", "/v1/models"), [200]).json()
    assert [each["id"] for each in models["data"]] == [NAME] and models["object"] == "list"
    assert ask(app, "GET", f"/v1/models/{NAME}").json()["id"] == NAME
    for name in ("other", "a/b", "x" * 500, "%00"):
        assert check_answer(ask(app, "GET", f"/v1/models/{name}"), [404]).json()["error"]["param"] == "model"
    assert ask(app, "GET", "/health").json() == {"status": "ok", "running": 0, "waiting": 0}
    for method, path, status in [
        ("GET", "/", 404),
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/completions/", 404),
        ("POST", "/v1/embeddings", 404),
        ("GET", "/v1/../health", 404),
    ]:
        check_answer(ask(app, method, path), [status])


# ── who may ask


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY.upper()}",
        f"Basic {KEY}",
        KEY,
        "Bearer \xe9\xff",
        f"Bearer {KEY}, Bearer {KEY}",
    ],
)
@pytest.mark.parametrize("path", [*WAYS, "/v1/models", "/health", "/nothing"])
def test_without_the_key_nothing_is_told(echo, path, value):
    headers = [("content-type", "application/json")]
    headers += [] if value is None else [("authorization", value)]
    answer = check_answer(ask(echo[1], "GET", path, headers=headers), [401])
    assert answer.json()["error"]["code"] == "invalid_api_key" and answer.headers["www-authenticate"] == "Bearer"
    assert KEY.encode() not in answer.body


def test_two_keys_are_none(echo):
    check_answer(ask(echo[1], "GET", "/v1/models", headers=[AUTHORIZED, AUTHORIZED]), [401])
    check_answer(ask(echo[1], "GET", "/v1/models", headers=[("Authorization", f"bearer {KEY}")]), [200])


@pytest.mark.parametrize(
    "host, extra",
    [
        ("evil.example", []),
        ("127.0.0.1:1", []),
        ("127.0.0.1", []),
        (None, [("origin", "http://evil.example")]),
        (None, [("origin", "null")]),
        (None, [("sec-fetch-site", "cross-site")]),
        (None, [("host", "evil.example")]),
        (None, [("x" * 200, "y" * 100)] * 60),
    ],
)
def test_other_hosts_and_other_sites_are_refused(echo, host, extra):
    answer = ask(echo[1], "GET", "/v1/models", headers=[AUTHORIZED, *extra], host=host)
    check_answer(answer, [403, 431])


# ── bodies that are wrong


def nested(depth):
    return b'{"prompt":' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    "body, status, words",
    [
        (b"", 400, "no JSON"),
        (b"{", 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        (b"[]", 400, "JSON object"),
        (b"3", 400, "JSON object"),
        (b'{"prompt": NaN}', 400, "no JSON number"),
        (b'{"temperature": Infinity}', 400, "no JSON number"),
        (b'{"temperature": 1e999}', 400, "temperature"),
        (b'{"temperature": -1}', 400, "from 0 to 2"),
        (b'{"temperature": true}', 400, "temperature"),
        (b'{"seed": ' + b"9" * 3000 + b"}", 400, "seed must be a whole number"),
        (b'{"seed": ' + b"9" * 9000 + b"}", 400, "no JSON"),
        (b'{"max_tokens": 1' + b"0" * 400 + b"}", 400, "1,329 bits"),
        (b'{"max_tokens": 16.0}', 400, "whole number"),
        (b'{"max_tokens": 0}', 400, "whole number from 1"),
        (b'{"max_tokens": "5"}', 400, "whole number"),
        (b'{"n": 65}', 400, "from 1 to 64"),
        (b'{"n": 33, "prompt": ["a", "b"]}', 400, "more than 64 texts"),
        (b'{"prompt": "\\ud800"}', 400, "half of a character"),
        (b'{"prompt": [300]}', 400, "ids must be 0 to 255"),
        (b'{"prompt": [-1]}', 400, "ids must be 0 to 255"),
        (b'{"prompt": [1, "a"]}', 400, "prompt must be"),
        (b'{"prompt": []}', 400, "prompt must be"),
        (b'{"prompt": {}}', 400, "prompt must be"),
        (b'{"prompt": [true]}', 400, "prompt must be"),
        (b'{"stop": [""]}', 400, "at least 1 long"),
        (b'{"stop": ' + json.dumps(["a"] * (MOST_STOPS + 1)).encode() + b"}", 400, "at most 16 long"),
        (b'{"stop": "' + b"a" * (LONGEST_STOP + 1) + b'"}', 400, "at most 1,000 long"),
        (b'{"stop": "\\udc00"}', 400, "half of a character"),
        (b'{"stream": 1}', 400, "stream must be True or False"),
        (b'{"stream_options": {"include_usage": true}}', 400, "only"),
        (b'{"stream": true, "stream_options": {"x": 1}}', 400, "stream_options.x"),
        (b'{"logprobs": 21}', 400, "from 0 to 20"),
        (b'{"top_p": 1.5}', 400, "from 0 to 1"),
        (b'{"echo": true}', 400, "echo is not supported"),
        (b'{"best_of": 3}', 400, "best_of is not supported"),
        (b'{"tools": [{"type": "function"}]}', 400, "tools is not supported"),
        (b'{"logit_bias": {"1": 5}}', 400, "not supported"),
        (b'{"max_toke": 3}', 400, "did you mean 'max_tokens'"),
        (b'{"model": "gpt-4"}', 404, "use 'echo'"),
        (b'{"model": 7}', 404, "use 'echo'"),
        (nested(100_000), 400, ""),
        (b'{"prompt": "' + b"a" * LARGEST + b'"}', 413, "may have"),
    ],
)
def test_what_is_wrong_is_said(echo, body, status, words):
    answer = check_answer(ask(echo[1], body=body), [status])
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "messages, words",
    [
        (None, "messages is missing"),
        ([], "messages must be a list"),
        ("hello", "messages must be a list"),
        ([3], "messages.0 must be an object"),
        ([{"role": "wizard", "content": "x"}], "system, user, assistant, developer, got 'wizard'"),
        ([{"role": ["user"], "content": "x"}], "messages.0.role must be one of"),
        ([{"role": "user"}], "messages.0.content is missing"),
        ([{"role": "user", "content": []}], "messages.0.content must be text"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            "messages.0.content must be text or a list, each an object",
        ),
    ],
)
def test_what_is_wrong_with_messages_is_said(echo, messages, words):
    answer = check_answer(ask(echo[1], path=WAYS[1], body={"messages": messages}), [400])
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize("wrong", [{"z" * 10**6: 1}, {"stream": True, "stream_options": {"z" * 10**6: 1}}])
def test_a_name_as_long_as_the_body_is_not_sent_back(echo, wrong):
    answer = check_answer(ask(echo[1], body=wrong), [400])
    assert "zzz" in answer.json()["error"]["param"] and len(answer.body) < 2000


def test_what_asks_for_nothing_may_be_there(echo):
    """Clients send fields with the values that they have anyway."""
    for name, values in NEUTRAL.items():
        for value in (None, *values):
            check_answer(ask(echo[1], body={**BODY, name: value}), [200])
    both = {"presence_penalty": 0.0, "frequency_penalty": 0, "user": "me", "metadata": {"a": 1}}
    check_answer(ask(echo[1], body={**BODY, **both}), [200])


@pytest.mark.parametrize("seed", [0, -1, 2**32 - 1, 2**32, -(2**40), 2**63 - 1, -(2**63)])
def test_any_seed_of_64_bits(echo, seed):
    check_answer(ask(echo[1], body={**BODY, "seed": seed}), [200])


def test_without_a_template_there_is_no_chat():
    writer, scheduler, _ = echo_server()
    from dataclasses import replace

    from regard.serving.openai import make_text_app

    app = make_text_app(replace(writer, template=None), scheduler, NAME, KEY)
    answer = check_answer(ask(app, path=WAYS[1], body={"messages": [{"role": "user", "content": "x"}]}), [400])
    assert "ask /v1/completions" in answer.json()["error"]["message"]
    scheduler.close()


ANY = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats()
    | some.text(max_size=5)
    | some.sampled_from([0, 1, 2, 1e308, -1e308, 2**63, -(2**70), "\ud800", "stop", "user"]),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = (
    "model prompt messages max_tokens max_completion_tokens n temperature top_p seed stop stream stream_options "
    "logprobs top_logprobs top_k min_p repetition_penalty user zzz"
)
FIELDS = some.sampled_from([*NAMES.split(), *NEUTRAL])


@settings(max_examples=120, deadline=None)
@given(some.sampled_from(WAYS), some.dictionaries(FIELDS, ANY, max_size=4))
def test_no_body_breaks_it(echo, path, fields):
    """Any JSON in any field: an answer, or an error that says what to do; never a bug."""
    base = {"max_tokens": 2}
    if path == WAYS[1]:
        base["messages"] = [{"role": "user", "content": "hi"}]
    body = json.dumps({**base, **fields}).encode()  # (NaN, too)
    answer = ask(echo[1], path=path, body=body) if b'"n"' not in body else None
    if answer is not None:
        check_answer(answer, [200, 400, 404])


@settings(max_examples=60, deadline=None)
@given(some.binary(max_size=60), some.sampled_from(["application/json", "text/plain", "application/json; x"]))
def test_no_bytes_break_it(echo, body, kind):
    answer = ask(echo[1], body=body, headers=[AUTHORIZED, ("content-type", kind)])
    check_answer(answer, [415] if kind == "text/plain" else [200, 400])


def test_a_body_in_parts_and_a_length_that_lies(echo):
    whole = json.dumps(BODY).encode()
    check_answer(ask(echo[1], body=[whole[:5], b"", whole[5:]]), [200])
    for length in ("99999999", "-1", "abc", "1e3"):
        headers = [AUTHORIZED, ("content-type", "application/json"), ("content-length", length)]
        check_answer(ask(echo[1], body=whole, headers=headers), [413])


# ── askers that go away, and too many of them


def wait_for(scheduler, **wanted):
    for _ in range(500):
        counts = scheduler.snapshot()
        if all(getattr(counts, name) == value for name, value in wanted.items()):
            return
        threading.Event().wait(0.01)
    raise AssertionError(scheduler.snapshot())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("gone", [0, 3])
def test_who_goes_away_frees_the_slots(echo, stream, gone):
    scheduler, app = echo
    if not stream and gone:
        gone = 0
    answer = ask(app, body={"prompt": "ab\x02", "max_tokens": 4000, "n": 3, "stream": stream}, gone=gone)
    assert answer is None or (answer.status == 200 and b"[DONE]" not in answer.body)
    wait_for(scheduler, running=0, waiting=0)
    told(app, "still here")


def test_a_reader_that_takes_nothing_is_left(echo, monkeypatch):
    monkeypatch.setattr(openai, "SEND_SECONDS", 0.05)
    scheduler, app = echo
    answer = ask(app, body={"prompt": "ab\x02", "max_tokens": 4000, "stream": True}, slow=4)
    assert b"[DONE]" not in answer.body
    wait_for(scheduler, running=0)
    told(app, "still here")


def test_too_many_requests_are_told_when_to_come_again():
    _, scheduler, app = echo_server(queue=2)
    answer = check_answer(ask(app, body={**BODY, "n": 3}), [429])
    assert answer.headers["retry-after"] == "2" and answer.json()["error"]["type"] == "rate_limit_error"
    check_answer(ask(app, body={**BODY, "n": 2}), [200])
    scheduler.close()
    check_answer(ask(app, body=BODY), [429])


@pytest.mark.parametrize("stream", [False, True])
def test_what_goes_wrong_while_it_writes_is_told(monkeypatch, stream):
    _, scheduler, app = echo_server()
    monkeypatch.setattr(scheduler.slots, "read", lambda *asked: (_ for _ in ()).throw(RegardError("planted")))
    answer = ask(app, body={**BODY, "stream": stream})
    if stream:
        (event,) = answer.body.split(b"\n\n")[:-1]
        assert json.loads(event.removeprefix(b"data: "))["error"]["message"] == "planted"
    else:
        assert check_answer(answer, [500]).json()["error"]["message"] == "planted"
    scheduler.close()


@pytest.mark.parametrize("stream", [False, True])
def test_the_end_is_told_to_those_who_wait(monkeypatch, stream):
    _, scheduler, app = echo_server()
    read, steps = scheduler.slots.read, []

    def last(*asked):
        steps.append(1)
        if len(steps) == 5:
            scheduler.stop()
        return read(*asked)

    monkeypatch.setattr(scheduler.slots, "read", last)
    answer = ask(app, body={"prompt": "ab\x02", "max_tokens": 4000, "stream": stream})
    assert b"the server is ending" in answer.body and b"[DONE]" not in answer.body
    check_answer(answer, [200 if stream else 503])
    scheduler.close()
    assert len(steps) == 5


def test_a_bug_is_said_and_the_server_stays_up(monkeypatch, capsys):
    _, scheduler, app = echo_server()
    monkeypatch.setattr("regard.serving.openai.Exchange", lambda *asked: 1 / 0)
    check_answer(ask(app, body=BODY), [500])
    monkeypatch.undo()
    check_answer(ask(app, body=BODY), [200])
    scheduler.close()


def test_limits_are_what_the_docs_say():
    assert (MOST_TEXTS, MOST_STOPS, LARGEST) == (64, 16, 4 * 2**20)

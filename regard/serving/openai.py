"""A server of texts with the addresses of OpenAI's API, for one user of this machine.

    POST /v1/completions        POST /v1/chat/completions        GET /v1/models        GET /health

Every request needs the key, as a Bearer token. Texts come from the scheduler, whole or as events, for as long as somebody
listens.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.generation import request as generation
from regard.generation.request import Piece, Token
from regard.generation.scheduler import Busy, Scheduler
from regard.generation.writer import Writer
from regard.serving.guard import (
    ASGIApp,
    HTTPException,
    Request,
    Response,
    Route,
    Scope,
    make_app,
    make_server,
    only_header,
    read_json,
    run_in_threadpool,
)
from regard.serving.request_fields import ApiError, Asked, Reader, read_chat, read_completion

if TYPE_CHECKING:
    from starlette.types import Receive, Send

LARGEST = 4 * 2**20  # bytes of a request
POLICY = "default-src 'none'"  # nothing here is a page
ASK_FOR_KEY = "send the key that `regard serve` printed: -H 'Authorization: Bearer KEY'"
WORDS = {
    404: "there is nothing at this address; there are /v1/completions, /v1/chat/completions and /v1/models",
    405: "this address is asked with another method: texts with POST, models with GET",
}
RETRY_SECONDS = 2
LAST_SECONDS = 2.0  # for texts that are being written when the server ends; uvicorn waits for three
SEND_SECONDS = 60.0  # in which a reader has to take what was sent
JSON, EVENTS = b"application/json", b"text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def make_text_app(writer: Writer, scheduler: Scheduler, name: str, key: str) -> ASGIApp:
    """The application. name: of the model, as clients call it; key: without it nobody may ask"""
    began = int(time.time())
    context = scheduler.slots.capacity

    def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        return Response(to_bytes(data), status, headers, media_type="application/json")

    async def write(request: Request, reader: Reader) -> Any:
        """The texts that a body asks for, or what is wrong with it."""
        try:
            sent = await read_json(request, LARGEST)
            asked = await run_in_threadpool(reader, sent, writer, context, name)
            return Exchange(asked, writer, scheduler, name)
        except Busy as error:
            busy = error_json(429, str(error), code="rate_limit_exceeded")
            return answer(busy, 429, {"Retry-After": str(RETRY_SECONDS)})
        except ApiError as error:
            return answer(error_json(error.status, str(error), error.option, error.code), error.status)
        except RegardError as error:
            return answer(error_json(400, str(error), error.option), 400)
        except (ValueError, RecursionError) as error:
            words = " ".join(str(error).split())[:200]
            raise HTTPException(400, f"the body is no JSON that can be read: {words}") from error

    async def completions(request: Request) -> Any:
        return await write(request, read_completion)

    async def chat(request: Request) -> Any:
        return await write(request, read_chat)

    model = {"id": name, "object": "model", "created": began, "owned_by": "regard", "context": context}

    async def models(request: Request) -> Response:
        return answer({"object": "list", "data": [model]})

    async def one_model(request: Request) -> Response:
        asked = request.path_params["name"]
        if asked == name:
            return answer(model)
        words = f"there is no model {asked[:60]!r} here; use {name!r}"
        return answer(error_json(404, words, "model", "model_not_found"), 404)

    async def health(request: Request) -> Response:
        counts = scheduler.snapshot()
        return answer({"status": "ok", "running": counts.running, "waiting": counts.waiting})

    routes = [
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{name:path}", one_model, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
    ]

    def find_refusal(scope: Scope) -> tuple[int, str] | None:
        return None if _has_key(scope, key) else (401, ASK_FOR_KEY)

    def say(status: int, why: str) -> Any:
        return error_json(status, WORDS.get(status, why))

    return make_app(routes, POLICY, find_refusal, say)


def make_text_server(writer: Writer, scheduler: Scheduler, name: str, key: str) -> Any:
    """A uvicorn server of texts; `run(sockets=[...])` serves. When it is told to end, texts have some seconds; who
    waits longer is told that the server is ending."""
    server = make_server(make_text_app(writer, scheduler, name, key), POLICY)
    shut_down = server.shutdown

    async def end(sockets: Any = None) -> None:
        asyncio.get_running_loop().call_later(LAST_SECONDS, scheduler.stop)
        await shut_down(sockets)

    server.shutdown = end
    return server


def _has_key(scope: Scope, key: str) -> bool:
    """Does the request have the key, once? Compared in the same time whatever is wrong with it."""
    given = only_header(scope, "authorization", "") or ""
    scheme, _, token = given.partition(" ")
    same = hmac.compare_digest(token.strip().encode("utf-8"), key.encode("utf-8"))
    return scheme.lower() == "bearer" and same


# ── one request and its answer


class Exchange:
    """An answer that is being written, as an ASGI application. It ends when the asker goes away.

    It is made, and its requests are submitted, in the loop of the server.
    """

    def __init__(self, asked: Asked, writer: Writer, scheduler: Scheduler, name: str) -> None:
        self.asked, self.scheduler = asked, scheduler
        self.replies = Replies(asked, writer, name)
        self.pieces: asyncio.Queue[tuple[int, Piece]] = asyncio.Queue()
        self.requests = _make_requests(asked, writer, self.pieces)
        scheduler.submit(self.requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._send_events if self.asked.stream else self._send_whole
        writing = asyncio.create_task(answer(send))
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({writing, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.scheduler.cancel([request for request in self.requests if request.finish is None])
            for task in (writing, gone):
                task.cancel()
            found = await asyncio.gather(writing, gone, return_exceptions=True)
        # (a reader that is too slow has gone, too)
        if isinstance(found[0], Exception) and not isinstance(found[0], TimeoutError | OSError):
            raise found[0]

    async def _send_whole(self, send: Send) -> None:
        texts: list[list[Piece]] = [[] for _ in self.requests]
        status, said = 200, None
        async for index, piece in self._each():
            texts[index].append(piece)
            problem = _problem(piece)
            if problem is not None:
                status, said = problem
                break
        body = to_bytes(self.replies.whole(texts, self.requests) if said is None else said)
        await _begin(send, status, JSON, len(body))
        await _send_part(send, body, more=False)

    async def _send_events(self, send: Send) -> None:
        await _begin(send, 200, EVENTS)
        for index in range(len(self.requests)):
            await _send_part(send, self.replies.first(index))
        async for index, piece in self._each():
            problem = _problem(piece)
            if problem is not None:
                await _send_part(send, event(problem[1]), more=False)
                return
            await _send_part(send, self.replies.piece(index, piece))
        await _send_part(send, self.replies.last(self.requests), more=False)

    async def _each(self) -> AsyncIterator[tuple[int, Piece]]:
        """Pieces as they come, until every text has ended."""
        left = len(self.requests)
        while left:
            index, piece = await self.pieces.get()
            left -= piece.finish is not None
            yield index, piece


def _make_requests(asked: Asked, writer: Writer, pieces: asyncio.Queue[tuple[int, Piece]]) -> list[generation.Request]:
    """A request to the scheduler for each text."""
    loop = asyncio.get_running_loop()
    found: list[generation.Request] = []

    def teller(index: int) -> Any:
        def tell(piece: Piece) -> None:
            if not loop.is_closed():  # as it is when the server has ended
                loop.call_soon_threadsafe(pieces.put_nowait, (index, piece))

        return tell

    for prompt, follows, sampling in zip(asked.prompts, asked.follows, asked.samplings, strict=True):
        for number in range(asked.n):
            stream = writer.stream(prompt[-1] if follows else None)
            tell = teller(len(found))
            found.append(generation.Request(prompt, sampling, stream, tell, number=number, logprobs=asked.logprobs))
    return found


def _problem(piece: Piece) -> tuple[int, Any] | None:
    """Status and JSON, if a text did not end as it should."""
    if piece.finish == "error":
        return 500, error_json(500, piece.error or "this text could not be written")
    if piece.finish == "cancelled":
        return 503, error_json(503, "the server is ending")
    return None


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _begin(send: Send, status: int, kind: bytes, length: int | None = None) -> None:
    headers: Sequence[tuple[bytes, bytes]] = [(b"content-type", kind)]
    if length is not None:
        headers = [*headers, (b"content-length", str(length).encode("ascii"))]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send_part(send: Send, body: bytes, more: bool = True) -> None:
    if body or not more:
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": body, "more_body": more})


# ── the JSON of it


def error_json(status: int, message: str, param: str | None = None, code: str | None = None) -> Any:
    """An error in the form that clients of OpenAI's API read. The name of a field may be as long as the body."""
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    if status == 401:
        code = "invalid_api_key"
    return {"error": {"message": message, "type": kind, "param": param and param[:100], "code": code}}


class Replies:
    """The answers to one request. `asked` says which form they have."""

    def __init__(self, asked: Asked, writer: Writer, name: str) -> None:
        self.asked, self.writer = asked, writer
        self.offsets: dict[int, int] = {}  # characters of each choice that were sent
        self.head: dict[str, Any] = {
            "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{secrets.token_hex(12)}",
            "object": self._object(),
            "created": int(time.time()),
            "model": name,
        }

    def _object(self) -> str:
        if not self.asked.chat:
            return "text_completion"
        return "chat.completion.chunk" if self.asked.stream else "chat.completion"

    def whole(self, pieces: Sequence[Sequence[Piece]], requests: Sequence[generation.Request]) -> dict[str, Any]:
        """All texts: for each choice its pieces."""
        choices = []
        for index, parts in enumerate(pieces):
            text = "".join(part.text for part in parts)
            tokens = [token for part in parts for token in part.tokens]
            said: dict[str, Any] = {"text": text}
            if self.asked.chat:
                said = {"message": {"role": "assistant", "content": text, "refusal": None}}
            choices.append(
                {"index": index, **said, "logprobs": self._logprobs(index, tokens), "finish_reason": parts[-1].finish}
            )
        return {**self.head, "choices": choices, "usage": self.usage(requests)}

    def first(self, index: int) -> bytes:
        """The event that begins an answer; a completion needs none."""
        if not self.asked.chat:
            return b""
        delta = {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return self._event([{"index": index, **delta}])

    def piece(self, index: int, piece: Piece) -> bytes:
        """The events of a piece."""
        logprobs = self._logprobs(index, piece.tokens)
        if not self.asked.chat:
            said = {"text": piece.text, "logprobs": logprobs, "finish_reason": piece.finish}
            return self._event([{"index": index, **said}])
        found = b""
        if piece.text or piece.tokens:
            delta = {"delta": {"content": piece.text}, "logprobs": logprobs, "finish_reason": None}
            found = self._event([{"index": index, **delta}])
        if piece.finish is not None:
            end: dict[str, Any] = {"delta": {}, "logprobs": None, "finish_reason": piece.finish}
            found += self._event([{"index": index, **end}])
        return found

    def last(self, requests: Sequence[generation.Request]) -> bytes:
        """The end of a stream."""
        if not self.asked.usage:
            return DONE
        return event({**self.head, "choices": [], "usage": self.usage(requests)}) + DONE

    def usage(self, requests: Sequence[generation.Request]) -> dict[str, Any]:
        """Tokens read and written. A prompt counts once, however many texts follow it."""
        read = sum(map(len, self.asked.prompts))
        written = sum(request.written for request in requests)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": sum(request.reused for request in requests[:: self.asked.n])},
        }

    def _event(self, choices: list[dict[str, Any]]) -> bytes:
        data = {**self.head, "choices": choices}
        return event(data | {"usage": None} if self.asked.usage else data)

    def _logprobs(self, index: int, tokens: Sequence[Token]) -> dict[str, Any] | None:
        if self.asked.logprobs is None:
            return None
        if self.asked.chat:
            return {"content": [self._of_chat(token) for token in tokens], "refusal": None}
        offsets = []
        at = self.offsets.get(index, 0)
        for token in tokens:
            offsets.append(at)
            at += len(token.text)
        self.offsets[index] = at
        return {
            "tokens": [self._text(token.id) for token in tokens],
            "token_logprobs": [_finite(token.logp) for token in tokens],
            "top_logprobs": [{self._text(id): _finite(p) for id, p in token.best} for token in tokens],
            "text_offset": offsets,
        }

    def _of_chat(self, token: Token) -> dict[str, Any]:
        best = [self._one(id, logp) for id, logp in token.best]
        return {**self._one(token.id, token.logp), "top_logprobs": best}

    def _one(self, id: int, logp: float | None) -> dict[str, Any]:
        text = self._text(id)
        return {"token": text, "logprob": _finite(logp), "bytes": list(text.encode("utf-8"))}

    def _text(self, id: int) -> str:
        return str(self.writer.tokenizer.decode([id]))


def _finite(logp: float | None) -> float:
    """JSON has no infinity; this is what stands for a token that cannot come."""
    return max(logp or 0.0, -9999.0)


def event(data: Any) -> bytes:
    """One server-sent event: ASCII, so no character can be cut."""
    return b"data: " + to_bytes(data) + b"\n\n"


def to_bytes(data: Any) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")

"""One request and its answer: texts from the scheduler, whole or as events, for as long as somebody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from regard.generation.request import Piece, Request
from regard.generation.scheduler import Scheduler
from regard.generation.writer import Writer
from regard.serving.api_error import error_json
from regard.serving.replies import Replies, event, to_bytes
from regard.serving.request_fields import Asked

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

SEND_SECONDS = 60.0  # in which a reader has to take what was sent
JSON, EVENTS = b"application/json", b"text/event-stream; charset=utf-8"


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


def _make_requests(asked: Asked, writer: Writer, pieces: asyncio.Queue[tuple[int, Piece]]) -> list[Request]:
    """A request to the scheduler for each text."""
    loop = asyncio.get_running_loop()
    found: list[Request] = []

    def teller(index: int) -> Any:
        def tell(piece: Piece) -> None:
            if not loop.is_closed():  # as it is when the server has ended
                loop.call_soon_threadsafe(pieces.put_nowait, (index, piece))

        return tell

    for prompt, follows, sampling in zip(asked.prompts, asked.follows, asked.samplings, strict=True):
        for number in range(asked.n):
            stream = writer.stream(prompt[-1] if follows else None)
            tell = teller(len(found))
            found.append(Request(prompt, sampling, stream, tell, number=number, logprobs=asked.logprobs))
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

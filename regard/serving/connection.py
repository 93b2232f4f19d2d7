"""One connection of the server: its headers come soon and are short, and there are not too many of them.

What cannot be read as HTTP is answered here, before the application hears of it, with the headers of every
other answer.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0  # in which the headers of a request have to come
CONNECTIONS = 64  # at once


def connection_class(lines: list[tuple[bytes, bytes]]) -> type[H11Protocol]:
    """The connections of a server whose answers have these headers."""

    class Connection(H11Protocol):
        """HTTP/1.1 with limits."""

        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > CONNECTIONS:
                self.end_with(503, f"more than {CONNECTIONS} connections at once")
            else:
                self.set_deadline()

        def connection_lost(self, exc: Exception | None) -> None:
            self.clear_deadline()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.set_deadline()
            else:
                self.clear_deadline()

        def set_deadline(self) -> None:
            """From the first byte on, or from the beginning of the connection; more bytes do not put it
            off."""
            if self.deadline is None:
                self.deadline = self.loop.call_later(HEADER_SECONDS, self.too_late)

        def clear_deadline(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

        def too_late(self) -> None:
            self.deadline = None
            self.end_with(408, f"no request came in {HEADER_SECONDS:.0f} seconds")

        def send_400_response(self, msg: str) -> None:
            too_long = len(self.conn.trailing_data[0]) > (self.config.h11_max_incomplete_event_size or 0)
            self.end_with(431 if too_long else 400, msg)

        def end_with(self, status: int, why: str) -> None:
            """An answer to no request, and the end."""
            if self.transport.is_closing():
                return
            body = f"{why}\n".encode("ascii", "replace")
            own = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Connection", b"close")]
            own.append((b"Content-Length", str(len(body)).encode("ascii")))
            phrase = HTTPStatus(status).phrase.encode("ascii")
            if self.conn.our_state is h11.IDLE:  # else the answer to an earlier request is under way
                response = h11.Response(status_code=status, headers=[*own, *lines], reason=phrase)
                for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    return Connection

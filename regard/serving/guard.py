"""What the servers of regard have in common: who may ask, how much and how long, and what every answer says about itself.

127.0.0.1 is shared by all users of a machine, and by all pages in a browser. So a request needs a secret that
was printed where the server was started, names this very host and port, and comes from no other site. Whatever is
answered, errors too, is JSON or what was asked for, and carries the same headers.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from regard.errors import RegardError

try:
    import h11
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.datastructures import Headers
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    needed = "a server needs starlette and uvicorn; install them with: pip install 'regard[look]'"
    raise RegardError(needed) from error

# what the servers need of Starlette: they take it from here, where somebody is told that it is missing
__all__ = ["ASGIApp", "HTTPException", "Request", "Response", "Route", "Scope", "run_in_threadpool"]

NAMES = ("127.0.0.1", "localhost")  # of this machine
HEADER_SECONDS = 10.0  # in which the headers of a request have to come
CONNECTIONS = 64  # at once
BODY_SECONDS = 60.0  # in which the whole body of a request has to come
HEADER_BYTES = 16 * 2**10  # of one request
FIELDS = 8  # of a query, at most
NUMBER = re.compile(r"[0-9]{1,9}")  # in an address or a header
HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
}
FindRefusal = Callable[[Scope], tuple[int, str] | None]
Say = Callable[[int, str], Any]  # the JSON of an error: its status, and why


def say_plainly(status: int, why: str) -> Any:
    return {"error": " ".join(why.split()) or "this cannot be read"}


def make_app(routes: Sequence[Route], policy: str, find_refusal: FindRefusal, say: Say = say_plainly) -> ASGIApp:
    """The routes behind the guard.

    policy        of the content; that no page may frame this one can be said in a header only
    find_refusal  status and reason for a request that may not be answered, such as one without the secret
    """
    lines = headers_with(policy)
    close = {"connection": "close"}  # what else was sent is not read

    def answer(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
        body = json.dumps(say(status, why), allow_nan=False)
        return Response(body, status, headers, media_type="application/json")

    async def explain(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return answer(error.status_code, error.detail)
        return answer(500, _bug_in_words(error))

    inner = Starlette(routes=routes, exception_handlers={HTTPException: explain, Exception: explain})
    inner.router.redirect_slashes = False  # an address is right or wrong

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # nothing else is spoken here, such as WebSockets
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", ()), *lines]}
            await send(message)

        refusal = _too_long(scope) or _from_elsewhere(scope) or find_refusal(scope)
        if refusal is not None:
            own = close | {"www-authenticate": "Bearer"} if refusal[0] == 401 else close
            await answer(*refusal, own)(scope, receive, send_with_headers)
            return
        try:
            await inner(scope, receive, send_with_headers)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a bug or a panic: the server stays up, and its owner is told
            sys.stderr.write(f"regard: {_bug_in_words(error)}\n")
            if not started:
                await answer(500, _bug_in_words(error), close)(scope, receive, send_with_headers)

    return guarded


def headers_with(policy: str) -> list[tuple[bytes, bytes]]:
    """The headers of every answer."""
    all_of_them = HEADERS | {"content-security-policy": f"{policy}; frame-ancestors 'none'"}
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in all_of_them.items()]


def _bug_in_words(error: BaseException) -> str:
    """What nobody but us can mend, in one line."""
    words = " ".join(str(error).split())[:200]
    return f"this is a bug in regard: {type(error).__name__}{words and f': {words}'}; please report it"


# ── who may ask, and how much


def ask_for_token(token: str) -> FindRefusal:
    """The refusal of requests whose address does not have the token once. It is compared in the same time whatever is
    wrong with it."""

    def find_refusal(scope: Scope) -> tuple[int, str] | None:
        try:
            fields = parse_qsl(scope.get("query_string", b""), keep_blank_values=True, max_num_fields=FIELDS)
        except ValueError:
            fields = []
        given = [value for name, value in fields if name == b"token"]
        if len(given) == 1 and hmac.compare_digest(given[0], token.encode("ascii")):
            return None
        return 403, "open the address that regard printed, with its token; without it nobody may ask"

    return find_refusal


def only_header(scope: Scope, name: str, missing: str | None = None) -> str | None:
    """The value of a header that is there once; None if it is there more often."""
    found = Headers(scope=scope).getlist(name)
    if not found:
        return missing
    return found[0] if len(found) == 1 else None


def _too_long(scope: Scope) -> tuple[int, str] | None:
    """The refusal of a request whose address and headers have too many bytes."""
    size = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return (431, f"the headers of a request may have {HEADER_BYTES:,} bytes") if size > HEADER_BYTES else None


def _from_elsewhere(scope: Scope) -> tuple[int, str] | None:
    """The refusal of a request that names another host, or that a page of another site makes."""
    port = (scope.get("server") or (None, None))[1]
    hosts = {f"{name}:{port}" for name in NAMES}
    if port == 80:  # the usual port, which browsers do not write
        hosts.update(NAMES)
    host = only_header(scope, "host")
    if host not in hosts:
        return 403, "this server answers to its own address only"
    origin, site = only_header(scope, "origin", ""), only_header(scope, "sec-fetch-site", "none")
    if origin not in ("", f"http://{host}") or site not in ("none", "same-origin"):
        return 403, "another site may not ask; type the address, or copy it"
    return None


async def read_json(request: Request, largest: int) -> Any:
    """The JSON that was sent, of at most so many bytes, whatever the header says. Raise ValueError or RecursionError for
    what is none."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "send application/json")
    too_large = HTTPException(413, f"a request may have {largest:,} bytes")
    declared = request.headers.get("content-length", "0")
    if NUMBER.fullmatch(declared) is None or int(declared) > largest:
        raise too_large
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                found += chunk
                if len(found) > largest:
                    raise too_large
    except TimeoutError as error:
        why = f"the whole of a request has to come within {BODY_SECONDS:.0f} seconds"
        raise HTTPException(408, why) from error
    return await run_in_threadpool(json.loads, bytes(found), parse_constant=_no_constant)


def _no_constant(text: str) -> Any:
    raise RegardError(f"{text} is no JSON number")


# ── connections: headers come soon and are short, and there are not too many of them


def connection_class(lines: list[tuple[bytes, bytes]]) -> type[H11Protocol]:
    """The connections of a server whose answers have these headers. What cannot be read as HTTP is answered here, before
    the application hears of it."""

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


# ── serving


def new_token() -> str:
    """A secret word for one server: 256 random bits."""
    return secrets.token_urlsafe(32)


def listen(port: int | None) -> socket.socket:
    """A socket on 127.0.0.1; without a port, any free one is taken."""
    # asyncio lets small answers go at once only where the protocol is named; else they wait for 40 ms
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", 0 if port is None else port))
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or "ports are numbered 0 to 65535"
        raise RegardError(f"port {port} cannot be used: {why}; choose another with --port") from error
    listening.listen(128)  # who comes before the server is up waits
    return listening


def make_server(application: ASGIApp, policy: str) -> Any:
    """A uvicorn server with the limits; `run(sockets=[...])` serves."""
    config = uvicorn.Config(
        application,
        http=connection_class(headers_with(policy)),
        ws="none",
        lifespan="off",
        log_level="critical",  # what goes wrong is said by the guard, in one line
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)


def serve_page(make: Callable[[str], Any], port: int | None, ready: Callable[[str], None] | None) -> None:
    """Serve until Ctrl-C what `make` makes of a token, when the port is ours. `ready` is told the address, with the token,
    once it answers: whoever has it may ask."""
    with listen(port) as listening:
        token = new_token()
        server = make(token)
        if ready is not None:
            ready(f"http://127.0.0.1:{listening.getsockname()[1]}/?token={token}")
        server.run(sockets=[listening])

"""Who may ask the server, and what every answer says about itself.

127.0.0.1 is shared by all users of a machine, and by all pages in a browser. So a request needs a secret that
was printed where the server was started, names this very host and port, and comes from no other site. Whatever is
answered, errors too, carries the same headers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

NAMES = ("127.0.0.1", "localhost")  # of this machine
BODY_SECONDS = 60.0  # in which the whole body of a request has to come
HEADER_BYTES = 16 * 2**10  # of one request
TOO_SLOW = f"the whole of a request has to come within {BODY_SECONDS:.0f} seconds"
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def headers_with(policy: str) -> dict[str, str]:
    """The headers of every answer. That no page may frame this one can be said in a header only."""
    return HEADERS | {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"}


def say_plainly(status: int, why: str) -> Any:
    """What is answered to who is refused, as JSON."""
    return {"error": why}


def guard(
    inner: Application,
    headers: Mapping[str, str],
    find_refusal: Callable[[Scope], tuple[int, str] | None],
    say: Callable[[int, str], Any] = say_plainly,
) -> Application:
    """The application behind the guard.

    find_refusal  status and reason for a request that may not be answered, such as one without the secret
    say           the JSON of a refusal
    """
    lines = as_bytes(headers)

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

        if _length(scope) > HEADER_BYTES:
            why = f"the headers of a request may have {HEADER_BYTES:,} bytes"
            await _refuse(send_with_headers, 431, say(431, why))
            return
        refusal = _from_elsewhere(scope) or find_refusal(scope)
        if refusal is not None:
            await _refuse(send_with_headers, refusal[0], say(*refusal))
            return
        try:
            await inner(scope, in_time(receive), send_with_headers)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except (
            BaseException
        ) as error:  # a bug (a panic of a library too): the server stays up, its owner is told
            sys.stderr.write(f"regard: {bug_in_words(error)}\n")
            if not started:
                await _refuse(send_with_headers, 500, say(500, bug_in_words(error)))

    return guarded


def bug_in_words(error: BaseException) -> str:
    """What nobody but us can mend, in one line."""
    words = " ".join(str(error).split())[:200]
    what = f"{type(error).__name__}{words and f': {words}'}"
    return f"this is a bug in regard: {what}; please report it"


def _from_elsewhere(scope: Scope) -> tuple[int, str] | None:
    """The refusal of a request that names another host, or that a page of another site makes."""
    host = only_header(scope, b"host")
    if host is None or host not in _hosts(scope):
        return 403, "this server answers to its own address only"
    origin, site = only_header(scope, b"origin", ""), only_header(scope, b"sec-fetch-site", "none")
    if origin not in ("", f"http://{host}") or site not in ("none", "same-origin"):
        return 403, "another site may not ask; type the address, or copy it"
    return None


def _length(scope: Scope) -> int:
    """Bytes of the address and of the headers."""
    address = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    return address + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def only_header(scope: Scope, name: bytes, missing: str | None = None) -> str | None:
    """The value of a header that is there once; None if it is there more often."""
    found = [value.decode("latin-1") for each, value in scope["headers"] if each.lower() == name]
    if not found:
        return missing
    if len(found) > 1:
        return None
    return found[0]


def _hosts(scope: Scope) -> set[str]:
    """How a browser writes the host of this server: with the port, unless that is the usual one."""
    port = (scope.get("server") or (None, None))[1]
    found = {f"{name}:{port}" for name in NAMES}
    if port == 80:
        found.update(NAMES)
    return found


def in_time(receive: Receive) -> Receive:
    """The parts of a request, for as long as it may take in all. What comes after its end, such as that the
    asker has gone, has time."""
    left, whole = BODY_SECONDS, False

    async def received() -> Message:
        nonlocal left, whole
        if whole:
            return await receive()
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(max(0.0, left)):
            message = await receive()
        left -= loop.time() - began
        whole = not message.get("more_body", False)
        return message

    return received


async def _refuse(send: Send, status: int, said: Any) -> None:
    """One line, and the end of the connection: what else was sent is not read."""
    body = json.dumps(said, allow_nan=False).encode("ascii")
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode("ascii")))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def as_bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as a protocol writes them."""
    return [(name.lower().encode("ascii"), value.encode("ascii")) for name, value in headers.items()]

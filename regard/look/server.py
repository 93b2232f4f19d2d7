"""The page, served to one user of this machine: on 127.0.0.1, behind a token in its address, its own files,
small requests."""

from __future__ import annotations

import json
import re
import secrets
import socket
from collections.abc import Callable
from typing import Any

from regard.errors import RegardError
from regard.look import page
from regard.look.guard import (
    HEADER_BYTES,
    TOO_SLOW,
    Application,
    bug_in_words,
    guard,
    headers_with,
)
from regard.look.reader import LARGEST_FILE
from regard.look.session import Session

LARGEST = LARGEST_FILE * 4 // 3 + 2**20  # bytes of a request: a file in base64, and a text beside it
NUMBER = re.compile(r"[0-9]{1,9}")  # of a layer or a head in an address
NEEDED = "a live page needs starlette and uvicorn; install them with: pip install 'regard[look]'"
NUMBERS = ("record", "layer", "call", "head", "window")


class TooLarge(RegardError):
    """A request with more bytes than are read."""


def new_token() -> str:
    """A secret word for one server: 256 random bits."""
    return secrets.token_urlsafe(32)


def app(session: Session, token: str) -> Application:
    """The application: the page, new data for it, and full weights. Each request needs the token."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError as error:
        raise RegardError(NEEDED) from error

    def answer(data: Any, status: int = 200) -> Response:
        return Response(page.encode(page.to_json(data)), status, media_type="application/json")

    def refused(message: str, status: int) -> Response:
        return answer({"error": " ".join(message.split()) or "this cannot be read"}, status)

    async def body(request: Request) -> bytes:
        """At most so many bytes, whatever the header says."""
        found = bytearray()
        declared = request.headers.get("content-length", "0")
        if NUMBER.fullmatch(declared) is None or int(declared) > LARGEST:
            raise TooLarge(f"a request may have {LARGEST:,} bytes")
        async for chunk in request.stream():
            found += chunk
            if len(found) > LARGEST:
                raise TooLarge(f"a request may have {LARGEST:,} bytes")
        return bytes(found)

    async def start(request: Request) -> Response:
        try:
            text = await run_in_threadpool(lambda: page.html(session.show({}), session.files))
        except (ValueError, OSError) as error:  # data that were there when the server began
            return refused(str(error), 400)
        return Response(page.encode(text), media_type="text/html; charset=utf-8")

    async def answered(request: Request, act: Callable[[dict[str, Any]], dict[str, Any]]) -> Response:
        """What `act` makes of the object that was sent."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return refused("send application/json", 415)
        try:
            sent = await body(request)
        except TooLarge as error:
            return refused(str(error), 413)
        try:
            asked = json.loads(sent, parse_constant=_no_constant)
            if not isinstance(asked, dict):
                raise RegardError("send an object with what is to change, such as text, file or silence")
            data = await run_in_threadpool(act, asked)
        except (ValueError, OSError, RecursionError) as error:
            return refused(str(error), 400)
        return answer(data)

    async def look(request: Request) -> Response:
        return await answered(request, session.show)

    async def region(request: Request) -> Response:
        return await answered(request, session.region)

    async def ask(request: Request) -> Response:
        return await answered(request, session.ask)

    async def weights(request: Request) -> Response:
        asked = [request.path_params[name] for name in NUMBERS]
        if not all(NUMBER.fullmatch(each) for each in asked):
            return refused("layers and heads are numbered 0, 1, 2 …", 404)
        try:
            found = await run_in_threadpool(session.weights, *map(int, asked))
        except ValueError as error:
            return refused(str(error), 404)
        return Response(found, media_type="application/octet-stream")

    async def other(request: Request, error: Exception) -> Response:
        """What the router says: not found, not allowed."""
        return refused(str(getattr(error, "detail", error)), getattr(error, "status_code", 400))

    async def late(request: Request, error: Exception) -> Response:
        return refused(TOO_SLOW, 408)

    async def bug(request: Request, error: Exception) -> Response:
        return refused(bug_in_words(error), 500)

    routes = [
        Route("/", start, methods=["GET"]),
        Route("/api/look", look, methods=["POST"]),
        Route("/api/region", region, methods=["POST"]),
        Route("/api/ask", ask, methods=["POST"]),
        Route("/api/weights/" + "/".join(f"{{{name}}}" for name in NUMBERS), weights, methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {404: other, 405: other, TimeoutError: late, Exception: bug}
    inner = Starlette(routes=routes, exception_handlers=handlers)
    inner.router.redirect_slashes = False  # an address is right or wrong
    return guard(inner, token, answer_headers(session))


def answer_headers(session: Session) -> dict[str, str]:
    """The headers of every answer about this session."""
    return headers_with(page.policy(session.files, live=True))


def _no_constant(text: str) -> Any:
    raise RegardError(f"{text} is no JSON number")


def server(session: Session, token: str) -> Any:
    """A uvicorn server with the limits of connections, times and sizes; `run(sockets=[...])` serves."""
    return configure(app(session, token), answer_headers(session))


def configure(application: Application, headers: dict[str, str]) -> Any:
    """A uvicorn server of any application behind the guard."""
    try:
        import uvicorn

        from regard.look.connection import connection_class
    except ImportError as error:
        raise RegardError(NEEDED) from error

    config = uvicorn.Config(
        application,
        http=connection_class(headers),
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


def listen(port: int | None) -> socket.socket:
    """A socket on 127.0.0.1; without a port, any free one is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", 0 if port is None else port))
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or "ports are numbered 0 to 65535"
        raise RegardError(f"port {port} cannot be used: {why}; choose another with --port") from error
    listening.listen(128)  # who comes before the server is up waits
    return listening


def address_of(listening: socket.socket, token: str) -> str:
    """What to open: whoever has it may ask."""
    return f"http://127.0.0.1:{listening.getsockname()[1]}/?token={token}"


def serve(session: Session, *, port: int | None = None, ready: Callable[[str], None] | None = None) -> None:
    """Serve until Ctrl-C. `ready` is told the address, with its token, once it answers."""
    with listen(port) as listening:
        token = new_token()
        serving = server(session, token)
        if ready is not None:
            ready(address_of(listening, token))
        serving.run(sockets=[listening])

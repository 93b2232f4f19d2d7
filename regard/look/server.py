"""The page, served to one user of this machine: on 127.0.0.1, behind a token in its address, its own files,
small requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.errors import RegardError
from regard.look import page
from regard.look.reader import LARGEST_FILE
from regard.look.session import Session
from regard.serving.address import address_of, ask_for_token
from regard.serving.guard import TOO_SLOW, Application, bug_in_words, guard, headers_with
from regard.serving.http import NEEDED, NUMBER, TooLarge, listen, make_server, new_token, parse, read_body

LARGEST = LARGEST_FILE * 4 // 3 + 2**20  # bytes of a request: a file in base64, and a text beside it
NUMBERS = ("record", "layer", "call", "head", "window")


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
            sent = await read_body(request, LARGEST)
        except TooLarge as error:
            return refused(str(error), 413)
        try:
            asked = parse(sent)
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
    return guard(inner, answer_headers(session), ask_for_token(token))


def answer_headers(session: Session) -> dict[str, str]:
    """The headers of every answer about this session."""
    return headers_with(page.policy(session.files, live=True))


def server(session: Session, token: str) -> Any:
    """A uvicorn server of the page; `run(sockets=[...])` serves."""
    return make_server(app(session, token), answer_headers(session))


def serve(session: Session, *, port: int | None = None, ready: Callable[[str], None] | None = None) -> None:
    """Serve until Ctrl-C. `ready` is told the address, with its token, once it answers."""
    with listen(port) as listening:
        token = new_token()
        serving = server(session, token)
        if ready is not None:
            ready(address_of(listening, token))
        serving.run(sockets=[listening])

"""The page, served to one user of this machine: its own files, new data for it, and small requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.errors import RegardError
from regard.look import page
from regard.look.reader import LARGEST_FILE
from regard.look.session import Session
from regard.serving.guard import (
    NUMBER,
    ASGIApp,
    HTTPException,
    Request,
    Response,
    Route,
    ask_for_token,
    make_app,
    make_server,
    read_json,
    run_in_threadpool,
    serve_page,
)

LARGEST = LARGEST_FILE * 4 // 3 + 2**20  # bytes of a request: a file in base64, and a text beside it
NUMBERS = ("record", "layer", "call", "head", "window")


def app(session: Session, token: str) -> ASGIApp:
    """The application: the page, new data for it, and full weights. Each request needs the token."""

    async def start(request: Request) -> Response:
        try:
            text = await run_in_threadpool(lambda: page.html(session.show({}), session.files))
        except (ValueError, OSError) as error:  # data that were there when the server began
            raise HTTPException(400, str(error)) from error
        return Response(page.encode(text), media_type="text/html; charset=utf-8")

    def answer_with(act: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
        """What `act` makes of the object that is sent."""

        async def answer(request: Request) -> Response:
            try:
                asked = await read_json(request, LARGEST)
                if not isinstance(asked, dict):
                    raise RegardError("send an object with what is to change, such as text, file or silence")
                data = await run_in_threadpool(act, asked)
            except (ValueError, OSError, RecursionError) as error:
                raise HTTPException(400, str(error)) from error
            return Response(page.encode(page.to_json(data)), media_type="application/json")

        return answer

    async def weights(request: Request) -> Response:
        asked = [request.path_params[name] for name in NUMBERS]
        if not all(NUMBER.fullmatch(each) for each in asked):
            raise HTTPException(404, "layers and heads are numbered 0, 1, 2 …")
        try:
            found = await run_in_threadpool(session.weights, *map(int, asked))
        except ValueError as error:
            raise HTTPException(404, str(error)) from error
        return Response(found, media_type="application/octet-stream")

    routes = [
        Route("/", start, methods=["GET"]),
        Route("/api/look", answer_with(session.show), methods=["POST"]),
        Route("/api/region", answer_with(session.region), methods=["POST"]),
        Route("/api/ask", answer_with(session.ask), methods=["POST"]),
        Route("/api/weights/" + "/".join(f"{{{name}}}" for name in NUMBERS), weights, methods=["GET"]),
    ]
    return make_app(routes, page.policy(session.files, live=True), ask_for_token(token))


def server(session: Session, token: str) -> Any:
    """A uvicorn server of the page; `run(sockets=[...])` serves."""
    return make_server(app(session, token), page.policy(session.files, live=True))


def serve(session: Session, *, port: int | None = None, ready: Callable[[str], None] | None = None) -> None:
    """Serve until Ctrl-C. `ready` is told the address, with its token, once it answers."""
    serve_page(lambda token: server(session, token), port, ready)

"""The story, served to one user of this machine. There is one page, and nothing to ask."""

from __future__ import annotations

from collections.abc import Callable

from regard.look.page import encode
from regard.serving.guard import ASGIApp, Request, Response, Route, ask_for_token, make_app, make_server, serve_page
from regard.story.page import policy


def app(text: str, token: str) -> ASGIApp:
    """The application: the page, for those who have the token."""
    content = encode(text)

    async def start(request: Request) -> Response:
        return Response(content, media_type="text/html; charset=utf-8")

    return make_app([Route("/", start, methods=["GET"])], policy(), ask_for_token(token))


def serve(make: Callable[[], str], *, port: int | None = None, ready: Callable[[str], None] | None = None) -> None:
    """Serve what `make` makes until Ctrl-C; it is called when the port is ours. `ready` is told the address, with its
    token, once it answers."""
    serve_page(lambda token: make_server(app(make(), token), policy()), port, ready)

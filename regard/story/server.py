"""The story, served to one user of this machine: on 127.0.0.1, behind a token in its address. There is one page, and
nothing to ask."""

from __future__ import annotations

from collections.abc import Callable

from regard.errors import RegardError
from regard.look.page import encode
from regard.serving.address import address_of, ask_for_token
from regard.serving.guard import Application, guard, headers_with
from regard.serving.http import NEEDED, listen, make_server, new_token
from regard.story.page import policy


def app(text: str, token: str) -> Application:
    """The application: the page, for those who have the token."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError as error:
        raise RegardError(NEEDED) from error
    content = encode(text)

    async def start(request: Request) -> Response:
        return Response(content, media_type="text/html; charset=utf-8")

    inner = Starlette(routes=[Route("/", start, methods=["GET"])])
    inner.router.redirect_slashes = False  # an address is right or wrong
    return guard(inner, headers_with(policy()), ask_for_token(token))


def serve(
    make: Callable[[], str], *, port: int | None = None, ready: Callable[[str], None] | None = None
) -> None:
    """Serve what `make` makes until Ctrl-C; it is called when the port is ours. `ready` is told the address, with its
    token, once it answers."""
    with listen(port) as listening:
        token = new_token()
        serving = make_server(app(make(), token), headers_with(policy()))
        if ready is not None:
            ready(address_of(listening, token))
        serving.run(sockets=[listening])

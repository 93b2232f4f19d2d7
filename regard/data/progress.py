"""How work on data tells how far it is: `note("decoding images", 0.4)`, or None where the share is not
known."""

from collections.abc import Callable

Note = Callable[[str, float | None], None]

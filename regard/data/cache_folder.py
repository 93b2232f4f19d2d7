"""Where caches go."""

from __future__ import annotations

import os
from pathlib import Path

from regard.data.cache import make_private


def cache_folder() -> Path:
    """The cache of prepared data: REGARD_CACHE, or the user's cache folder."""
    given = os.environ.get("REGARD_CACHE")
    if given:
        Path(given).mkdir(
            mode=0o700, parents=True, exist_ok=True
        )  # a folder of the user's own keeps its permissions; those in it are private
        return Path(given)
    return make_private(Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regard")

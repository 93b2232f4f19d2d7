"""What a page that may be sent to others does not tell: in which folders files lie, and who their owner
is."""

from __future__ import annotations

import os
import re

# of environment.json: there if somebody asked for them, or from a version that did not ask
PERSONAL = ("command", "folder", "user", "machine")
# inside a text: an absolute path, one of a home, or one that leads upwards
PATH = re.compile(r"""(?<![\w.~/])(?:~[\w.-]*|\.\.)?(?:/[^\s/'"`:;,()]+)+/?""")


def without_folders(text: str) -> str:
    """The text with only the last part of each path in it that leads to somebody's folders: data/reviews.csv
    stays as it is, and /home/ada/reviews.csv is reviews.csv."""
    if os.path.isabs(text) or text.startswith(("~", "../")):
        return _last(text)
    return PATH.sub(lambda found: _last(found[0]), text)


def _last(path: str) -> str:
    return os.path.basename(path.rstrip("/"))

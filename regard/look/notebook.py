"""A recording as a notebook shows it: the page of its attention, in a frame of its own."""

from __future__ import annotations

from html import escape
from typing import Any

from regard.look import page
from regard.look.model_input import ModelInput
from regard.look.recording.entry import Seen
from regard.look.scene import FORMAT, doubts
from regard.look.token_streams import Streams
from regard.look.views.attention import attention


def page_in_frame(seen: Seen, height: int = 640) -> str:
    """HTML with the whole page inside, so that its styles and scripts touch nothing of the notebook's."""
    given = ModelInput(inputs={})
    streams = Streams(given)
    view = attention(seen, streams)
    if view is None:
        return f"<pre>{escape(repr(seen))}</pre>"
    count = f"{len(seen)} attention{'s' * (len(seen) != 1)}, {seen.layers} layer{'s' * (seen.layers != 1)}"
    data: dict[str, Any] = {
        "format": FORMAT,
        "title": "recorded",
        "subtitle": count,
        "record": 0,
        "input": given.describe(),
        "streams": streams.data(),
        "notes": doubts(seen),
        "live": None,
        "silenced": [],
        "views": [view],
    }
    return f'<iframe style="width:100%;height:{height}px;border:0" srcdoc="{escape(page.html(data), quote=True)}"></iframe>'

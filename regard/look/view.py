"""A view: one tab of the page. What every page can show is in `views/`; what only one kind of data shows is
in its folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from regard.errors import RegardError
from regard.look.model_input import ModelInput

if TYPE_CHECKING:
    from regard.look.scene import Scene


class View(ABC):
    """One tab: whether it applies, what it records while the model runs, what it builds, how a still of it is
    drawn."""

    name: ClassVar[str]  # of its data, which a script of the page draws
    order: ClassVar[
        int
    ]  # of its tab: views of a kind of data come first (10), then attention (20), and what is known of a run last
    files: ClassVar[
        tuple[Path, ...]
    ] = ()  # scripts and styles of the tab, where they are not among those of every page
    # is a page worth showing for its sake, although nothing in the model attends?
    stands_alone: ClassVar[bool] = False

    def applies(self, given: ModelInput) -> bool:
        """Does it show anything of such an input?"""
        return True

    def record(self, model: nn.Module) -> AbstractContextManager[Any]:
        """What it listens to while the model runs; what this gives is `scene.recorded[name]` after it."""
        return nullcontext()

    @abstractmethod
    def build(self, scene: Scene) -> dict[str, Any] | None:
        """The data of the tab, for JSON, as web/README.md says; None: there is nothing to see."""

    def ask(self, scene: Scene, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question of a served page about what the view shows, for JSON. What is asked comes
        from a request, so nothing in it is trusted."""
        raise RegardError(f"the view {self.name} answers no questions")

    def still(self, scene: Scene, title: str) -> Any | None:
        """A figure of it; None: it has none, and the next view is asked."""
        return None


def web_files(folder: Path, *names: str) -> tuple[Path, ...]:
    """Files of a folder `web` beside a view."""
    return tuple(folder / "web" / name for name in names)

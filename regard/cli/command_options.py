"""The options of each command, besides those of a recipe: one dataclass each, read by tyro. Comments are what
--help says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config import check_sizes
from regard.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """RUN is a run of regard train. INPUT is what it was trained on: for a classifier of texts a text in
    quotes, or the path of a text file (UTF-8); for other data files: images, point clouds, tables, graphs. A
    folder stands for all images in it and in its folders, and so does a pattern in quotes: 'photos/*.jpg',
    'photos/**/*.png'.

    exit code: 0 all are predicted, 1 some could not be read (each is named on stderr), 2 none could, or it
    could not be run
    """

    json: bool = False
    """a line of JSON for each input: {"input", "labels" or "values" or "each" or "error"}; of text also
    "kind", which says whether the input was taken as a text or read from a file; with --out "picture"
    """
    out: str | None = None
    """of images: draw where the model looked, and an occlusion map: how much the logit drops when a patch is
    greyed out. A file (.png, .svg, .pdf) is one sheet of all inputs; a folder gets a file for each,
    NAME-looked.png, or FOLDER-NAME-looked.png where names are equal. Attention is drawn where a model
    attends: of the class token, or rollout to the mean of all patches
    """


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """RUN is a run of regard train. Its best weights are measured on the test split of its data, or on the
    validation split where there is no test split. The number of examples stands beside the measures.
    """

    data: str | None = None
    """another file or folder of the same kind, with its labels: its test split where it names one, else all
    of it"""
    json: bool = False
    """{"split", "count", "unit", "measures"}, and of a classifier "labels" and "confusion", in which
    confusion[i][j] is how often class i was predicted as class j
    """


TARGET = """TARGET is a run directory, a Hugging Face model directory (safetensors; random weights if there are none), or
package.module:function that returns (model, inputs[, symmetry[, roles]])."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """{TARGET}

    exit code: 0 as declared, 1 a law is broken, 2 it could not be run
    """

    laws: str | None = None  # only these, as a,b; None: all that apply (regard list laws)
    json: bool = False  # the report as JSON
    seed: int = 0  # of the trials
    trials: int = 8  # of each law
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None  # None: as the model is
    device: str | None = None  # cpu, cuda, mps; None: as the model is

    def __post_init__(self) -> None:
        check_sizes(self)
        for name, least in (("seed", 0), ("trials", 1)):
            if getattr(self, name) < least:
                raise RegardError(f"{name} must be a whole number from {least} on, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    """{TARGET}"""

    input: str | None = None
    """a text; the path of a file (text; image: any size, grey or colour; points as .npy, .npz or .csv); the
    name of a node to draw a large graph around; the name of a set of the data, or its number if sets were
    made; None: an example
    """
    # what the decoder of an encoder-decoder has written; None: what it writes itself
    target: str | None = None
    out: str | None = None
    """a self-contained page (.html), or a still (.png, .svg, .pdf) of all heads, or of what matters to the
    prediction where nothing attends; None: the page is served on 127.0.0.1, and input, heads and the order of
    tokens can be changed there
    """
    port: int | None = None  # of the served page; None: any free one
    laws: bool = False  # also measure the laws of a model that is not a run; a run has them already

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65535:
            raise RegardError(f"port must be a whole number from 0 to 65535, got {str(self.port)[:20]}")
        if self.port is not None and self.out is not None:
            raise RegardError("--port is for a page that is served, and --out writes one; give one of them")


for _options in (CheckOptions, LookOptions):
    _options.__doc__ = str(_options.__doc__).replace("{TARGET}", TARGET)

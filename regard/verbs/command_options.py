"""The options of each command, besides those of a recipe: one dataclass each. Comments are what --help says."""

from __future__ import annotations

from inspect import cleandoc
from typing import Annotated, Literal

from pydantic import Field

from regard.config import Count, Seed, Size, config
from regard.errors import RegardError


@config
class PredictOptions:
    """RUN is the folder of a run, made by regard train. INPUT is of the same kind as its training data: a
    text in quotes or the path of a text file (UTF-8) for a text classifier; otherwise the path of an image, a
    point cloud, a table or a graph. Of a table (.csv, .tsv, .jsonl, .parquet) of texts or of paths of images,
    every row is an input. A folder means all images in it and in its sub-folders. A pattern in quotes works
    too: 'photos/*.jpg', 'photos/**/*.png'. Columns are those of the training; --data.text NAME and --data.label
    NAME (of images --data.image, of sets --data.id and --data.target) name others. A run of translation takes
    a text, a text file (each line is a sentence) or a table, and has options of its own: --beams 5, --n-best 1,
    --length-penalty 1.0 and --ensemble RUN,RUN. A run of an autoencoder gives inputs back, and writes their codes
    with --codes codes.npz. A run of series forecasts --horizon 24 steps.

    exit code: 0 every input has a prediction, 1 some inputs could not be read (stderr names them), 2 no input
    could be read, or the command is wrong
    """

    json: bool = False
    """print one line of JSON for each input, with "input" and one of "labels", "values", "each", "error". For
    text, "kind" is "text" or "file": what the input was taken for. Of a row of a table, "row" has its cells,
    and "truth" its label. With --out, "picture" is the file drawn
    """
    embeddings: str | None = None
    """for texts: write a vector of length 1 for each to this .npz file, as `embeddings`, beside `texts`. Of a text
    file each line is a text. A product of two vectors is their cosine
    """
    out: str | None = None
    """a table (.csv, .tsv, .jsonl, .parquet): write the answers, one row for each input, in the same order: the
    columns of the input, "answer", "right" where the input has a label, "p(CLASS)" for each class, and "error"
    for what could not be read. For translations also a text file (.txt): one line for each line. For images also
    a picture: what the model attends to, and an occlusion map (how
    much the logit drops when a patch is greyed out). A file (.png, .svg, .pdf) is one sheet with all inputs. A
    folder gets one file for each input: NAME-looked.png, or FOLDER-NAME-looked.png if two inputs have the same
    name. Attention is that of the class token, or rollout to the mean of all patches; models without attention
    have only the occlusion map. Of autoencoders the picture is what came back
    """


@config
class EvaluateOptions:
    """RUN is the folder of a run, made by regard train. Its best weights are evaluated on the test split of
    its data, or on the validation split if there is no test split. The output names the number of examples.
    Where other data calls its columns otherwise, name them as in training: --data.label NAME (--data.text of
    texts, --data.image of images, --data.id and --data.target of sets, --data.nodes of an edge list). Of
    translations: --data.source and --data.target, or --data.beside FILE; and --beams 5, --length-penalty 1.0. Of
    a causal LM: --memory 2048, the tokens that it sees before a segment (0: none).
    Of autoencoders: --samples 100, by which log p(x) is estimated.
    """

    data: str | None = None
    """another file or folder of the same kind, with labels. If it has a test split, only that is used;
    otherwise all of it"""
    json: bool = False
    """print JSON: "split", "count", "unit" and "measures". A classifier also has "labels" and "confusion":
    confusion[i][j] is how often class i was predicted as class j
    """


@config
class VerifyOptions:
    """RUN is a run of regard train. Each of its files is compared with the checksum that was written with it.

    exit code: 0 all are whole, 1 something is damaged or missing, 2 it could not be run
    """

    repair: bool = False
    """restore what can be restored: config.json and tokenizer.json from their copies in state/, the weights
    from a checkpoint. What is damaged is kept beside it as NAME.damaged"""
    json: bool = False  # {"path", "whole", "files": [{"file", "state", "reason", "remedy"}], "done"}


@config
class CompareOptions:
    """RUN is the folder of a run, made by regard train: two or more, or a pattern in quotes ('runs/*').

    The output has the settings that differ, the outcome of each run, and for each run the difference to the
    first one on the same examples, with a 95 % interval. Both must have the same test split (or validation
    split, without one); otherwise give --data. Runs that have nothing in common are compared in their curves
    only, and a line says why.

    exit code: 0 it compared, 2 fewer than two runs can be read
    """

    data: str | None = None
    """another file or folder of the same kind, with labels, that no run was trained on: all runs are
    evaluated on it"""
    out: str | None = None  # also write a page with the curves over each other (.html)
    by: Literal["steps", "seconds"] = "steps"  # the axis of the curves
    json: bool = False  # {"runs", "settings", "pairs", "notes"}: all that is printed, in full precision


Port = Annotated[int, Field(ge=0, le=65_535)]
TARGET = """TARGET is one of these: the folder of a run, made by regard train; the folder of a downloaded Hugging Face
model (config.json and safetensors; without safetensors the weights are random); or package.module:function,
your own function that returns (model, inputs[, symmetry[, roles]])."""


@config
class CheckOptions:
    """{TARGET}

    exit code: 0 all laws are as declared, 1 a declared law is broken, 2 the check could not run
    """

    # check only these, such as padding,causality; none: all that apply (see: regard list laws)
    laws: tuple[str, ...] = ()
    json: bool = False  # print the report as JSON
    seed: Seed = 0  # seed of the random trials
    trials: Size = 8  # random trials for each law
    length: Size | None = None  # try so many tokens; None: as many as the target gives
    # dtype of the check; None: that of the model
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None
    device: str | None = None  # cpu, cuda or mps; None: that of the model


@config
class LookOptions:
    """{TARGET}"""

    input: str | None = None
    """a text, or the path of a file (text, image, or points as .npy, .npz or .csv). For a large graph: the
    name of the node to draw in the middle. For sets: the name of a set in the data, or its number if the
    sets are generated. None: an example from the data
    """
    # encoder-decoders only: the text of the decoder; None: the text that it generates
    target: str | None = None
    out: str | None = None
    """write a page in one file (.html), or a picture (.png, .svg, .pdf) of all heads; for a model without
    attention, a picture of what matters to the prediction. None: serve the page on 127.0.0.1, where you can
    change the input, silence heads and move tokens
    """
    port: Port | None = None  # port of the served page; None: any free port
    laws: bool = False  # also measure the laws of this model (a run has them already)

    def __post_init__(self) -> None:
        _check_served(self.port, self.out)


@config
class StoryOptions:
    """One page from a sum that remembers everything to attention, its positions and its symmetries. Every figure
    computes what it shows. The page works offline and sends nothing, your photos included. Without --out it is
    served on 127.0.0.1, to you alone.
    """

    out: str | None = None  # write the page in one file (.html); None: serve it
    port: Port | None = None  # port of the served page; None: any free port
    # the address of the documentation as HTML, such as . or https://example.org/docs: chapters link to its pages;
    # None: chapters name the pages
    docs: str | None = None

    def __post_init__(self) -> None:
        _check_served(self.port, self.out)
        if self.out is not None and not self.out.lower().endswith(".html"):
            raise RegardError(f"--out is a page and must end in .html, got {self.out!r}")
        scheme = (self.docs or "").partition(":")
        if scheme[1] and scheme[0] not in ("http", "https", "file"):
            raise RegardError(f"--docs is an address of pages (http, https, file or relative), got {self.docs!r}")


def _check_served(port: int | None, out: str | None) -> None:
    """A port is of a page that is served."""
    if port is not None and out is not None:
        raise RegardError("--port is for a page that is served, and --out writes one; give one of them")


@config
class ServeOptions:
    """TARGET is a model that writes text: the folder of a run, made by regard train, the folder of a downloaded
    Hugging Face model, or a GGUF file. It answers on 127.0.0.1 as OpenAI's API does: /v1/completions,
    /v1/chat/completions (if the model has a chat template) and /v1/models. Ctrl-C ends it.

    Every request needs a key, as a Bearer token: that in the environment variable REGARD_KEY, or else a new one,
    which is printed. (A key among the options of a command could be read by every user of the machine.)
    """

    port: Port | None = None  # port of the server; None: any free port
    slots: Count = 8  # texts that are written at once; others wait
    # most tokens of a prompt and its text together; None: what the model reads at once, but 2048 at most
    context: Size | None = None
    # numbers of the weights: fewer bits are faster and less exact (docs/generation.md); auto: those of a GGUF file,
    # int8 for other large models, float32 for small ones
    weights: Literal["auto", "float32", "bfloat16", "int8", "int4"] = "auto"


@config
class ImportOptions:
    """PATH is a Hugging Face directory (config.json and safetensors) or a GGUF file. Known are GPT-2, Llama,
    Mistral, Qwen2, Qwen3, GPT-NeoX, BERT, RoBERTa, DistilBERT, ViT, DeiT, DINOv2 and Swin. What cannot be
    represented is refused by its name. Other commands take such a path, too, without an import.
    """

    out: str | None = None  # a new folder for the run


@config
class ExportOptions:
    """RUN is the folder of a run whose model Hugging Face knows, too: regard import made it, or its options are
    those of such a model. The folder opens with from_pretrained of transformers, and gives the same logits.
    """

    to: Literal["hf"] = "hf"  # hf: Hugging Face's transformers
    out: str | None = None  # a new folder for the files


for _options in (CheckOptions, LookOptions):
    _options.__doc__ = cleandoc(str(_options.__doc__)).replace("{TARGET}", TARGET)

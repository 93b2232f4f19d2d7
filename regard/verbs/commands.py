"""The commands: what `regard --help` says about each, and where it is. Only strings, so that --help imports nothing: a
command is imported when it is called."""

from importlib import import_module
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command: `run` of its module takes the words after its name and returns the exit code. `options` is the class of
    its options there; without one its `explain` gives the rest of --help, from the words."""

    usage: str
    sentence: str
    examples: tuple[str, ...]
    module: str
    options: str | None = None
    run: str = "run"

    def find(self, name: str) -> Any:
        """Something in the module of the command."""
        return getattr(import_module(f"regard.verbs.{self.module}"), name)

    def help(self) -> str:
        """Its usage, what it does, and examples."""
        examples = [f"  {example}" for example in self.examples]
        return "\n".join([f"usage: regard {self.usage}", "", self.sentence, "", "examples:", *examples])


def asks_for_help(words: list[str]) -> bool:
    return not {"-h", "--help", "--help-all"}.isdisjoint(words)


COMMANDS: dict[str, Command] = {
    "list": Command(
        "list [CATEGORY]",
        "list masks, layers, models and other parts, one sentence each",
        ("regard list", "regard list masks"),
        "list",
    ),
    "train": Command(
        "train RECIPE [--data PATH] ...",
        "train a model on your data (options: regard train text --help)",
        (
            "regard train text",
            "regard train text --data my.txt --out runs/mine --train.minutes 5",
            "regard train text --data reviews.csv",
        ),
        "train",
    ),
    "generate": Command(
        "generate RUN [--prompt TEXT] ...",
        "text, new samples, or a dreamed episode",
        (
            'regard generate runs/text --prompt "def " --max-new 200 --seed 1',
            'regard generate runs/chat --chat "What is 3 + 4?"',
            'regard generate model.gguf --prompt "Once upon" --weights int4 --stats',
            "regard generate runs/autoencoder --count 64 --out sheet.png",
            "regard generate runs/world --steps 200 --out dream.gif",
        ),
        "generate",
    ),
    "predict": Command(
        "predict RUN INPUT... [--out FILE]",
        "predictions for texts, files, or the rows of a table",
        (
            'regard predict runs/text "what a film"',
            "regard predict runs/text reviews.csv --out answers.csv",
            "regard predict all-MiniLM-L6-v2 texts.txt --embeddings out.npz",
            "regard predict runs/text letters.parquet --data.text body --out answers.parquet",
            "regard predict runs/translation input.txt --out output.txt --beams 5",
            "regard predict runs/images photo.jpg --out looked.png",
            "regard predict runs/autoencoder noisy.png --out clean.png --codes codes.npz",
            "regard predict runs/world episodes.npz --out answers.csv",
        ),
        "predict",
        "PredictOptions",
    ),
    "evaluate": Command(
        "evaluate RUN [--data PATH]",
        "loss and accuracy on the test split, or on another file",
        (
            "regard evaluate runs/text",
            "regard evaluate runs/text --memory 2048",
            "regard evaluate runs/images --data other-photos --json",
            "regard evaluate runs/text --data other.csv --data.text body --data.label stars",
            "regard evaluate runs/translation --data test.en --data.beside test.de",
            "regard evaluate runs/autoencoder --samples 1000",
            "regard evaluate runs/world --episodes 100 --seed 1",
        ),
        "evaluate",
        "EvaluateOptions",
    ),
    "check": Command(
        "check TARGET [--laws A,B] ...",
        "does a model keep its symmetries? if not, at which layer?",
        (
            "regard check runs/text",
            "regard check path/to/huggingface-model --laws padding,causality",
            "regard check my_package.my_module:make_model --json",
            "regard check runs/text --laws precision --length 600",
        ),
        "check",
        "CheckOptions",
    ),
    "look": Command(
        "look TARGET [--input ...] ...",
        "what a model attends to: exact weights, as a page or picture",
        (
            'regard look runs/text --input "def f(x):" --out page.html',
            "regard look runs/images --input photo.png",
            "regard look path/to/huggingface-vit --input cat.png",
            "regard look my_package.my_module:make_model --out heads.svg",
        ),
        "look",
        "LookOptions",
    ),
    "compare": Command(
        "compare RUN RUN... [--out PAGE]",
        "settings that differ, curves, differences on the same examples",
        (
            "regard compare runs/a runs/b",
            "regard compare 'runs/*' --out compare.html",
            "regard compare runs/a runs/b --data other.csv --json",
        ),
        "compare",
        "CompareOptions",
    ),
    "import": Command(
        "import PATH --out RUN",
        "weights of others (Hugging Face, GGUF) as a run",
        ("regard import SmolLM2-135M --out runs/smollm", "regard import model.gguf --out runs/model"),
        "pretrained",
        "ImportOptions",
        run="run_import",
    ),
    "export": Command(
        "export RUN --to hf --out DIR",
        "the model of a run as a Hugging Face directory",
        ("regard export runs/text --to hf --out mine",),
        "pretrained",
        "ExportOptions",
        run="run_export",
    ),
    "serve": Command(
        "serve TARGET [--port N] ...",
        "answer programs on this machine, as OpenAI's API does",
        ("regard serve runs/chat", "regard serve path/to/model.gguf --port 8000 --slots 16 --weights int4"),
        "serve",
        "ServeOptions",
    ),
    "story": Command(
        "story [--out PAGE]",
        "attention explained from the start: a page with figures to move",
        ("regard story", "regard story --out story.html"),
        "story",
        "StoryOptions",
    ),
    "tokenize": Command(
        "tokenize --data PATH --out DIR",
        "make token shards of texts of any size",
        (
            "regard tokenize --data folder --out shards",
            "regard tokenize --data 'corpus/*.txt' --out shards --tokens bpe --vocabulary 32768",
        ),
        "tokenize",
    ),
    "verify": Command(
        "verify RUN [--repair]",
        "are the files of a run whole? exit 0: yes, 1: some are damaged",
        ("regard verify runs/text", "regard verify runs/text --repair"),
        "verify",
        "VerifyOptions",
    ),
}

"""The golden cases: a tiny data set and the commands that are typed, one after the other, in one folder.

`look RUN --input X` stands for a session of the page. What the commands gave is in `found/NAME.json`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.golden import data

SAME = " --train.precision float32 --train.threads 1"
SMALL = " --model.dim 16 --model.heads 2"


class Case(NamedTuple):
    data: Callable[[Path], None]
    commands: tuple[str, ...]
    errors: tuple[str, ...] = ()  # commands that must fail, with their words


def nothing(folder: Path) -> None:
    """The data is built in."""


def train(recipe: str, words: str, out: str = "run", steps: int = 10, *, report: bool = False) -> str:
    """A training whose numbers are the same on every machine, up to rounding."""
    end = "" if report else " --no-report"
    return f"train {recipe} {words} --train.steps {steps} --out {out}{SAME}{end}"


CASES: dict[str, Case] = {}

# ── text

LANGUAGE = f"{SMALL} --model.depth 1 --data.context 16 --train.batch 4"
GENERATE = 'generate run --prompt "the cat " --max-new 12 --seed 1'

CASES["text-next"] = Case(
    data.texts,
    (
        train("text", "--data plain.txt --data.test 0.1" + LANGUAGE, steps=10),
        GENERATE,
        'generate run --prompt "the cat " --max-new 12 --temperature 0',
        'generate run --prompt "the " --max-new 8 --beams 3 --samples 2',
        "evaluate run --json",
        "evaluate run --data other.txt --json",
        'look run --input "the old king"',
        train("text", "--data other.txt --from run --data.context 16", out="tuned", steps=3),
        "compare run tuned --json",
    ),
    ("train text --data missing.txt --out none", "train text --data plain.txt --model.dmi 16 --out none"),
)
CASES["text-words"] = Case(
    data.texts,
    (
        train(
            "text", "--data plain.txt --data.tokens words --model.attention window --model.attention.width 4" + LANGUAGE
        ),
        GENERATE,
        "generate run --prompts other.txt --max-new 2 --temperature 0 --out texts.jsonl --seed 1",
        "evaluate run --json",
        'look run --input "the old king"',
    ),
    ("train text --data plain.txt --data.tokens letters --out none",),
)
CASES["text-attention"] = Case(
    data.texts,
    (
        *(
            train(
                "text",
                f"--data plain.txt --model.attention {how} --model.dim 16 --model.depth 1 --train.batch 4",
                out,
                4,
            )
            for how, out in (
                ("bigbird --model.attention.block 8 --model.attention.random-blocks 1", "bigbird"),
                ("performer --model.attention.features 16", "performer"),
                ("lsh --model.attention.buckets 4 --model.attention.block 8", "lsh"),
                ("linformer --model.attention.projected 8 --task masked", "linformer"),
                (
                    "full --model.position learned --model.bias alibi --model.norm layernorm --model.placement post",
                    "post",
                ),
            )
        ),
        "evaluate bigbird --json",
        'look bigbird --input "the old king"',
        'generate lsh --prompt "the cat " --max-new 4 --seed 1',
    ),
    ("train text --data plain.txt --model.attention window --model.attention.width 0 --out none",),
)
CASES["text-experts"] = Case(
    data.texts,
    (
        train(
            "text", "--data plain.txt --model.mlp experts --model.mlp.count 4 --model.mlp.chosen 2" + LANGUAGE, steps=4
        ),
        'look run --input "the old king"',
        "evaluate run --json",
        GENERATE,
    ),
    ("train text --data plain.txt --model.mlp experts --model.mlp.count 2 --model.mlp.chosen 3 --out none",),
)
CASES["text-export"] = Case(
    data.texts,
    (
        train(
            "text",
            "--data plain.txt --model.mlp.activation swiglu --model.ngrams 1 --data.tokens bpe" + LANGUAGE,
            steps=4,
        ),
        "export run --to hf --out exported",
        "import exported --out imported",
        GENERATE.replace("run", "imported").replace("12", "4"),
        GENERATE.replace("run", "exported").replace("12", "4"),
        "evaluate imported --data other.txt --json",
        "check exported --laws causality --trials 2 --json",
        train("text", "--data other.txt --from exported --data.context 16", out="tuned", steps=4),
        'look imported --input "the old king"',
    ),
    ("export imported --to hf --out exported",),
)
CASES["text-shards"] = Case(
    data.texts,
    (
        "tokenize --data plain.txt --out shards --tokens bytes",
        train("text", "--data shards" + LANGUAGE),
        GENERATE,
        "evaluate run --json",
        'look run --input "the old king"',
    ),
    ("train text --data shards --data.tokens words --out none",),
)
CASES["text-processes"] = Case(
    data.texts,
    (
        train("text", "--data plain.txt --train.processes 2 --train.optimiser adamw" + LANGUAGE),
        GENERATE,
        "evaluate run --json",
        'look run --input "the old king"',
    ),
    ("train text --data plain.txt --train.processes 0 --out none",),
)
CASES["text-resume"] = Case(
    data.texts,
    (
        train("text", "--data plain.txt --train.decay 0" + LANGUAGE, steps=4),
        "train text --resume --out run --train.steps 10 --no-report",
        GENERATE,
        "evaluate run --json",
        'look run --input "the old king"',
    ),
    ("train text --resume --out run --model.dim 32",),
)
CASES["text-streams"] = Case(
    data.texts,
    (
        train("text", "--data plain.txt --model.memory 16" + LANGUAGE),
        GENERATE,
        "evaluate run --memory 32 --json",
        'look run --input "the old king"',
    ),
    ("evaluate run --memory -1",),
)
CASES["text-recurrent"] = Case(
    data.texts,
    (
        train("text", "--data plain.txt --model gru --model.dim 16 --model.depth 1 --data.context 16 --train.batch 4"),
        GENERATE,
        'look run --input "the old king"',
        "evaluate run --json",
    ),
    ("train text --data plain.txt --model gru --model.heads 2 --out none",),
)
CASES["text-masked"] = Case(
    data.texts,
    (
        train("text", "--data plain.txt --task masked" + LANGUAGE, steps=10),
        'look run --input "the old king"',
        "evaluate run --json",
        "predict run other.txt --embeddings vectors.npz",
    ),
    (GENERATE,),
)
CASES["text-permutation"] = Case(
    data.texts,
    (
        train("text", "--data plain.txt --task permutation" + LANGUAGE, steps=5),
        "evaluate run --json",
        'look run --input "the old king"',
        'generate run --prompt "the cat " --max-new 4 --seed 1',
    ),
    ('predict run "the cat sees"',),
)
CASES["text-chat"] = Case(
    data.texts,
    (
        train("text", "--data chats.jsonl --data.context 128 --train.batch 4" + SMALL),
        'generate run --chat "who sees the cat?" --max-new 12 --seed 1',
        "evaluate run --json",
        'look run --input "who sees the cat?"',
    ),
    ("train text --data reviews.csv --task chat --out none",),
)
CASES["text-classes"] = Case(
    data.texts,
    (
        train("text", "--data reviews.csv --data.test 0.2 --train.batch 8" + SMALL, report=True),
        'predict run "the cat sees a warm fox" --json',
        "predict run more_reviews.csv --out answers.csv",
        "evaluate run --json",
        "evaluate run --data more_reviews.csv --json",
        'look run --input "the cat sees a warm fox"',
        "check run --laws padding,neighbours --trials 2 --json",
        train("text", "--data reviews.csv --train.seeds 2 --data.test 0.2" + SMALL, out="seeds", steps=4),
        train("text", "--data reviews.csv --data.folds 2 --model.no-bag" + SMALL, out="folds", steps=4),
    ),
    ("train text --data reviews.csv --data.label mood --out none",),
)
CASES["text-numbers"] = Case(
    data.texts,
    (
        train("text", "--data stars.csv --train.batch 8" + SMALL, steps=5),
        "predict run more_reviews.csv --out answers.csv",
        "evaluate run --json",
        'look run --input "the cat sees a warm fox"',
    ),
    ("train text --data stars.csv --data.label mark --out none",),
)
CASES["text-additive"] = Case(
    data.texts,
    (
        train("text", "--data reviews.csv --model additive --train.batch 8"),
        'predict run "the cat sees a warm fox" --json',
        'look run --input "the cat sees a warm fox"',
        "evaluate run --json",
    ),
    ("train text --data plain.txt --model additive --out none",),
)
CASES["text-lstm-classes"] = Case(
    data.texts,
    (
        train("text", "--data reviews.csv --model lstm --model.dim 16 --train.batch 8"),
        "evaluate run --data more_reviews.csv --json",
        "predict run more_reviews.csv --out answers.csv",
        'look run --input "the cat sees a warm fox"',
    ),
    ("predict run missing.csv --out answers.csv",),
)
CASES["translation"] = Case(
    data.texts,
    (
        train("translation", "--data pairs.tsv --data.test 0.1 --model.depth 1" + SMALL),
        'predict run "the cat sees a red fox" --beams 2 --json',
        "predict run other.txt --out output.txt",
        "evaluate run --json",
        'look run --input "the cat sees"',
        "evaluate run --data pairs.tsv --json",
    ),
    ("train translation --data plain.txt --out none",),
)
CASES["translation-lstm"] = Case(
    nothing,
    (
        train("translation", "--data reverse --model.dim 16 --train.batch 16 --data.pairs 200"),
        'predict run "1 2 3" --json',
        'look run --input "1 2 3" ',
        "evaluate run --json",
    ),
    ("train translation --data reverse --data.pairs 0 --out none",),
)

# ── images

CONVOLUTIONS = " --model.stem 4 --model.widths 4 8 --model.residual 0 0 --train.batch 8"

CASES["images-folder"] = Case(
    data.images,
    (
        train("images", "--data photos --data.test 0.2" + CONVOLUTIONS, report=True),
        "predict run photos/dark/00.png photos/light/01.png --json",
        "predict run photos --out answers.csv",
        "predict run photos/dark/00.png --out looked.png",
        "evaluate run --json",
        "look run --input photos/light/01.png",
        train("images", "--data photos --data.folds 2" + CONVOLUTIONS, out="folds", steps=2),
        "evaluate run --data photos --json",
    ),
    ("train images --data none --out none",),
)
CASES["images-arrays"] = Case(
    data.images,
    (
        train("images", "--data arrays.npz --model vit --model.depth 1 --train.batch 8" + SMALL),
        "predict run photos --out answers.csv",
        "look run --input photos/light/01.png",
        train("images", "--data photos --model vit --from run", out="tuned", steps=3),
        "evaluate run --json",
    ),
    ("train images --data arrays.npz --model vit --model.dim 15 --model.heads 2 --out none",),
)
CASES["images-numbers"] = Case(
    data.images,
    (
        train("images", "--data brightness.csv" + CONVOLUTIONS),
        "predict run brightness.csv --out answers.csv",
        "evaluate run --json",
        "look run --input photos/light/01.png",
    ),
    ("predict run plain.txt",),
)
CASES["images-swin"] = Case(
    nothing,
    (
        train("images", "--model swin --model.dim 8 --model.depths 1 --model.heads 2 --train.batch 8", steps=3),
        "look run",
        "evaluate run --json",
    ),
    ("train images --model swin --model.heads 3 --model.dim 8 --out none",),
)

# ── sets and meshes

CASES["sets-table"] = Case(
    data.sets,
    (
        train("sets", "--data classes.csv --data.test 0.2 --model.hidden 8 --train.batch 8", report=True),
        "predict run classes.csv --out answers.csv",
        "evaluate run --json",
        "evaluate run --data classes.csv --json",
        "look run --input s3",
        train("sets", "--data classes.csv --data.folds 2 --model.hidden 8", out="folds", steps=3),
        train("sets", "--data classes.csv --model additive --model.hidden 8", out="additive", steps=3),
        "look additive --input s3",
        "compare run additive --json",
    ),
    ("train sets --data numbers.csv --out none",),
)
CASES["sets-numbers"] = Case(
    data.sets,
    (
        train("sets", "--data numbers.csv --data.missing fill --model.hidden 8 --train.batch 8"),
        "predict run numbers.csv --out answers.csv",
        "evaluate run --data numbers.csv --json",
        "look run --input s3",
    ),
    ("train sets --data numbers.csv --data.missing mean --out none",),
)
CASES["sets-points"] = Case(
    data.sets,
    (
        train("sets", "--data points.csv --model settransformer --model.hidden 8 --train.batch 8", steps=10),
        "predict run points.csv --out answers.csv",
        "evaluate run --json",
        "look run --input s3",
    ),
    ("train sets --data points.csv --model additive --out none",),
)
CASES["sets-clouds"] = Case(
    data.sets,
    (
        train("sets", "--data clouds --data.points 32 --data.turn any --model.hidden 8 --train.batch 4", steps=4),
        "predict run clouds/flat/01.npy clouds/round/00.npy --json",
        "evaluate run --json",
        "look run --input clouds/flat/01.npy",
        "evaluate run --data clouds --json",
    ),
    ("predict run clouds/flat/99.npy",),
)
CASES["sets-made"] = Case(
    nothing,
    (
        train("sets", "--data.points 32 --model.hidden 8 --train.batch 8", out="solids", steps=3),
        train("sets", "--data statistics --model.hidden 8 --train.batch 8", out="statistics", steps=4),
        "evaluate statistics --json",
        train("sets", "--data clusters --model.hidden 8 --model.heads 2 --train.batch 4", out="clusters", steps=4),
        "look clusters",
        "evaluate clusters --json",
        "look solids",
    ),
    ("train sets --data statistic --out none",),
)
CASES["meshes"] = Case(
    data.meshes,
    (
        train("meshes", "--data pyramids --data.test 0.2 --model.hidden 4 --train.batch 8", report=True),
        "predict run pyramids --out answers.csv",
        "evaluate run --json",
        "look run --input pyramids/tall/01.obj",
        train("meshes", "--data pyramids --data.folds 2 --model.hidden 4", out="folds", steps=2),
        "evaluate run --data pyramids --json",
    ),
    ("train meshes --data photos --out none",),
)
CASES["meshes-vertices"] = Case(
    data.meshes,
    (
        train("meshes", "--data tips --model.hidden 4 --train.batch 8"),
        "predict run tips --out answers.csv",
        "evaluate run --json",
        "look run --input tips/01.ply",
    ),
    ("train meshes --data tips --data.targets missing.csv --out none",),
)

# ── graphs

CASES["graphs-nodes"] = Case(
    data.graphs,
    (
        train("graphs", "--data nodes.npz --data.test 0.2 --model.hidden 8", report=True),
        "predict run nodes.npz --out answers.csv",
        "evaluate run --json",
        "evaluate run --data nodes.npz --json",
        "look run --input 3",
        train("graphs", "--data nodes.npz --model.layer gat --model.hidden 8 --model.heads 2", out="gat", steps=4),
        "look gat --input 3",
        train("graphs", "--data nodes.npz --data.folds 2 --model.hidden 8", out="folds", steps=2),
        train("graphs", "--data amounts.npz --model.hidden 8", out="amounts", steps=4),
        "evaluate amounts --json",
        train("graphs", "--data nodes.npz --model.hidden 8 --train.decay 0", out="longer", steps=4),
        "train graphs --resume --out longer --train.steps 8 --no-report",
    ),
    ("train graphs --data linked/nodes.csv --out none",),
)
CASES["graphs-edges"] = Case(
    data.graphs,
    (
        train("graphs", "--data linked --data.test 0.2 --model.hidden 8"),
        "predict run linked --out answers.csv",
        "evaluate run --json",
        "look run --input n3",
    ),
    ("train graphs --data linked --model.layer gat --model.hidden 7 --model.heads 2 --out none",),
)
CASES["graphs-whole"] = Case(
    data.graphs,
    (
        train("graphs", "--data rings.npz --data.test 0.2 --model.hidden 8 --train.batch 8", steps=4),
        "predict run rings.npz --out answers.csv",
        "evaluate run --json",
        train("graphs", "--data rings.npz --model graphtransformer --train.batch 8" + SMALL, out="attends", steps=4),
        "look attends",
        "evaluate run --data rings.npz --json",
    ),
    ("predict run nodes.npz",),
)
CASES["graphs-sampled"] = Case(
    data.graphs,
    (
        train("graphs", "--data large --data.neighbours 3 --model.hidden 8 --train.batch 16"),
        "evaluate run --json",
        "predict run large --out answers.csv",
        "look run --input 3",
    ),
    ("train graphs --data large --data.neighbours 0 --out none",),
)
CASES["graphs-digits"] = Case(
    nothing,
    (train("graphs", "--model.hidden 8", steps=5), "evaluate run --json", "look run --input 3"),
    ("predict run",),
)

# ── series

SHORT = " --data.context 48 --model.depth 1 --train.batch 4" + SMALL

CASES["series-forecast"] = Case(
    data.series,
    (
        train("series", "--data load.csv --data.horizon 6" + SHORT, report=True),
        "predict run load.csv --horizon 8 --out forecast.csv",
        "evaluate run --json",
        "generate run --count 2 --seed 1",
        "look run",
        "evaluate run --data load.csv --json",
    ),
    ("train series --data load.csv --data.folds 3 --out none",),
)
CASES["series-classes"] = Case(
    data.series,
    (
        train("series", "--data waves.npz --task classify --model.depth 1 --train.batch 8" + SMALL),
        "predict run waves.npz --out answers.csv",
        "evaluate run --json",
        train(
            "series",
            "--data waves.npz --task classify --data.folds 2 --model lstm --model.dim 16",
            out="folds",
            steps=2,
        ),
        "evaluate run --data waves.npz --json",
        "look run",
    ),
    ("generate run",),
)
CASES["series-gaps"] = Case(
    data.series,
    (
        train("series", "--data gaps.csv --task fill" + SHORT),
        "predict run gaps.csv --out filled.csv",
        "evaluate run --json",
        "look run",
    ),
    ("predict run waves.npz",),
)

# ── autoencoders

CASES["autoencoder-images"] = Case(
    data.images,
    (
        train("autoencoder", "--data arrays.npz --model.latent 2 --model.hidden 16 --train.batch 16"),
        "generate run --count 4 --seed 1 --out sheet.png",
        "predict run photos/dark/00.png --out clean.png --codes codes.npz",
        "evaluate run --samples 4 --json",
        "look run",
        train(
            "autoencoder",
            "--data photos --model denoising --model.body vit --model.depth 1" + SMALL,
            out="clean",
            steps=3,
        ),
        "evaluate clean --json",
        train("images", "--data photos --from clean", out="lent", steps=2),
        "evaluate run --data photos --json",
    ),
    ("train autoencoder --data arrays.npz --model.latent 0 --out none",),
)
CASES["autoencoder-rows"] = Case(
    data.rows,
    (
        train("autoencoder", "--data measured.csv --model.latent 2 --model.hidden 16 --train.batch 16"),
        "generate run --count 3 --seed 1 --out made.csv",
        "predict run measured.csv --out answers.csv --codes codes.csv",
        "evaluate run --samples 4 --json",
        train("autoencoder", "--data measured.csv --model autoencoder --model.hidden 16", out="plain", steps=3),
        "evaluate plain --json",
        "look run",
    ),
    ("generate plain --count 3",),
)
CASES["autoencoder-points"] = Case(
    data.sets,
    (
        train("autoencoder", "--data clouds --data.points 16 --model.latent 2 --model.hidden 16 --train.batch 4"),
        "evaluate run --samples 2 --json",
        "predict run clouds/flat/01.npy --json",
        "look run",
    ),
    ("train autoencoder --data clouds --model denoising --model.noise -1 --out none",),
)

# ── worlds

CASES["world-episodes"] = Case(
    data.episodes,
    (
        train("world", "--data episodes.npz --train.policy none --model.dim 16 --model.heads 2 --train.world-steps 2"),
        "predict run episodes.npz --out answers.csv",
        "evaluate run --json",
        "look run --input episodes.npz",
        "generate run --steps 5 --seed 1 --out dream.npz",
        "evaluate run --data episodes.npz --json",
        train(
            "world",
            "--data episodes.npz --train.policy none --model.dim 16 --model.heads 2 --train.decay 0",
            out="longer",
            steps=4,
        ),
        "train world --resume --out longer --train.steps 8 --train.save-minutes 1",
    ),
    ("train world --data episodes.npz --train.policy made --out none",),
)
CASES["world-cartpole"] = Case(
    nothing,
    (
        train(
            "world",
            "--data.real-steps 120 --data.rounds 2 --train.first-steps 1 --train.round-steps 1 --train.imagined 8"
            " --train.horizon 4 --train.world-steps 2 --train.minibatch 16 --train.episodes 2 --model.dim 16 --model.heads 2",
            steps=3,
        ),
        "evaluate run --episodes 2 --seed 1 --json",
        "generate run --steps 5 --seed 1 --out dream.npz",
        "look run",
    ),
    ("train world --data gymnasium:Missing-v0 --out none",),
)
CASES["world-pendulum"] = Case(
    nothing,
    (
        train(
            "world",
            "--data gymnasium:Pendulum-v1 --data.real-steps 400 --data.rounds 2 --train.first-steps 1 --train.round-steps 1"
            " --train.imagined 8 --train.horizon 4 --train.world-steps 2 --train.minibatch 16 --train.episodes 2 --model gru",
            steps=3,
        ),
        "evaluate run --episodes 1 --seed 1 --json",
        "look run",
    ),
    ("train world --data gymnasium:Pendulum-v1 --data.rounds 0 --out none",),
)

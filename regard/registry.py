"""The registry: every part that has a name, where it lives, and one sentence about it.

Only strings, so that listing them imports nothing; `find` imports the one that is asked for. To add a part,
add a line; to add a category, add a `Category` to the table at the end. Another package offers parts by entry
points of the group `regard.CATEGORY`. A test imports every entry.
"""

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from regard.errors import RegardError, did_you_mean


class Entry(NamedTuple):
    """One part: `target` is "module:attribute"; of a model, also the `symmetry` that its tiny() declares, in
    words."""

    target: str
    sentence: str
    symmetry: str = ""


class Category(NamedTuple):
    """Parts that can stand in for each other, and what they are for."""

    sentence: str
    entries: dict[str, Entry]


def categories() -> tuple[str, ...]:
    """The names of all categories, in reading order."""
    return tuple(_CATEGORIES)


def describe(category: str) -> str:
    """What the parts of this category are for."""
    return _category(category).sentence


def entries(category: str) -> dict[str, Entry]:
    """All parts of one category by name, in reading order: our own, then those of other packages under names
    of their own."""
    own = _category(category).entries
    return own | {name: entry for name, entry in _offered_by_others().get(category, {}).items() if name not in own}


def find(category: str, name: str) -> Any:
    """The class or function itself: find("masks", "causal") is regard.attention.masks.Causal."""
    entry = _category(category).entries.get(name) or entries(category).get(name)
    if entry is None:
        raise RegardError(f"there is no '{name}' among the {category}; {_advice(name, entries(category))}")
    module, attribute = entry.target.split(":")
    return getattr(import_module(module), attribute)


@cache
def _offered_by_others() -> dict[str, dict[str, Entry]]:
    """Parts that other installed packages offer, by category: entry points of the group `regard.CATEGORY`."""
    from importlib.metadata import entry_points

    found: dict[str, dict[str, Entry]] = {}
    points = entry_points()
    for group in (each for each in points.groups if each.startswith("regard.")):
        for point in points.select(group=group):
            if point.dist is None:
                about = None
            else:
                about = point.dist.metadata["Summary"]
            entry = Entry(point.value, about or f"from {point.value.partition('.')[0]}")
            found.setdefault(group.removeprefix("regard."), {})[point.name] = entry
    return found


def _category(category: str) -> Category:
    if category not in _CATEGORIES:
        raise RegardError(f"there is no category '{category}'; {_advice(category, _CATEGORIES)}")
    return _CATEGORIES[category]


def _advice(name: str, known: dict[str, Any]) -> str:
    return f"{did_you_mean(name, known)}known: {', '.join(known)}"


def _at(package: str, lines: dict[str, tuple[str, ...]]) -> dict[str, Entry]:
    return {name: Entry(f"{package}.{target}", *more) for name, (target, *more) in lines.items()}


_CATEGORIES: dict[str, Category] = {
    "masks": Category(
        "which keys a query may attend to; they combine with & | ~",
        _at(
            "regard.attention",
            {
                "full": ("masks:Full", "everything may attend to everything"),
                "causal": ("masks:Causal", "nothing later than here: there ≤ here, the present included"),
                "window": ("masks:Window", "no further away than a reach, along every axis"),
                "prefix": ("masks:Prefix", "causal, but the first k places are seen by all"),
                "order": ("masks:Order", "causal in an order of its own: there's rank ≤ here's"),
                "padding": ("masks:Padding", "real keys only, given by lengths or by a bool tensor"),
                "documents": ("masks:Documents", "only within the same document of a packed sequence"),
                "bigbird": ("masks:BigBird", "blocks: near ones, global ones, and some drawn by a seed"),
                "edges": ("edges:Edges", "along the edges of a graph, from source to target"),
                "dense": ("masks:Dense", "any bool tensor, True where attention is allowed"),
            },
        ),
    ),
    "positions": Category(
        "how tokens, or q and k, learn where they are",
        _at(
            "regard.attention",
            {
                "none": ("positions:Nothing", "no position: tokens stay a set"),
                "sinusoidal": ("positions:Sinusoidal", "adds sines on even and cosines on odd channels"),
                "learned": ("positions:Learned", "adds one learned vector for each place"),
                "grid": ("positions:LearnedGrid", "adds a learned vector for row and column, and for places between"),
                "concatenated": ("positions:Concatenated", "appends another position's vector instead of adding it"),
                "rotary": ("positions:Rotary", "turns q and k by where · frequency: scores know differences only"),
            },
        ),
    ),
    "biases": Category(
        "what is added to the scores",
        _at(
            "regard.attention",
            {
                "alibi": ("biases:ALiBi", "minus slope times distance, one slope for each head"),
                "relative": (
                    "biases:Relative",
                    "a learned vector for each clipped difference, in keys and values (Shaw)",
                ),
                "buckets": ("biases:Buckets", "a learned number for each bucket of differences, wider far away (T5)"),
                "distance": ("biases:Distance", "a learned number for each distance, in space or along edges"),
                "offsets": ("biases:Offsets", "a learned number for each difference in row and column (Swin)"),
            },
        ),
    ),
    "approximations": Category(
        "self-attention in less than n² steps, in the place of attend",
        _at(
            "regard.attention.approximate",
            {
                "performer": ("performer:Performer", "softmax estimated by random features, linear in n"),
                "linformer": ("linformer:Linformer", "keys and values projected to a fixed number; not causal"),
                "lsh": ("lsh:LSH", "exact attention within buckets of a random hash (Reformer)"),
            },
        ),
    ),
    "weights": Category(
        "how scores become weights, in the place of softmax",
        _at(
            "regard.attention",
            {
                "sparsemax": ("weights:Sparsemax", "the nearest weights to the scores; most are zero"),
                "entmax": ("weights:Entmax", "1.5-entmax: between softmax and sparsemax"),
            },
        ),
    ),
    "kernels": Category(
        "how attention is computed; all give the same numbers",
        _at(
            "regard.attention",
            {
                "reference": ("kernels.reference:reference", "the definition: dense, and easy to read"),
                "plain": (
                    "kernels.plain:plain",
                    "two matrix products around a softmax, for windows and short bfloat16 sequences",
                ),
                "fused": ("kernels.fused:fused", "PyTorch's own fused attention, where that is exact"),
                "stairs": (
                    "kernels.causal_blocks:stairs",
                    "strip by strip with all weights kept, for training on short causal sequences",
                ),
                "tiled": ("kernels.tiled:tiled", "block by block, memory linear in length, empty blocks skipped"),
                "edges": ("edges:edges", "along the edges of a graph alone, memory linear in the edges"),
            },
        ),
    ),
    "layers": Category(
        "what networks are made of, each b n d -> b n d",
        _at(
            "regard.nn",
            {
                "attention": (
                    "attention:Attention",
                    "project, turn, attend, project back; self or cross, grouped heads",
                ),
                "block": ("block:Block", "attention and an MLP, each with its norm and its residual"),
                "stack": ("block:Stack", "blocks one after another"),
                "graphconv": (
                    "graph_conv:GraphConv",
                    "θ₁ᵀx_j + Σ θ₂ᵀx_i over the neighbours: sum, mean or max; nodes n d -> n d",
                ),
                "gcn": (
                    "graph_conv:GCN",
                    "neighbours and the node itself, evened out by their degrees; nodes n d -> n d",
                ),
                "gat": ("graph_conv:GAT", "attention along edges with additive scores, and GATv2; nodes n d -> n d"),
                "meshconv": (
                    "mesh_conv:MeshConv",
                    "convolution on triangles with parallel transport; vertices n 1+2M c",
                ),
                "recurrent": (
                    "recurrent:Recurrent",
                    "LSTM or GRU layers, in one or both directions, by torch's fused calls",
                ),
                "gatedconv": (
                    "convolve:GatedConv",
                    "a convolution over a sequence, gated by a second one, with a residual",
                ),
                "layernorm": ("norm:LayerNorm", "mean 0 and variance 1 over the width, then scale and shift"),
                "rmsnorm": ("norm:RMSNorm", "root mean square 1 over the width, then scale"),
                "mlp": ("mlp:MLP", "two linear maps with a nonlinearity between, each token alone"),
                "swiglu": ("mlp:SwiGLU", "an MLP whose inner channels are gated by silu"),
                "experts": ("moe:Experts", "many MLPs, of which each token passes a few; no token is dropped"),
                "lora": ("lora:LoRA", "a linear map that stays, and a small one beside it that learns"),
            },
        ),
    ),
    "scores": Category(
        "how a recurrent decoder compares its state with the states it attends to",
        _at(
            "regard.nn",
            {
                "dot": ("recurrent_decoder:Dot", "the product sᵀ m_j (Luong)"),
                "general": ("recurrent_decoder:General", "the product with a learned matrix, sᵀ W m_j (Luong)"),
                "additive": ("recurrent_decoder:Additive", "a small network, vᵀ tanh(W s + U m_j) (Bahdanau)"),
            },
        ),
    ),
    "pools": Category(
        "many tokens to one vector, b n d -> b d, blind to order and to padding",
        _at(
            "regard.nn",
            {
                "mean": ("pool:MeanPool", "the mean of the real tokens"),
                "sum": ("pool:SumPool", "the sum of the real tokens"),
                "max": ("pool:MaxPool", "the largest of the real tokens, channel by channel"),
                "attention": ("pool:AttentionPool", "learned queries attend to the real tokens"),
                "class": ("pool:ClassToken", "one more token, without a place, read out at the end"),
                "first": ("pool:FirstToken", "a layer on the token with the first place, as BERT's [CLS]"),
            },
        ),
    ),
    "embeddings": Category(
        "what comes in -> b n d",
        _at(
            "regard.nn",
            {
                "tokens": ("embed:TokenEmbedding", "one learned vector for each token id"),
                "steps": ("embed:StepEmbedding", "a linear map of each real-valued step"),
                "patches": ("embed:PatchEmbedding", "a linear map of each square of an image"),
            },
        ),
    ),
    "memories": Category(
        "the road to attention: a sequence summed up in one vector",
        _at(
            "regard.nn",
            {
                "composite": ("memory:Composite", "Σ θᵀx̄_i: everything counts the same"),
                "fading": ("memory:Fading", "Σ γ^(T−i) θᵀx̄_i: the past fades at one rate"),
                "forgetting": (
                    "memory:Forgetting",
                    "h_t = σ(θ_λᵀx̄_t) ⊙ h_(t−1) + θᵀx̄_t: each token decides what stays",
                ),
                "gated": ("memory:Gated", "Σ σ(θ_λᵀx̄_i) θᵀx̄_i: each token decides what it adds"),
                "softmax": ("memory:Softmax", "the gates share one softmax: attention with one learned query"),
            },
        ),
    ),
    "models": Category(
        "whole networks; symmetry as declared by each model's tiny() instance",
        _at(
            "regard.models",
            {
                "mlp": ("mlp:MLP", "all numbers of a set in one row: baseline without permutation symmetry", "nothing"),
                "deepsets": (
                    "deep_sets:DeepSets",
                    "ρ(Σφ(x)), or layers that see each element and the pool of all",
                    "permutations",
                ),
                "pointnet": (
                    "point_net:PointNet",
                    "learned alignment of a point cloud, one MLP for all points, max pool",
                    "permutations",
                ),
                "settransformer": (
                    "set_transformer:SetTransformer",
                    "elements attend to each other; learned seed vectors pool them",
                    "permutations",
                ),
                "additive": (
                    "additive:Additive",
                    "evidence of each token or element alone; the output is exactly its sum",
                    "permutations",
                ),
                "graphnet": (
                    "graph_net:GraphNet",
                    "message passing between neighbours: graph convolution, GCN, GAT, GATv2",
                    "permutations",
                ),
                "graphtransformer": (
                    "graph_transformer:GraphTransformer",
                    "nodes attend along edges, or to all with distances and spectral places",
                    "permutations",
                ),
                "meshnet": (
                    "mesh_net:MeshNet",
                    "convolution on triangle meshes with parallel transport: no frame matters",
                    "gauges and permutations and rotations of space and scalings and translations",
                ),
                "lenet": ("convnets:LeNet", "two convolutions, then linear layers that know every place", "nothing"),
                "resnet": (
                    "convnets:ResNet",
                    "residual convolutions; around the border they keep shifts",
                    "shifts by multiples of 2",
                ),
                "resnet9": (
                    "convnets:ResNet9",
                    "nine layers of convolutions that learn from small images in minutes",
                    "shifts by multiples of 4",
                ),
                "densenet": (
                    "convnets:DenseNet",
                    "each layer sees all before it; keeps what ResNet keeps",
                    "shifts by multiples of 2",
                ),
                "groupcnn": (
                    "group_cnn:GroupCNN",
                    "filters in all their poses, p4 or p4m",
                    "quarter turns and reflections and shifts by multiples of 2",
                ),
                "vit": (
                    "vit:ViT",
                    "patches attend to each other; without positions a bag of them",
                    "permutations and shifts by multiples of 4",
                ),
                "swin": ("swin:Swin", "attention in windows that shift; cost linear in the image", "nothing"),
                "decoder": (
                    "decoder:Decoder",
                    "causal LM: predicts the next token, with the parts of GPT and Llama",
                    "shifts",
                ),
                "encoder": (
                    "encoder:Encoder",
                    "masked LM (BERT): predicts masked tokens, or classifies texts",
                    "shifts",
                ),
                "permutation": (
                    "permutation_lm:PermutationLM",
                    "permutation LM (XLNet): predicts tokens in any order, by two streams",
                    "shifts",
                ),
                "lstm": (
                    "recurrent:LSTM",
                    "gates and a cell, token after token: a language model or a classifier",
                    "shifts",
                ),
                "gru": (
                    "recurrent:GRU",
                    "one gated state, token after token: a language model or a classifier",
                    "shifts",
                ),
                "conv": ("conv:Conv", "gated convolutions: a causal language model, or a classifier", "shifts"),
                "encoderdecoder": (
                    "encoder_decoder:EncoderDecoder",
                    "the transformer for pairs of sequences: encoder, decoder, cross-attention",
                    "shifts",
                ),
                "lstmseq2seq": (
                    "recurrent:LSTMSeq2Seq",
                    "LSTM encoder and decoder with Luong's, Bahdanau's or no attention",
                    "shifts",
                ),
                "gruseq2seq": (
                    "recurrent:GRUSeq2Seq",
                    "GRU encoder and decoder with Luong's, Bahdanau's or no attention",
                    "shifts",
                ),
                "convseq2seq": (
                    "conv:ConvSeq2Seq",
                    "gated convolutions, with attention in each layer of the decoder",
                    "nothing",
                ),
                "vae": (
                    "autoencoder:VAE",
                    "variational autoencoder: codes near a normal prior, which can be sampled",
                    "permutations",
                ),
                "autoencoder": (
                    "autoencoder:Autoencoder",
                    "an input through a small code and back: MLP, convolutions, ViT or set",
                    "shifts by multiples of 4",
                ),
                "denoising": (
                    "autoencoder:Denoising",
                    "autoencoder that is given corrupted inputs and gives clean ones back",
                    "nothing",
                ),
                "transformerworld": (
                    "world:TransformerWorld",
                    "world model: what comes after an action, from attention to the last steps",
                    "shifts",
                ),
                "gruworld": (
                    "recurrent:GRUWorld",
                    "world model: what comes after an action, from one gated state",
                    "shifts",
                ),
                "transformerseries": (
                    "series:TransformerSeries",
                    "series of numbers: what comes, what is missing or which class, by attention",
                    "shifts",
                ),
                "lstmseries": ("recurrent:LSTMSeries", "series of numbers, read by an LSTM", "shifts"),
                "gruseries": ("recurrent:GRUSeries", "series of numbers, read by gated recurrent units", "shifts"),
                "convseries": ("conv:ConvSeries", "series of numbers, read by gated convolutions", "shifts"),
            },
        ),
    ),
    "recipes": Category(
        "what regard train takes: a kind of data, with good defaults for it",
        _at(
            "regard.recipes",
            {
                "text": ("text.recipe:RECIPE", "a language model of your text, or a classifier of texts with labels"),
                "translation": (
                    "translation.recipe:RECIPE",
                    "a translator from pairs of sentences, or of anything written in two ways",
                ),
                "sets": ("sets.recipe:RECIPE", "a model of point clouds, of tables in long form, or of synthetic sets"),
                "images": (
                    "images.recipe:RECIPE",
                    "a classifier of your images: ResNet-9, ViT, Swin or convolutions that know turns",
                ),
                "autoencoder": (
                    "autoencoder.recipe:RECIPE",
                    "codes, new samples and clean copies of images, tables or point clouds",
                ),
                "graphs": (
                    "graphs.recipe:RECIPE",
                    "predictions for nodes, edges or whole graphs, from edge lists and other files",
                ),
                "meshes": ("meshes.recipe:RECIPE", "a model of surfaces made of triangles, from files or synthetic"),
                "world": (
                    "world.recipe:RECIPE",
                    "a world model, and a policy that learns inside it, of environments or episodes",
                ),
                "series": (
                    "series.recipe:RECIPE",
                    "forecasts, classes or missing values of series of numbers over time",
                ),
            },
        ),
    ),
    "laws": Category(
        "what a model may promise; regard check measures it",
        _at(
            "regard.symmetry",
            {
                "permutation": (
                    "laws:PERMUTATION",
                    "values move among the tokens, places stay: the output moves along, or stays",
                ),
                "shift": (
                    "laws:SHIFT",
                    "places grow by a constant, or an image rolls: the output stays, or rolls along",
                ),
                "rotation": ("laws:ROTATION", "an image or a cloud of points turns: the output turns along, or stays"),
                "reflection": (
                    "laws:REFLECTION",
                    "an image or a cloud of points is mirrored: the output is too, or stays",
                ),
                "scaling": ("laws:SCALING", "values times a positive number: the output follows or stays; if declared"),
                "translation": (
                    "laws:TRANSLATION",
                    "points or values move by a vector: the output follows or stays; if declared",
                ),
                "relabelling": (
                    "laws:RELABELLING",
                    "nodes get other numbers, and edges too: the output moves along, or stays",
                ),
                "gauge": ("gauge:GAUGE", "every vertex of a mesh gets another frame: scalars stay, arrows turn along"),
                "reordering": (
                    "hygiene:REORDERING",
                    "tokens move together with their places: each output moves with its token",
                ),
                "padding": ("hygiene:PADDING", "nothing depends on what padding holds, or on how much of it there is"),
                "neighbours": ("hygiene:NEIGHBOURS", "a row does not depend on the other rows of its batch"),
                "causality": ("causality:CAUSALITY", "output i does not depend on inputs after i"),
                "cache": ("causality:CACHE", "step by step with a cache gives what all at once gives"),
                "edge_order": ("hygiene:EDGE_ORDER", "edges are listed in another order: the output stays"),
                "determinism": ("hygiene:DETERMINISM", "the same input gives the same output again"),
                "precision": ("reach:PRECISION", "in bfloat16 the output stays near that in float32"),
                "reach": ("reach:REACH", "every token matters to some output: none is dead"),
            },
        ),
    ),
}

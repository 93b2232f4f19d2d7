"""What a model costs: parameters, memory, and operations for each token."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import kernels
from regard.attention.biases import Relative
from regard.models.attentions import BigBirdAttention, LinformerAttention, LSHAttention, PerformerAttention, window_of
from regard.models.seq2seq import Seq2Seq
from regard.models.sequence_model import Head, SequenceConfig, SequenceModel
from regard.nn.linear import ExpertLinear
from regard.nn.moe import count_active, find_experts
from regard.nn.pool import AttentionPool


def cost(model: SequenceModel, context: int | None = None) -> dict[str, int]:
    """Parameters and their bytes, and for each token of a sequence of `context` tokens: operations and bytes
    of the cache.

    An operation is one multiplication or one addition of a matrix product; everything else is small beside
    them. A token costs 2 for each weight of a linear map it passes, and 4·dim in each block for each token it
    attends to: as is usual, a causal mask counts as if it hid nothing, a window counts as it is wide.
    Training costs three times as much: the gradient is as much work again for the weights, and again for what
    they were applied to. A token passes few of several experts: `active` are the parameters that it passes at most.
    """
    config: SequenceConfig = model.config
    if context is None:
        context = config.context
    forward = round(_blocks(model, _seen(config, context)) + _head(model, context))
    parameters = list(model.parameters())
    bytes_each = parameters[0].element_size()
    return {
        "parameters": sum(p.numel() for p in parameters),
        "active": count_active(model),
        "bytes": sum(p.numel() * p.element_size() for p in parameters),
        "forward_flops": forward,
        "training_flops": 3 * forward,
        "cache_bytes": _cached(config) * bytes_each,
    }


def cost_of_pair(model: Seq2Seq, source: int, target: int) -> dict[str, int]:
    """Parameters and their bytes of an encoder-decoder, and the operations for one pair of so many tokens, as they
    are counted in `cost`.

    The target's tokens are those that the decoder reads: the first one and all but the end, so as many as it predicts.
    """
    inputs = {"source": torch.zeros(1, source, dtype=torch.long), "target": torch.zeros(1, target, dtype=torch.long)}
    device = next(model.parameters()).device
    forward = count_operations(model, **{name: x.to(device) for name, x in inputs.items()})
    parameters = list(model.parameters())
    return {
        "parameters": sum(p.numel() for p in parameters),
        "active": count_active(model),
        "bytes": sum(p.numel() * p.element_size() for p in parameters),
        "forward_flops": forward,
        "training_flops": 3 * forward,
    }


def _cached(config: SequenceConfig) -> int:
    """Numbers that the caches keep of one token. A performer keeps a sum, whatever the length."""
    if config.attention.kind == "performer":
        return 0
    return 2 * config.depth * (config.kv_heads or config.heads) * config.channels


def count_operations(model: nn.Module, **inputs: Any) -> int:
    """Operations of one forward of any model, counted while it runs; as in `cost`, one multiplication or one
    addition of a matrix product is one, and a mask counts as if it hid nothing. Training costs three times as
    much.

    It runs on a copy in float64, because there torch's fused recurrent calls are made of products that can be
    counted. Made for encoder-decoders, whose two lengths `cost` does not know: give inputs of the lengths that count.
    """
    from torch.utils.flop_counter import FlopCounterMode  # here: importing it takes a while

    inputs = {name: x.double() if _is_real(x) else x for name, x in inputs.items()}
    with torch.no_grad(), kernels.only("reference"), FlopCounterMode(display=False) as counter:
        deepcopy(model).double().eval()(**inputs)
    return int(counter.get_total_flops())


def _is_real(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _seen(config: SequenceConfig, context: int) -> int:
    """How many tokens one token attends to, or how many would cost as much."""
    chosen = config.attention
    if isinstance(chosen, PerformerAttention):  # features of query and key, and two products with the sum over the past
        return 2 * chosen.features
    if isinstance(chosen, LinformerAttention):  # the projection of keys and values, too
        return 2 * chosen.projected
    if isinstance(chosen, LSHAttention):
        return chosen.rounds * chosen.block * (2 if config.causal else 3)
    if isinstance(chosen, BigBirdAttention):
        return min(context, chosen.block * (4 + 2 * chosen.random_blocks))
    window = window_of(config)
    if window is None:
        return context
    return min(context, window if config.causal else 2 * window - 1)


def _blocks(model: SequenceModel, keys: int) -> float:
    """Operations of all blocks for one token."""
    stack, config = model.stack, model.config
    dim = config.heads * config.channels  # of all heads
    maps = sum(2 * part.weight.numel() for part in stack.modules() if isinstance(part, nn.Linear | ExpertLinear))
    maps -= sum(2 * layer.idle_parameters for _, layer in find_experts(stack))
    tables = 0
    for i in range(len(stack.blocks)):
        bias = stack.bias_of(i)
        if isinstance(bias, Relative):  # q times its table of keys, and weights times its table of values
            tables += 2 * dim * (2 * bias.reach + 1) * (2 if bias.gives_values else 1)
    return maps + tables + 4 * dim * keys * len(stack.blocks)


def _head(model: SequenceModel, context: int) -> float:
    """Operations for one token after the blocks; what happens once for all tokens is shared among them."""
    if isinstance(model.head, Head):
        weight = model.embed.weight if model.head.weight is None else model.head.weight
        return 2 * weight.numel()
    pool, dim = getattr(model, "pool", None), model.config.dim
    each, once = (0, sum(2 * part.weight.numel() for part in model.head.modules() if isinstance(part, nn.Linear)))
    if isinstance(pool, AttentionPool):
        each, once = (
            4 * dim * dim + 4 * dim,
            once + 2 * dim * dim,
        )  # keys and values of each token; the mix of them all
    return each + once / context

"""A random small model of theirs -> ours -> theirs: the same logits both ways, the same weights to the bit."""

import pytest
import torch

from regard.pretrained.hugging_face import read_directory
from tests.pretrained.theirs import check_round_trip, save_random

pytest.importorskip("transformers")

IDS = torch.randint(29, (2, 14), generator=torch.Generator().manual_seed(1))
SIZES = {
    "vocab_size": 29,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 8}
GPT2 = {"vocab_size": 29, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32}
GROUPED = {**SIZES, "num_key_value_heads": 2}
WINDOWED = {**GROUPED, "sliding_window": 4}
CASES = {
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2 untied, relu": (
        "GPT2LMHeadModel",
        GPT2 | {"tie_word_embeddings": False, "n_inner": 40, "activation_function": "relu", "layer_norm_epsilon": 1e-3},
    ),
    "llama": ("LlamaForCausalLM", SIZES),
    "llama grouped, tied": ("LlamaForCausalLM", GROUPED | {"tie_word_embeddings": True, "rms_norm_eps": 1e-3}),
    "llama with biases": ("LlamaForCausalLM", SIZES | {"attention_bias": True, "mlp_bias": True}),
    "llama with biases of the mlp": ("LlamaForCausalLM", SIZES | {"mlp_bias": True}),
    "llama with wide heads": ("LlamaForCausalLM", GROUPED | {"head_dim": 10, "attention_bias": True}),
    "llama linear": (
        "LlamaForCausalLM",
        SIZES | {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}},
    ),
    "llama3": ("LlamaForCausalLM", SIZES | {"rope_parameters": LLAMA3, "head_dim": 32}),
    "llama yarn": ("LlamaForCausalLM", SIZES | {"rope_parameters": YARN, "head_dim": 32}),
    "mistral": ("MistralForCausalLM", WINDOWED),
    "mistral without window": ("MistralForCausalLM", GROUPED | {"sliding_window": None, "head_dim": 8}),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen2 windowed": ("Qwen2ForCausalLM", WINDOWED | {"use_sliding_window": True, "max_window_layers": 0}),
    "qwen3": ("Qwen3ForCausalLM", GROUPED | {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen3 with biases": ("Qwen3ForCausalLM", GROUPED | {"head_dim": 6, "attention_bias": True}),
    "mixtral": ("MixtralForCausalLM", GROUPED | {"num_local_experts": 4, "router_aux_loss_coef": 0.02}),
    "mixtral of three, windowed": (
        "MixtralForCausalLM",
        WINDOWED | {"num_local_experts": 5, "num_experts_per_tok": 3, "tie_word_embeddings": True},
    ),
    "gpt_neox": (
        "GPTNeoXForCausalLM",
        SIZES | {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.4}},
    ),
    "gpt_neox one after the other": (
        "GPTNeoXForCausalLM",
        SIZES
        | {"use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new", "num_attention_heads": 3},
    ),
}


@pytest.fixture(scope="module", params=list(CASES))
def pair(request, tmp_path_factory):
    name, options = CASES[request.param]
    folder = tmp_path_factory.mktemp("theirs")
    model = save_random(name, options, folder)
    return model, read_directory(folder), folder


def test_logits_are_theirs(pair):
    model, found, _ = pair
    with torch.no_grad():
        theirs, ours = model(IDS).logits, found.build()(IDS)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert theirs.std() > 0.05


def test_it_goes_back_equal_to_the_bit(pair, tmp_path):
    model, found, folder = pair
    again = check_round_trip(found, folder, tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(again(IDS).logits, model(IDS).logits, rtol=1e-6, atol=1e-6)

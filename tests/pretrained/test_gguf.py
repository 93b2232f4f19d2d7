"""GGUF: tensors of every type, models equal to those they were made of, and files that are damaged on purpose."""

import contextlib
import struct
import sys

import numpy as np
import pytest
import torch

from regard.data.tokenizer import FRAMED, from_json
from regard.errors import RegardError
from regard.pretrained.gguf import read_gguf
from regard.pretrained.gguf_file import GGUFFile
from tests.pretrained.theirs import save_random

gguf = pytest.importorskip("gguf")
pytest.importorskip("transformers")

IDS = torch.randint(32, (2, 14), generator=torch.Generator().manual_seed(1))
SIZES = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
CASES = {
    "llama": ("LlamaForCausalLM", SIZES | {"rms_norm_eps": 1e-4}),
    "llama tied, with biases": ("LlamaForCausalLM", SIZES | {"tie_word_embeddings": True, "attention_bias": True}),
    "llama3": ("LlamaForCausalLM", SIZES | {"rope_parameters": LLAMA3, "head_dim": 32}),
    "llama linear": (
        "LlamaForCausalLM",
        SIZES | {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 100.0}},
    ),
    "qwen2": ("Qwen2ForCausalLM", SIZES),
    "qwen3": ("Qwen3ForCausalLM", SIZES | {"head_dim": 16}),
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers": "blk",
}


def permute(weight, heads):
    """As llama.cpp's converter does for the architecture llama."""
    shape = weight.shape
    return weight.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def write_gguf(path, model, kind=None, facts=()):
    """A model of theirs as a file; with a kind, its matrices are quantised."""
    config = model.config
    writer = gguf.GGUFWriter(path, config.model_type)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        plain = 10000.0 ** (-torch.arange(0, 32, 2) / 32)
        factors = (plain / model.model.rotary_emb.inv_freq).numpy()
        writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    for add in facts:
        add(writer)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = tensor.numpy()
        if config.model_type == "llama":
            if "q_proj" in name:
                array = permute(array, config.num_attention_heads)
            if "k_proj" in name:
                array = permute(array, config.num_key_value_heads)
        for theirs, short in NAMES.items():
            name = name.replace(theirs, short)
        array = np.ascontiguousarray(array)
        if kind is not None and array.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return save_random(*CASES["llama"], tmp_path_factory.mktemp("theirs"))


@pytest.mark.parametrize("kind", list(gguf.GGMLQuantizationType), ids=lambda kind: kind.name)
def test_tensors_of_every_type(kind, tmp_path):
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(int(kind)).integers(0, 256, (3, 5, 2 * size), dtype=np.uint8)
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("first", np.ones(3, np.float32))
    writer.add_tensor("blocks", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GGUFFile(path)
    assert file.tensors["blocks"].shape == (3, 5, 2 * numbers) and file.read("first").tolist() == [1, 1, 1]
    assert file.blocks(file.tensors["blocks"]).tobytes() == raw.tobytes()
    if kind.name in ("Q8_1", "Q8_K", "Q1_0", "F64", "I8", "I16", "I32", "I64"):
        with pytest.raises(RegardError, match=rf"blocks is stored as {kind.name}\b"):
            file.read("blocks")
        return
    with np.errstate(all="ignore"):
        rows = [gguf.quants.dequantize(row, kind) for row in raw.reshape(15, -1)]
    wanted = np.stack(rows).reshape(3, 5, -1)
    assert file.read("blocks").dtype == torch.float32
    np.testing.assert_array_equal(file.read("blocks").numpy(), wanted)  # NaN equals NaN


@pytest.mark.parametrize("case", list(CASES))
def test_logits_are_theirs(case, tmp_path):
    model = save_random(*CASES[case], tmp_path / "theirs")
    found = read_gguf(write_gguf(tmp_path / "model.gguf", model))
    with torch.no_grad():
        torch.testing.assert_close(found.build()(IDS), model(IDS).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0"])
def test_quantised_weights_are_read(name, llama, tmp_path):
    kind = gguf.GGMLQuantizationType[name]
    found = read_gguf(write_gguf(tmp_path / "model.gguf", llama, kind))
    matrix = llama.state_dict()["model.layers.1.mlp.down_proj.weight"].numpy()
    wanted = gguf.quants.dequantize(gguf.quants.quantize(matrix, kind), kind).astype(np.float32)
    assert np.array_equal(found.state["stack.blocks.1.mlp.f.down.weight"].numpy(), wanted)
    assert name in found.notes[0]


def byte_pairs(writer):
    signs = [chr(i) for i in range(ord("a"), ord("a") + 26)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*signs, "ab", "abc", "1", "2", "\u0120", "<|end|>"])
    writer.add_token_merges(["a b", "ab c"])
    writer.add_token_types([1] * 31 + [3])
    writer.add_bos_token_id(31)
    writer.add_eos_token_id(31)
    writer.add_add_bos_token(True)


def pieces(writer):
    space = "\u2581"
    tokens = ["<unk>", "<s>", "</s>", *(chr(i) for i in range(ord("a"), ord("a") + 24)), space, "ab", space + "ab"]
    tokens += ["bc", space + "abc"]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 27 + [-9.0, -1.0, -2.0, -3.0, -4.0])
    writer.add_token_types([2, 3, 3] + [1] * 29)
    writer.add_bos_token_id(1)


def test_tokenizers_come_along(llama, tmp_path):
    found = read_gguf(write_gguf(tmp_path / "pairs.gguf", llama, facts=[byte_pairs]))
    tokenizer = from_json({**found.tokenizer, FRAMED: {"ends": list(found.ends)}})
    assert tokenizer.encode("abcd 12").tolist() == [27, 3, 30, 28, 29] and tokenizer.prefix == (31,)
    assert tokenizer.ends == ("<|end|>",)
    assert tokenizer.decode(tokenizer.encode("abcd 12")) == "abcd 12"
    found = read_gguf(write_gguf(tmp_path / "pieces.gguf", llama, facts=[pieces]))
    tokenizer = from_json({**found.tokenizer, FRAMED: {"ends": list(found.ends)}})
    assert [tokenizer.encode(text).tolist() for text in ("ab", "abc", "c ab")] == [[29], [31], [27, 5, 29]]
    assert tokenizer.prefix == (1,) and tokenizer.decode([1, 29, 5]).endswith("abc")


def test_an_unknown_tokenizer_is_said(llama, tmp_path):
    def other(writer):
        byte_pairs(writer)
        writer.add_key_value("tokenizer.ggml.pre", "falcon", gguf.GGUFValueType.STRING)

    path = tmp_path / "model.gguf"
    found = read_gguf(write_gguf(path, llama, facts=[other]))
    assert found.tokenizer is None and "'falcon'" in found.notes[-1]
    found = read_gguf(write_gguf(path, llama))
    assert found.tokenizer is None and "no tokenizer" in found.notes[-1]


def test_a_damaged_file_is_one_line(llama, tmp_path):
    path = write_gguf(tmp_path / "model.gguf", llama, facts=[byte_pairs])
    whole = path.read_bytes()
    damaged = tmp_path / "damaged.gguf"
    for size in [0, 3, 4, 8, 16, 23, 40, 200, 900, 2000, len(whole) // 2, len(whole) - 64]:
        damaged.write_bytes(whole[:size])
        with pytest.raises(RegardError, match="damaged.gguf") as refused:
            read_gguf(damaged)
        assert "\n" not in str(refused.value)
    random = np.random.default_rng(0)
    for place in random.integers(4, 3000, 150).tolist():
        changed = bytearray(whole)
        changed[place : place + 8] = random.integers(0, 256, 8, dtype=np.uint8).tobytes()
        damaged.write_bytes(changed)
        with contextlib.suppress(RegardError):  # any other error is a failure; so is a process that is killed
            read_gguf(damaged)


def test_what_is_not_known_is_refused_by_name(llama, tmp_path):
    def experts(writer):
        writer.add_expert_count(4)

    def more(writer):
        writer.add_tensor("blk.0.ffn_gate_inp.weight", np.ones((4, 32), np.float32))

    for add, word in ((experts, "expert_count"), (more, "ffn_gate_inp")):
        with pytest.raises(RegardError, match=word):
            read_gguf(write_gguf(tmp_path / "model.gguf", llama, facts=[add]))


def text(content):
    return struct.pack("<Q", len(content)) + content


def head(tensors, facts, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, facts)


def fact(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def tensor(sides, kind=0, offset=0):
    dimensions = struct.pack(f"<I{len(sides)}Q", len(sides), *sides)
    return text(b"t") + dimensions + struct.pack("<IQ", kind, offset) + bytes(4096)


HUGE = 2**60
HOSTILE = {
    "magic": b"GGML" + head(0, 0)[4:],
    "version": head(0, 0, version=9),
    "big endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "facts": head(0, HUGE) + bytes(4096),
    "tensors": head(HUGE, 0) + bytes(4096),
    "text": head(0, 1) + fact(b"a", 8, struct.pack("<Q", HUGE)),
    "list of numbers": head(0, 1) + fact(b"a", 9, struct.pack("<IQ", 0, HUGE)),
    "list of numbers, not that many": head(0, 1) + fact(b"a", 9, struct.pack("<IQ", 0, 2**24)),
    "list of texts": head(0, 1) + fact(b"a", 9, struct.pack("<IQ", 8, 2**24)),
    "list of lists": head(0, 1) + fact(b"a", 9, struct.pack("<IQ", 9, 1) * 5000),
    "type of a fact": head(0, 1) + fact(b"a", 77, bytes(8)),
    "alignment 0": head(0, 1) + fact(b"general.alignment", 4, bytes(4)),
    "alignment -4": head(0, 1) + fact(b"general.alignment", 5, struct.pack("<i", -4)),
    "a side below 0": head(1, 0) + tensor([2**64 - 4]),
    "a side of 0": head(1, 0) + tensor([0, 4]),
    "sides that overflow": head(1, 0) + tensor([2**32, 2**32]),
    "no side": head(1, 0) + tensor([]),
    "many sides": head(1, 0) + text(b"t") + struct.pack("<I", 2**31),
    "half a block": head(1, 0) + tensor([33], kind=2),
    "type of a tensor": head(1, 0) + tensor([4], kind=99),
    "offset": head(1, 0) + tensor([4], offset=2**40),
    "offset that overflows": head(1, 0) + tensor([4], offset=2**64 - 32),
    "two of a name": head(2, 0) + tensor([4])[:-4096] + tensor([4]),
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_a_hostile_file_is_one_line(case, tmp_path):
    path = tmp_path / "hostile.gguf"
    path.write_bytes(HOSTILE[case])
    with pytest.raises(RegardError, match=r"hostile.gguf") as refused:
        GGUFFile(path)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_without_the_package_there_is_a_line_that_installs_it(llama, tmp_path, monkeypatch):
    path = write_gguf(tmp_path / "model.gguf", llama)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[gguf\]'"):
        read_gguf(path)

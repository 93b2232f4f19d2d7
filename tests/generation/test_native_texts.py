"""Texts of the native step: the same as PyTorch's, from runs and from GGUF files; and what happens where it cannot be used."""

import os
import subprocess
import sys

import gguf
import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.generation.generate import generate as write_text
from regard.generation.generate import generate_texts
from regard.generation.native import compile as compiling
from regard.generation.native.compile import NoNative, choose_path, load_library
from regard.generation.native.model import NativeModel, open_native
from regard.models.attentions import WindowAttention
from regard.models.decoder import Decoder
from regard.nn.quantise import Quantised
from regard.pretrained.gguf import read_gguf
from regard.pretrained.gguf_quantised import read_quantised
from regard.recipes.text import fast_weights
from regard.verbs.generate import generate, load_to_write, samples
from regard.verbs.main import main
from regard.verbs.train import train
from tests.generation.native_cases import CASES, RUNS_HERE, draw_ids, make_decoder, share_cache
from tests.generation.test_generate import Letters, Uncached
from tests.pretrained.test_gguf import CASES as THEIRS
from tests.pretrained.test_gguf import byte_pairs, write_gguf
from tests.pretrained.theirs import save_random


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory):
    folder = share_cache(tmp_path_factory)
    monkeypatch.setenv("REGARD_CACHE", str(folder))
    return folder


def pair(**options):
    """The same decoder in PyTorch and for the native step."""
    model = make_decoder(**{"vocab": 8, "context": 16} | options)
    native = open_native(model.config, model.state_dict, "float32", threads=1)
    model.tokenizer = native.tokenizer = Letters()
    return model, native


# ── texts


@pytest.mark.parametrize(
    "options", [{}, CASES["gpt2"], {"attention": WindowAttention(width=5)}], ids=["llama", "gpt2", "window"]
)
def test_greedy_texts_are_the_same_with_and_without_cache_and_beyond_the_context(options):
    model, native = pair(**options)
    for prompt in ("a", "abc", "abcdefgh" * 2, "abcdefgh" * 5):
        texts = {
            "".join(write_text(each, prompt, max_new=40, temperature=0)) for each in (model, native, Uncached(model))
        }
        assert len(texts) == 1


def test_samples_beams_and_stops_are_the_same():
    model, native = pair(ngrams=3)
    for how in (
        {"samples": 3, "seed": 1, "temperature": 1.5, "top_p": 0.9, "repetition": 1.2},
        {"samples": 3, "beams": 4},
        {"samples": 2, "seed": 2, "stop": ("a", "bc")},
    ):
        wanted = generate_texts(model, "abcd", max_new=30, **how)
        assert generate_texts(native, "abcd", max_new=30, **how) == wanted
        assert len(set(wanted)) > 1


def test_a_model_that_diverged_is_said():
    model = make_decoder()
    with torch.no_grad():
        model.stack.norm.scale.fill_(torch.nan)
    native = open_native(model.config, model.state_dict, "float32", threads=1)
    native.tokenizer = Letters()
    with pytest.raises(RegardError, match="diverged"):
        "".join(write_text(native, "abc"))


# ── GGUF


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return save_random(*THEIRS["llama"], tmp_path_factory.mktemp("theirs"))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1", "F16", "Q5_0"])
def test_a_file_goes_in_as_it_is(name, llama, tmp_path):
    path = write_gguf(tmp_path / "model.gguf", llama, gguf.GGMLQuantizationType[name])
    config, state, notes = read_quantised(path)
    plain = read_gguf(path)
    assert config == plain.config and state.keys() == plain.state.keys()
    kept = [each for each in state.values() if isinstance(each, Quantised)]
    assert bool(kept) == (name in ("Q8_0", "Q4_0", "Q4_1")) and bool(notes) != bool(kept)
    assert all(name in note for note in notes)
    for each, tensor in state.items():
        found = tensor.dequantise() if isinstance(tensor, Quantised) else tensor
        assert torch.equal(found, plain.state[each]), each
    native = open_native(config, lambda: state, "int8", threads=1)
    model = plain.build()
    ids = draw_ids(model, 1, 20)
    with torch.no_grad():
        wanted = model(ids)[0, -1]
    found = native.slots(1, 20).read([0], ids.tolist())[0]
    assert (found - wanted).norm() < 0.03 * wanted.norm()


def test_a_file_writes_without_its_weights_in_float32_once_it_is_packed(llama, tmp_path, monkeypatch, capsys):
    path = write_gguf(tmp_path / "model.gguf", llama, gguf.GGMLQuantizationType.Q4_0, [byte_pairs])
    said = []
    native = load_to_write(path, "auto", said.append)
    kinds = {stored.kind for stored in native.packed.table.values()}
    assert kinds == {"int4", "vector"} and native.tokenizer is not None
    assert any("packing" in note for note in said)
    monkeypatch.setattr(fast_weights, "read_quantised", None)  # nobody asks for them again
    monkeypatch.setattr("regard.recipes.text.language_model.load_model", None)
    again = load_to_write(path)
    assert np.array_equal(again.packed.memory, native.packed.memory)
    texts = [samples(path, "a", weights="auto", max_new=8, temperature=0) for _ in range(2)]
    assert texts[0] == texts[1]
    monkeypatch.undo()
    load_to_write(path, "int8", said.append)
    assert "another type than int8" in said[-1]
    main(["generate", str(path), "--prompt", "a", "--max-new", "5", "--stats", "--weights", "float32"])
    told = capsys.readouterr().err
    assert "tokens/s" in told and "float32" in told and "MB" in told


# ── runs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a decoder over letters, never trained."""
    folder = tmp_path_factory.mktemp("run")
    text = folder / "text.txt"
    text.write_text("abcdefgh\n" * 60)
    options = {"model.dim": 32, "model.depth": 1, "data.context": 16}
    how = {"steps": 1, "options": options, "observers": [], "report": False}
    return train("text", data=str(text), out=folder / "run", **how).path


def test_a_run_writes_with_all_weights(run, capsys):
    assert isinstance(load_to_write(run), Decoder)  # small: PyTorch
    texts = {}
    for weights in ("float32", "bfloat16", "int8", "int4"):
        assert isinstance(load_to_write(run, weights), NativeModel)
        texts[weights] = "".join(generate(run, "abc", weights=weights, max_new=6, temperature=0))
    assert texts["float32"] == "".join(generate(run, "abc", max_new=6, temperature=0))
    assert main(["generate", str(run), "--prompt", "abc", "--weights", "int8", "--samples", "2", "--stats"]) == 0
    out, told = capsys.readouterr()
    assert "── 2 ──" in out and "native" in told
    with pytest.raises(RegardError, match="path"):
        generate(load_to_write(run), weights="int8")
    with pytest.raises(RegardError, match="int5"):
        generate(run, weights="int5")


def test_large_models_are_int8_by_themselves(run, monkeypatch):
    monkeypatch.setattr(fast_weights, "LARGE", 1000)
    assert {stored.kind for stored in load_to_write(run).packed.table.values()} >= {"int8"}


# ── where it cannot be used


@pytest.mark.parametrize("weights, dtype", [("float32", torch.float32), ("int4", torch.bfloat16)])
def test_without_a_compiler_pytorch_writes_and_says_so(run, weights, dtype, monkeypatch):
    monkeypatch.setattr(compiling.shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    said = []
    model = load_to_write(run, weights, said.append)
    assert isinstance(model, Decoder) and model.embed.weight.dtype is dtype
    assert len(said) == 1 and "compiler" in said[0] and "PyTorch" in said[0]
    assert "".join(write_text(model, "abc", max_new=3))


def test_a_compiler_that_fails_is_said_in_one_line(tmp_path, monkeypatch):
    compiler = tmp_path / "failing"
    compiler.write_text("#!/bin/sh\necho 'step.cpp:1: error: no such thing' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(NoNative, match="no such thing"):
        load_library("plain")
    monkeypatch.setenv("CXX", "a-compiler-that-is-not-there")
    with pytest.raises(NoNative, match="not-there"):
        load_library("plain")
    monkeypatch.setenv("REGARD_NATIVE", "off")
    with pytest.raises(NoNative, match="off"):
        load_library()
    monkeypatch.setenv("REGARD_NATIVE", "sse9")
    with pytest.raises(RegardError, match="sse9"):
        load_library()


def test_the_way_follows_the_processor(monkeypatch):
    features = compiling.processor_features()
    for without, wanted in (((), RUNS_HERE[0]), (("avx512_vnni",), "avx2"), (("avx512_vnni", "avx2"), "plain")):
        monkeypatch.setattr(compiling, "processor_features", lambda gone=without: features - set(gone))
        assert choose_path() in (wanted, "plain")
    with pytest.raises(NoNative, match="avx2"):
        load_library("avx2")


@pytest.fixture
def copies(cache, tmp_path, monkeypatch):
    """A compiler that copies a library which is there, so that compiling takes no time; and an empty cache."""
    load_library("plain")
    library = next(cache.glob("native/plain-*/step.so"))
    compiler = tmp_path / "copies"
    compiler.write_text(
        f'#!/bin/sh\nsleep 0.1\nfor last; do :; done\ncp {library} "$last"\necho x >> {tmp_path}/count\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling, "_loaded", {})
    return tmp_path


def compiled(folder):
    return len((folder / "count").read_text().split())


def test_a_damaged_library_is_compiled_again(copies):
    said = []
    load_library("plain", said.append)
    assert said == ["compiling the native step (once)"] and compiled(copies) == 1
    compiling._loaded.clear()
    load_library("plain", said.append)
    assert compiled(copies) == 1
    library = next(copies.glob("cache/native/*/step.so"))
    data = bytearray(library.read_bytes())
    data[len(data) // 2] ^= 1
    library.unlink()  # (it is mapped: what is loaded stays as it is)
    library.write_bytes(data)
    compiling._loaded.clear()
    load_library("plain")
    assert compiled(copies) == 2 and library.read_bytes() != data


def test_a_cache_that_cannot_be_written_is_said_and_it_works(copies, monkeypatch):
    (copies / "file").write_text("")
    monkeypatch.setenv("REGARD_CACHE", str(copies / "file"))
    said = []
    library = load_library("plain", said.append)
    assert len(said) == 1 and "this process only" in said[0]
    assert library.memory(10)


def test_several_processes_that_compile_at_once_all_find_it(copies):
    code = "from regard.generation.native.compile import load_library; print(load_library('plain').path)"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ) for _ in range(2)]
    assert [each.communicate()[0].split() for each in started] == [[b"plain"], [b"plain"]]
    assert len(list(copies.glob("cache/native/*"))) == 1
    assert not list(copies.glob("cache/native/.*"))


def test_packed_weights_with_a_flipped_bit_are_packed_again(tmp_path):
    model = make_decoder()
    asked = []

    def state():
        asked.append(1)
        return model.state_dict()

    def open_again():
        return open_native(model.config, state, "int8", cache=tmp_path, key="one", threads=1)

    first = open_again()
    assert np.array_equal(open_again().packed.memory, first.packed.memory) and len(asked) == 1
    file = next(tmp_path.glob("packed/*/ids"))
    data = bytearray(file.read_bytes())
    data[100] ^= 4
    file.write_bytes(data)
    assert np.array_equal(open_again().packed.memory, first.packed.memory) and len(asked) == 2


def test_nothing_but_the_source_of_the_package_is_compiled(copies):
    seen = copies / "seen"
    compiler = copies / "copies"
    compiler.write_text(compiler.read_text().replace("sleep 0.1", f'echo "$@" >> {seen}'))
    load_library("plain")
    words = seen.read_text().split()
    assert [word for word in words if word.endswith(".cpp")] == [str(compiling.SOURCE)]

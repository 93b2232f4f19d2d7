"""How long does it take to check a model of ordinary size? GPT-2 with 124 million random weights, all its laws.

python benchmarks/laws.py [--tokens 128]        writes results.md
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from alternate import keep, table

from regard.symmetry.check import check
from regard.targets.open import hugging_face


def main() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=128)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    target = hugging_face(GPT2LMHeadModel(GPT2Config()), tokens=arguments.tokens)
    began, worked = time.perf_counter(), time.process_time()
    report = check(target.model, target.inputs, roles=target.roles)
    seconds, work = time.perf_counter() - began, time.process_time() - worked
    print(report)
    rows = [
        [
            f.law,
            f.declared or "",
            f.measured,
            f"{f.error:.1e}" if f.error is not None else "",
            f.place,
            f"{f.seconds:.1f}",
        ]
        for f in report
    ]
    shown = table(["law", "declared", "measured", "error", "layer", "seconds"], rows)
    size = sum(p.numel() for p in target.model.parameters()) / 1e6
    words = (
        f"`python benchmarks/laws.py --tokens {arguments.tokens}`: GPT-2, {size:.0f} M random weights,"
        f" batches of three, {torch.get_num_threads()} threads: {seconds:.0f} s in all, {work:.0f} s of the processor."
    )
    keep(Path(__file__).parent / "results.md", "Laws of GPT-2", f"{words}\n\n{shown}\n")


if __name__ == "__main__":
    main()

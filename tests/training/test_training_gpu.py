"""What only GPUs can show. One command: python -m pytest tests/training/test_training_gpu.py -rs"""

import os
import subprocess
import sys

import pytest
import torch

COUNT = torch.cuda.device_count() if torch.cuda.is_available() else 0
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(COUNT == 0, reason="not run: no GPU here")]
SMALL = [
    "--model.dim",
    "64",
    "--model.depth",
    "2",
    "--data.context",
    "64",
    "--train.batch",
    "8",
    "--train.steps",
    "6",
    "--no-report",
]


def train(folder, processes, *options):
    text = folder / "text.txt"
    text.write_text("".join(chr(97 + i * i % 23) for i in range(20_000)))
    command = [sys.executable, "-m", "regard", "train", "text", "--data", str(text), *SMALL, *options]
    done = subprocess.run(
        [*command, "--train.processes", str(processes)],
        cwd=folder,
        env=os.environ | {"REGARD_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_processes_with_a_gpu_each(tmp_path, parallel):
    said = train(tmp_path, min(COUNT, 2), "--train.parallel", parallel, "--out", "run")
    assert "6 steps" in said


def test_more_processes_than_gpus_are_refused(tmp_path):
    with pytest.raises(AssertionError, match="needs one of its own"):
        train(tmp_path, COUNT + 1, "--train.device", "cuda", "--out", "run")

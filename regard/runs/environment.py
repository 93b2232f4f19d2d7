"""On what a process computes: all that the last bit of a loss may depend on, and the command."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch


def environment() -> dict[str, Any]:
    """On what this process computes: all that the last bit of a loss may depend on, and the command."""
    return {
        "regard": _version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "command": sys.argv,
        "folder": os.getcwd(),
    }


def _processor() -> str:
    """The name of the processor, as Linux tells it, or what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version() -> str:
    return str(sys.modules["regard"].__version__)

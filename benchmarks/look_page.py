"""How large a page is and how soon it can be used: 12 layers × 12 heads × 512 tokens in Chromium, opened as a file.

    python benchmarks/look_page.py          about a minute; needs chromium (sudo apt-get install chromium); writes results.md

Weights are random and causal, which deflates worse than what models do. Interactive: one head is enlarged, and the page
answers to pointer and keys. Complete: all 144 small maps are painted, too. The cache of the browser is empty each time.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from alternate import keep, table
from playwright.sync_api import Browser, sync_playwright

from regard.look import encode_arrays as encode
from regard.look import page

HERE = Path(__file__).parent
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
MARKS = {"open": "regard:open", "interactive": "regard:interactive", "complete": "regard:complete"}
SIZES = [(4, 8, 64), (12, 12, 128), (12, 12, 512)]


def layer(number: int, heads: int, n: int, count: int) -> dict[str, Any]:
    """One layer as regard/look/web/README.md describes it."""
    scores = 3 * torch.randn(heads, n, n, generator=torch.Generator().manual_seed(number))
    weights = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1)
    return {
        "layer": number, "name": f"h.{number}.attn", "call": 0, "kind": "self", "operator": "random", "rows": 0, "columns": 0,
        "n": n, "m": n, "heads": list(range(heads)), "proved": True, "reason": None, "error": 0.0, "note": None,
        "entropy": [1.0] * heads, "distance": None, "small": encode.thumbnails(weights),
        "largest": encode.largest(weights, count),
    }  # fmt: skip


def written(layers: int, heads: int, n: int, folder: Path) -> Path:
    count = encode.kept_of_each_row(layers * heads * n, n)
    made = [layer(number, heads, n, count) for number in range(layers)]
    data = {
        "format": 1, "title": "random", "subtitle": "", "record": 0, "input": {"kind": "text", "text": None, "target": None},
        "streams": [{"name": "tokens", "kind": "text", "labels": [f" token{k}" for k in range(n)], "grid": None}],
        "notes": [], "live": None, "silenced": [], "views": [{"view": "attention", "layers": made}],
    }  # fmt: skip
    return page.write(data, folder / f"{layers}-{heads}-{n}.html")


def seconds(browser: Browser, where: Path) -> dict[str, float]:
    """From the beginning of the navigation to each mark that the page leaves."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        shown = context.new_page()
        shown.goto(where.as_uri())
        shown.wait_for_function("name => performance.getEntriesByName(name).length", arg=MARKS["complete"])
        read = "name => performance.getEntriesByName(name)[0].startTime / 1000"
        return {name: shown.evaluate(read, mark) for name, mark in MARKS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    where = shutil.which("chromium")
    if where is None:
        raise SystemExit("no chromium to open pages with; sudo apt-get install chromium")
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=QUIET)
        for layers, heads, n in SIZES:
            path = written(layers, heads, n, Path(folder))
            found = [seconds(browser, path) for _ in range(arguments.times)]
            middle = [f"{statistics.median(each[name] for each in found):.2f} s" for name in MARKS]
            rows.append([f"{layers} × {heads} × {n}", f"{path.stat().st_size / 1e6:.1f} MB", *middle])
            print(*rows[-1], flush=True)
        version = browser.version
        browser.close()
    lines = table(["layers × heads × tokens", "page", *MARKS], rows)
    note = (
        f"Chromium {version}, {platform.machine()}, median of {arguments.times}, from the beginning of the navigation, while "
        f"{os.getloadavg()[0]:.0f} processes wanted the {os.cpu_count()} cores.\n\n"
    )
    keep(HERE / "results.md", "Pages of look", note + lines)


if __name__ == "__main__":
    main()

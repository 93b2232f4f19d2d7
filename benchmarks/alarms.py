"""False alarms: correct models of five libraries, twenty of each with other weights, inputs and trials.

    python benchmarks/alarms.py [--seeds 20] [--only NAME] [--jobs 2] [--log FILE]

Each model keeps what it promises, so every law that is not measured as declared is a defect of the checker. The table says for
each library how many models were checked, how many laws were measured, and how near the largest error came to its tolerance.
Needs x-transformers, torch-geometric and transformers. About ten minutes on two cores; writes results.md. With --log, what was
seen is kept in a file, and a later run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small models: two processes are faster than two threads

from alternate import keep, table

from regard.symmetry.check import check
from regard.symmetry.report import Finding, number

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # the models are those of the tests
HEADERS = [
    "library",
    "models",
    "checks",
    "hold",
    "broken, as said",
    "unknown",
    "nearest to tolerance",
    "seconds",
    "alarms",
]

Seen = dict[str, Any]


def checked(name: str, seed: int) -> Seen:
    """What was measured of one model with one seed, and what is wrong with it."""
    from tests.symmetry.correct import everything

    warnings.simplefilter("ignore")  # other people's, about their own
    correct = everything()[name]
    began = time.perf_counter()
    model, inputs, options = correct.made(seed)
    report = check(model, inputs, seed=seed, **options)
    wrong = {finding.law: finding.sentence() for finding in report.wrong}
    held = {finding.law for finding in report if finding.measured == "holds"}
    wrong |= {law: f"{law} was not seen to hold" for law in sorted(correct.holds - held - set(wrong))}
    nearest = max(report, key=share)
    return {
        "name": name,
        "seed": seed,
        "measured": Counter(finding.measured for finding in report),
        "nearest": [share(nearest), nearest.law],
        "seconds": time.perf_counter() - began,
        "alarms": [f"{name}, seed {seed}: {words}" for words in wrong.values()],
    }


def all_checked(names: list[str], seeds: int, jobs: int, log: Path | None) -> Iterator[Seen]:
    """What the log has, then all others: every model with the first seed, then every one with the next."""
    lines = log.read_text().splitlines() if log is not None and log.exists() else []
    wanted = [(name, seed) for seed in range(seeds) for name in names]
    before = {(seen["name"], seen["seed"]): seen for seen in map(json.loads, lines)}
    yield from (before[each] for each in wanted if each in before)
    with ProcessPoolExecutor(jobs) as pool:
        left = [each for each in wanted if each not in before]
        for seen in pool.map(checked, *zip(*left, strict=True)) if left else ():
            alarms = "; ".join(seen["alarms"]) or "no false alarm"
            print(f"{seen['name']}, seed {seen['seed']}: {alarms} ({seen['seconds']:.1f} s)", flush=True)
            if log is not None:
                with open(log, "a") as file:
                    file.write(json.dumps(seen) + "\n")
            yield seen


def share(finding: Finding) -> float:
    """How much of its tolerance an error uses, of a law that is promised and holds."""
    promised = finding.measured == "holds" and finding.declared not in (None, "not promised")
    return finding.error / finding.tolerance if promised and finding.error and finding.tolerance else 0.0


def row(library: str, checks: list[Seen]) -> list[str]:
    measured = sum((Counter(seen["measured"]) for seen in checks), Counter())
    nearest, law = max(seen["nearest"] for seen in checks)
    return [
        library,
        str(len({seen["name"] for seen in checks})),
        str(len(checks)),
        str(measured["holds"]),
        str(measured["broken"]),
        str(measured["unknown"] + measured["vacuous"]),
        f"{number(nearest)} ({law})",
        f"{sum(seen['seconds'] for seen in checks):.0f}",
        str(sum(len(seen["alarms"]) for seen in checks)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="correct models must raise no alarm")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="only models whose name contains this; the table is then not kept")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--log", type=Path, help="a file that what was seen is kept in, and gone on from")
    given = parser.parse_args()
    from tests.symmetry.correct import everything

    by_library = defaultdict(list)
    names = [name for name in everything() if given.only in name]
    for seen in all_checked(names, given.seeds, given.jobs, given.log):
        by_library[seen["name"].partition(":")[0]].append(seen)
    text = table(HEADERS, [row(library, checks) for library, checks in by_library.items()])
    alarms = [alarm for checks in by_library.values() for seen in checks for alarm in seen["alarms"]]
    text += "".join(f"\n{'' if i else chr(10)}- {alarm}" for i, alarm in enumerate(alarms))
    print(text)
    if not given.only:
        command = f"`python benchmarks/alarms.py --seeds {given.seeds}`"
        words = (
            "other weights, inputs and trials for each seed, float32. Nearest: an error as a share of its tolerance."
        )
        keep(HERE / "results.md", "False alarms", f"{command}; {words}\n\n{text}")
    sys.exit(1 if alarms else 0)


if __name__ == "__main__":
    main()

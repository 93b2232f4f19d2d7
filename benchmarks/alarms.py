"""False alarms: correct models of five libraries, twenty of each with other weights, inputs and trials.

    python benchmarks/alarms.py [--seeds 20] [--only NAME] [--jobs 2]

Each model keeps what it promises, so every law that is not measured as declared is a defect of the checker. The table says for
each library how many models were checked, how many laws were measured, and how near the largest error came to its tolerance.
Needs x-transformers, torch-geometric and transformers. About ten minutes on two cores; writes results.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small models: two processes are faster than two threads

from alternate import keep, table

from regard.symmetry.check import check
from regard.symmetry.report import Finding, Report, number

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # the models are those of the tests
HEADERS = ["library", "models", "checks", "hold", "broken, as said", "unknown", "nearest to tolerance", "seconds", "alarms"]


def checked(name: str, seeds: int) -> tuple[list[Report], list[str], float]:
    """The reports of one model, what is wrong with them, and the seconds they took."""
    from tests.symmetry.correct import everything

    warnings.simplefilter("ignore")  # other people's, about their own
    correct, reports, alarms = everything()[name], [], []
    began = time.perf_counter()
    for seed in range(seeds):
        model, inputs, options = correct.made(seed)
        report = check(model, inputs, seed=seed, **options)
        reports.append(report)
        wrong = {finding.law: finding.sentence() for finding in report.wrong}
        held = {finding.law for finding in report if finding.measured == "holds"}
        wrong |= {law: f"{law} was not seen to hold" for law in sorted(correct.holds - held - set(wrong))}
        alarms += [f"{name}, seed {seed}: {words}" for words in wrong.values()]
    return reports, alarms, time.perf_counter() - began


def all_checked(names: list[str], seeds: int, jobs: int) -> Iterator[tuple[str, list[Report], list[str], float]]:
    with ProcessPoolExecutor(jobs) as pool:
        for name, (reports, alarms, seconds) in zip(names, pool.map(checked, names, [seeds] * len(names)), strict=True):
            print(f"{name}: {len(reports)} checks, {len(alarms)} false alarms, {seconds:.1f} s", flush=True)
            yield name, reports, alarms, seconds


def share(finding: Finding) -> float:
    """How much of its tolerance an error uses, of a law that is promised and holds."""
    promised = finding.measured == "holds" and finding.declared not in (None, "not promised")
    return finding.error / finding.tolerance if promised and finding.error and finding.tolerance else 0.0


def row(library: str, results: list[tuple[list[Report], list[str], float]]) -> list[str]:
    findings = [finding for reports, _, _ in results for report in reports for finding in report]
    measured = Counter(finding.measured for finding in findings)
    nearest = max(findings, key=share)
    return [
        library,
        str(len(results)),
        str(sum(len(reports) for reports, _, _ in results)),
        str(measured["holds"]),
        str(measured["broken"]),
        str(measured["unknown"] + measured["vacuous"]),
        f"{number(share(nearest))} ({nearest.law})",
        f"{sum(seconds for _, _, seconds in results):.0f}",
        str(sum(len(alarms) for _, alarms, _ in results)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="correct models must raise no alarm")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="only models whose name contains this; the table is then not kept")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    from tests.symmetry.correct import everything

    by_library = defaultdict(list)
    names = [name for name in everything() if given.only in name]
    for name, *result in all_checked(names, given.seeds, given.jobs):
        by_library[name.partition(":")[0]].append(result)
    text = table(HEADERS, [row(library, results) for library, results in by_library.items()])
    alarms = [alarm for results in by_library.values() for _, each, _ in results for alarm in each]
    text += "".join(f"\n{'' if i else chr(10)}- {alarm}" for i, alarm in enumerate(alarms))
    print(text)
    if not given.only:
        command = f"`python benchmarks/alarms.py --seeds {given.seeds}`"
        words = "other weights, inputs and trials for each seed, float32. Nearest: an error as a share of its tolerance."
        keep(HERE / "results.md", "False alarms", f"{command}; {words}\n\n{text}")
    sys.exit(1 if alarms else 0)


if __name__ == "__main__":
    main()

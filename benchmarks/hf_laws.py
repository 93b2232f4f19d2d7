"""Laws of Hugging Face's architectures: every one that can be made small and built without a download, checked.

    python benchmarks/hf_laws.py [--only gpt2,bert] [--jobs 2] [--seconds 60] [--log FILE] [--minutes 5]

Each is a process of its own with a limit of time and memory, so that one that crashes or hangs ends nothing but itself. The
weights are random: what is measured is the code. About half an hour on two cores; writes results.md, unless --only is given.
With --log, what was found is kept in a file, and a later run goes on from there.
"""

from __future__ import annotations

import os

# processes are forked, which a pool of threads would not survive
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers
from alternate import keep, table
from shrink import EXCEPTIONS, small
from torch import nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from regard.symmetry.check import check
from regard.targets.open import hugging_face

HERE = Path(__file__).parent
TITLE = "Laws of Hugging Face's architectures"
MEMORY = 12 * 2**30
MOST_PARAMETERS = 30_000_000  # more than that was not made small
# In which of their families an architecture is built: the first that lists it. `MODEL_MAPPING` is the body without a head.
FAMILIES = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_CTC_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)
WORDS = {
    "shrunk": "could not be made small",
    "built": "could not be built",
    "run": "took no inputs that could be made",
    "checked": "could not be checked",
    "late": "took too long",
    "crashed": "crashed",
}
Found = dict[str, Any]


def class_of(name: str) -> Any:
    """The class in which an architecture is checked, or None for a mere part of others."""
    for family in FAMILIES:
        classes = getattr(modeling_auto, family).get(name)
        if classes is not None:
            return getattr(transformers, classes if isinstance(classes, str) else classes[0])
    return None


def examine(name: str, path: Path, trials: int) -> None:
    """In a process of its own: build one, check it, write down what was found."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found: Found = {"name": name, "stage": "shrunk"}
    try:
        cls = class_of(name)
        found["class"] = cls.__name__
        config = small(CONFIG_MAPPING[name], **EXCEPTIONS.get(name, {}))
        found["stage"] = "built"
        with torch.device("meta"):
            size = sum(p.numel() for p in cls(config).parameters())
        if size > MOST_PARAMETERS:
            raise ValueError(f"{size / 1e6:.0f} million parameters are left")
        torch.manual_seed(0)
        model = cls(config).float().eval()
        found["stage"] = "run"
        target = hugging_face(model)
        wake(model, target.inputs)
        found["stage"] = "checked"
        began = time.perf_counter()
        report = check(target.model, target.inputs, roles=target.roles, trials=trials)
        found |= {"stage": "done", "seconds": round(time.perf_counter() - began, 1), "laws": report.to_json()["laws"]}
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        found["error"] = f"{type(error).__name__}: {lines[-1 if 'Validation' in type(error).__name__ else 0][:160]}"
        found["trace"] = traceback.format_exc(limit=-4)
    finally:
        path.write_text(json.dumps(found))


def wake(model: nn.Module, inputs: dict[str, Any]) -> None:
    """Batch norms get the statistics of these inputs. With those of a new model, signals fade and nothing could be seen."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model(**inputs)
    model.eval()


def examine_all(
    names: list[str], jobs: int, seconds: float, minutes: float, trials: int, log: Path | None
) -> list[Found]:
    """A few at a time. What is found goes to the log at once."""
    context, began, found = multiprocessing.get_context("fork"), time.monotonic(), []
    waiting, running = list(names), {}
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                if time.monotonic() - began > 60 * minutes:
                    waiting = []
                    break
                name = waiting.pop(0)
                process = context.Process(target=examine, args=(name, Path(folder) / name, trials), daemon=True)
                process.start()
                running[name] = (process, time.monotonic())
            time.sleep(0.05)
            for name, (process, since) in list(running.items()):
                late = time.monotonic() - since > seconds
                if process.is_alive() and late:
                    process.kill()
                    process.join()
                if not process.is_alive():
                    del running[name]
                    ended = Path(folder) / name
                    lost = {"name": name, "stage": "late" if late else "crashed"}
                    found.append(json.loads(ended.read_text()) if ended.exists() else lost)
                    print(line(found[-1]), flush=True)
                    if log is not None:
                        with open(log, "a") as file:
                            file.write(json.dumps(found[-1]) + "\n")
    return found


# ---- what is shown


def named(found: Found, measured: str) -> list[Found]:
    """The laws with this outcome, without those that are not promised; what nothing was said about cannot be broken."""
    silent = ("not promised", None) if measured == "broken" else ("not promised",)
    return [law for law in found["laws"] if law["measured"] == measured and law["declared"] not in silent]


def line(found: Found) -> str:
    if found["stage"] != "done":
        return f"{found['name']} {WORDS[found['stage']]}: {found.get('error', '')}"
    words = [f"{len(named(found, 'holds'))} hold"]
    for outcome in ("broken", "vacuous", "unknown"):
        words += [f"{law['law']} {outcome}" for law in named(found, outcome)]
    return f"{found['name']}: {', '.join(words)} ({found['seconds']} s)"


def reason(law: Found) -> str:
    return str(law["reason"]).replace("|", "/")[:90]


def where(law: Found) -> str:
    if law["layer"] is None:
        return law["law"]
    return f"{law['law']} ({'' if law['exact'] else 'in '}`{law['layer'] or 'the model'}`)"


def shown(found: list[Found], known: int) -> str:
    done = sorted((each for each in found if each["stage"] == "done"), key=lambda each: each["name"])
    rows = []
    for each in done:
        unknown = "; ".join(f"{law['law']}: {reason(law)}" for law in named(each, "unknown"))
        rows.append(
            [
                each["name"],
                each["class"],
                ", ".join(law["law"] for law in named(each, "holds")),
                ", ".join(where(law) for law in named(each, "broken")),
                ", ".join(law["law"] for law in named(each, "vacuous")),
                unknown,
                str(each["seconds"]),
            ]
        )
    headers = ["architecture", "class", "hold", "broken", "vacuous", "unknown", "seconds"]
    broken = sum(bool(named(each, "broken")) for each in done)
    stages = Counter(each["stage"] for each in found if each["stage"] != "done")
    left = ", ".join(f"{count} {WORDS[stage]}" for stage, count in stages.most_common())
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    tried = f"{len(found)} of {known} architectures were tried and {len(done)} checked{f' ({left})' if left else ''}"
    reasons = Counter(reason(law) for each in done for law in named(each, "unknown"))
    why = "\n".join(f"- {count} times: {words}" for words, count in reasons.most_common())
    return (
        f"`python benchmarks/hf_laws.py`, {versions}, float32, random weights.\n\n{tried}; {broken} of them break a law that "
        f"they promise. Laws that an architecture does not promise are left out.\n\n{table(headers, rows)}\n\n"
        f"Why a law is unknown:\n\n{why or '- none is'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="names of architectures, with commas between them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="the time each may take")
    parser.add_argument("--trials", type=int, default=8, help="of each law")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="the time after which no other is begun")
    parser.add_argument("--log", type=Path, help="a file that what was found is kept in, and gone on from")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    before = (
        [json.loads(each) for each in options.log.read_text().splitlines()]
        if options.log and options.log.exists()
        else []
    )
    known = {each["name"] for each in before}
    every = CONFIG_MAPPING.keys()  # it can be asked for its keys, and not be gone through
    names = options.only.split(",") if options.only else [name for name in every if buildable(name)]
    left = [name for name in names if name not in known]
    found = before + examine_all(left, options.jobs, options.seconds, options.minutes, options.trials, options.log)
    if options.only:
        return
    if len(found) < len(names):
        print(f"{len(found)} of {len(names)}; go on with the same command")
    keep(HERE / "results.md", TITLE, shown(found, len(names)))


def buildable(name: str) -> bool:
    """Is there a class for it? Importing it here spares every process the same work."""
    try:
        return class_of(name) is not None
    except Exception:  # a class that needs a library which is not there
        return False


if __name__ == "__main__":
    main()

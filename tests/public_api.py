"""The public API as text: one line for each name, method, command and option.

python tests/public_api.py > tests/public_api.txt
"""

import inspect
import re
import sys
from dataclasses import fields

import regard
from regard.errors import RegardError
from regard.look.recording.entry import Entry, Seen
from regard.runs.run import Run
from regard.symmetry.report import Finding, Report
from regard.verbs.main import COMMANDS

# what the functions of `regard` return and raise, with the members that are public
RETURNED = {
    Report: ("ok", "findings", "to_json"),
    Finding: ("law", "declared", "measured", "error", "tolerance", "worst", "layer", "exact", "reason", "ok"),
    Seen: ("layers",),
    Entry: ("name", "weights", "error", "proved", "reason", "get_weights", "q", "k", "v", "out", "where", "edges"),
    Run: ("path", "config", "metrics", "open"),
    RegardError: (),
}


def describe():
    lines = [f"regard.{name}{describe_signature(getattr(regard, name))}" for name in sorted(regard.__all__)]
    for each, members in RETURNED.items():
        lines.append(each.__name__)
        lines += [f"{each.__name__}.{describe_member(each, name)}" for name in members]
    lines += [f"command: regard {each.usage}" for each in COMMANDS.values()]
    for each in sorted((each for each in COMMANDS.values() if each.options), key=lambda each: each.options):
        lines += [f"option of {each.options}: {field.name}" for field in fields(each.find(each.options))]
    return lines


def describe_member(cls, name):
    if name in getattr(cls, "__dataclass_fields__", {}):
        return name
    try:
        member = inspect.getattr_static(cls, name)
    except AttributeError:  # set by the constructor
        assert re.search(rf"self\.{name}\b", inspect.getsource(cls)), f"{cls.__name__} has no {name}"
        return name
    if isinstance(member, property):
        return name
    return f"{name}{describe_signature(getattr(cls, name))}"


def describe_signature(value):
    """Names, kinds and defaults of the parameters; annotations, and where an object lies, may change."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:  # an exception, which takes anything
        return "(*args)"
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(plain)))


if __name__ == "__main__":
    sys.stdout.write("\n".join(describe()) + "\n")

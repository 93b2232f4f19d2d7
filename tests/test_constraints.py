"""Every package is pinned, and every pip install uses the pins."""

import re
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins():
    lines = [line.strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    return [line.partition("==")[::2] for line in lines if line and not line.startswith("#")]


def test_each_package_is_pinned_once_to_a_public_version():
    names = [plain(name) for name, _ in pins()]
    assert len(set(names)) == len(names)
    for name, version in pins():
        assert re.fullmatch(r"[0-9][0-9a-z.]*", version), f"{name} is not pinned to a public version"
    assert dict(pins())["torch"] == "2.13.0"


def test_each_dependency_has_a_pin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    names = {plain(re.match(r"[\w.-]+", each).group()) for each in wanted} - {"regard"}
    assert names >= {"torch", "numpy", "einops", "safetensors", "rich", "pytest", "hatchling"}
    assert names <= {plain(name) for name, _ in pins()}


def test_each_install_uses_the_pins():
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    assert installs
    for line in installs:
        assert "-c constraints.txt" in line

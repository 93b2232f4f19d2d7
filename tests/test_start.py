"""`import regard` and the quick commands import nothing heavy; the public names come when they are asked for."""

import ast
import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]
HEAVY = {
    "torch", "numpy", "pydantic", "pyarrow", "tokenizers", "einops", "safetensors", "rich", "matplotlib", "transformers"
}  # fmt: skip


def loaded_after(code):
    """The top-level modules a fresh interpreter holds after running the code."""
    say = "\nimport sys; print('\\n' + ' '.join({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code + say], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import regard, regard.registry, regard.files, regard.shapes",
        "from regard.verbs.main import main; main(['--help'])",
        "from regard.verbs.main import main; main(['--version'])",
        "from regard.verbs.main import main; main(['list'])",
        "from regard.verbs.main import main; main(['list', 'masks'])",
        "from regard.verbs.main import main; main(['lsit'])",
    ],
)
def test_nothing_heavy_is_imported(code):
    loaded = loaded_after(code)
    assert "regard" in loaded
    assert not loaded & HEAVY


def test_a_heavy_import_would_be_seen():
    assert "numpy" in loaded_after("import numpy")


def test_the_script_of_the_package_is_the_command_line():
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["regard"]
    module, function = script.split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_few_public_names():
    assert len(regard.__all__) <= 15
    assert regard.__all__ == sorted(regard._HOME)
    assert set(regard.__all__) <= set(dir(regard))


@pytest.mark.parametrize("name", regard.__all__)
def test_each_public_name_is_the_one_of_its_module(name):
    assert getattr(regard, name) is getattr(importlib.import_module(regard._HOME[name]), name)
    assert name in vars(regard)  # kept, so that the second use costs nothing


def test_attend_is_the_function_not_the_module():
    importlib.import_module("regard.attention.attend")
    assert inspect.isfunction(regard.attend)


def test_editors_see_the_same_names():
    """The block under TYPE_CHECKING and the table say the same."""
    tree = ast.parse(Path(regard.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert {alias.name: node.module for node in block.body for alias in node.names} == regard._HOME


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'regard'.*'atend'"):
        regard.atend  # noqa: B018

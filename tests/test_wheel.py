"""The wheel that users install holds the package, all of it, and nothing else, and works away from the repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_it_holds_the_package_and_nothing_else(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    here = {str(path.relative_to(ROOT)) for path in (ROOT / "regard").rglob("*") if path.is_file()}
    assert held == {name for name in here if "__pycache__" not in name}
    assert "regard/py.typed" in held
    assert "regard/generation/native/step.cpp" in held


def test_its_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        info = f"regard-{regard.__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        assert b"[console_scripts]\nregard = regard.verbs.main:main" in archive.read(f"{info}/entry_points.txt")
        assert b"Apache License" in archive.read(f"{info}/licenses/LICENSE")
    lines = metadata.splitlines()
    assert f"Version: {regard.__version__}" in lines
    assert {"Name: regard", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"} <= set(lines)
    core = {line.split()[1] for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line}
    assert core == {
        "torch>=2.9",
        "numpy",
        "einops",
        "filelock",
        "pydantic",
        "pyarrow",
        "safetensors",
        "rich",
        "jinja2",
        "latex2mathml",
        "markdown-it-py",
        "tokenizers",
    }


def test_it_works_away_from_the_repository(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import regard; print(regard.__file__); from regard.verbs.main import main; main(['--version']); main(['list'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    where, version, *listed = done.stdout.splitlines()
    assert Path(where) == tmp_path / "site" / "regard" / "__init__.py"
    assert version == f"regard {regard.__version__}"
    assert listed

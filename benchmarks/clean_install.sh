#!/usr/bin/env bash
# The sdist and the wheel in empty environments, without constraints.txt: install, train, check, look, generate, then the tests
# of what PyTorch changes most. A download of PyTorch may be several gigabytes.
#
#   bash benchmarks/clean_install.sh [TORCH_VERSION]     # without one: the newest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/build"
"$work/build/bin/pip" install -q hatchling
"$work/build/bin/python" -m hatchling build -d "$work/dist"

"$python" -m venv "$work/env"
"$work/env/bin/pip" install -q "torch${1:+==$1}"
"$work/env/bin/pip" install -q "$(ls "$work"/dist/*.tar.gz)[all]"        # the sdist builds
"$work/env/bin/pip" install -q --force-reinstall --no-deps "$work"/dist/*.whl
"$work/env/bin/pip" install -q pytest pytest-xdist hypothesis gguf x-transformers torch-geometric

mkdir "$work/away"
repository=$PWD
cd "$work/away"
regard=$work/env/bin/regard
"$work/env/bin/python" -c "import regard, torch; print('torch', torch.__version__, 'regard', regard.__file__)"
"$regard" train text --out runs/first --train.steps 20
"$regard" check runs/first
"$regard" generate runs/first --prompt "def " --max-new 20 --seed 1
"$regard" look runs/first --input "def f(x):" --out page.html
cp -r "$repository/tests" "$repository/pyproject.toml" "$repository/README.md" "$repository/constraints.txt" .
"$work/env/bin/python" -m pytest -n auto tests/attention tests/nn tests/models tests/symmetry tests/generation

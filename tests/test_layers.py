"""Imports go one way. Every import in the package is read, inside functions too, and compared with the table."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1] / "regard"

GROUND = {"errors", "registry", "shapes", "config", "files", "machine"}
TO_NN = {"attention", "symmetry"} | GROUND
TO_MODELS = TO_NN | {"nn"}
TO_GENERATION = TO_MODELS | {"models", "data"}
TO_RUNS = TO_GENERATION | {"pretrained", "generation"}
TO_TRAINING = TO_RUNS | {"runs"}
TO_RECIPES = TO_TRAINING | {"serving", "training", "look"}

# What each file or folder of the package may import of the package, besides itself. A kind of data is a folder of recipes/.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    **{unit: {"errors"} for unit in GROUND - {"errors"}},
    "files": {"errors", "machine"},
    "symmetry": GROUND,
    "attention": {"symmetry"} | GROUND,
    "nn": TO_NN,
    "data": GROUND,
    "models": TO_MODELS,
    **dict.fromkeys(("pretrained", "generation"), TO_GENERATION),
    "runs": TO_RUNS,
    "serving": TO_GENERATION | {"generation"},
    # these know nothing of each other: they meet in a run directory
    "training": TO_TRAINING,
    "look": TO_TRAINING | {"serving"},
    "story": TO_TRAINING | {"look", "serving"},  # it knows the library and the page, and no kind of data
    "recipes": TO_RECIPES,  # the protocol: it knows no kind of data
    "targets": TO_RECIPES | {"recipes"},
    "verbs": TO_RECIPES | {"story", "recipes", "targets", "regard"},
    "__main__": {"verbs"},
    "__init__": {"attention", "look", "verbs"},  # for editors only: see test_lazy_names_only_at_the_top
}
OF_ANOTHER_KIND = {"translation": {"text"}, "autoencoder": {"images", "sets"}, "series": {"text"}}


def may_import(unit):
    """What a unit may import; None: it has no place in the table."""
    folder, _, kind = unit.partition(".")
    if folder != "recipes" or not kind:
        return MAY_IMPORT.get(unit)
    return TO_RECIPES | {"recipes"} | {f"recipes.{other}" for other in OF_ANOTHER_KIND.get(kind, ())}


class Import(NamedTuple):
    """One import of something of regard; `where` is "module", "function" or "types" (under TYPE_CHECKING)."""

    line: int
    name: str
    where: str


def parts_of(path, root):
    """regard/attention/masks.py -> ["regard", "attention", "masks"]"""
    return ["regard", *path.relative_to(root).with_suffix("").parts]


def imports(path, root):
    """Everything of regard that a file imports, however it is written and wherever it stands."""
    return [
        found
        for found in walk(ast.parse(path.read_text("utf-8")), parts_of(path, root)[:-1], "module")
        if found.name.split(".")[0] == "regard"
    ]


def walk(node, folder, where):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        where = "function"
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and where == "module":
        where = "types"
    if isinstance(node, ast.Import):
        yield from (Import(node.lineno, alias.name, where) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = folder[: len(folder) - node.level + 1] if node.level else []
        base = ".".join([*start, *([node.module] if node.module else [])])
        yield from (Import(node.lineno, f"{base}.{alias.name}", where) for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
        yield from (Import(node.lineno, str(each.value), where) for each in node.args if isinstance(each, ast.Constant))
    for child in ast.iter_child_nodes(node):
        yield from walk(child, folder, where)


def unit_of(name, root):
    """The file or folder directly under the package that a dotted name lives in, of recipes also the kind of data; the package
    itself is "regard"."""
    first, _, rest = name.partition(".")[2].partition(".")
    if not first or not ((root / first).is_dir() or (root / f"{first}.py").exists()):
        return "regard"
    kind = rest.partition(".")[0]
    return f"recipes.{kind}" if first == "recipes" and kind and (root / "recipes" / kind).is_dir() else first


def broken_rules(root):
    """One line for each import that the table does not allow."""
    broken = []
    for path in sorted(root.rglob("*.py")):
        file, parts = path.relative_to(root), parts_of(path, root)
        unit = f"recipes.{parts[2]}" if parts[1] == "recipes" and len(parts) > 3 else parts[1]
        allowed = may_import(unit)
        if allowed is None:
            broken.append(f"{file} has no place in the table of layers")
            continue
        for line, name, _ in imports(path, root):
            other = unit_of(name, root)
            if other != unit and other not in allowed:
                broken.append(f"{file}:{line} imports {name}, but {unit} may not import {other}")
    return broken


def re_exports(root):
    """One line for each name of regard that a sub-package hands on, and for each module with lazy names but the top."""
    found = []
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root)
        if path == root / "__init__.py":
            continue
        if path.name == "__init__.py":
            handed = [line for line, name, where in imports(path, root) if where != "function" and "errors" not in name]
            found += [f"{file}:{line} re-exports" for line in handed]
        found += [
            f"{file}:{node.lineno} has lazy names"
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
        ]
    return found


def circle(root):
    """Modules that import each other in a circle as they are imported, or nothing."""
    modules = {".".join(parts_of(path, root)).removesuffix(".__init__"): path for path in root.rglob("*.py")}
    needs = {}
    for module, path in modules.items():
        names = [name for _, name, where in imports(path, root) if where == "module"]
        needs[module] = {name if name in modules else name.rpartition(".")[0] for name in names} & modules.keys()
    done = set()

    def follow(module, trail):
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module not in done:
            for other in sorted(needs[module]):
                if found := follow(other, [*trail, module]):
                    return found
            done.add(module)
        return []

    return next(filter(None, (follow(module, []) for module in sorted(modules))), [])


def test_imports_go_one_way():
    assert broken_rules(ROOT) == []


def test_few_modules_at_the_root():
    assert len(list(ROOT.glob("*.py"))) <= 8


def test_no_circles():
    assert circle(ROOT) == []


def test_sub_packages_re_export_nothing():
    assert re_exports(ROOT) == []


def test_lazy_names_only_at_the_top():
    """The package itself imports nothing of itself but for editors; test_start compares that block with the table."""
    found = imports(ROOT / "__init__.py", ROOT)
    assert found
    assert {each.where for each in found} == {"types"}


def test_the_table_has_no_circle():
    """Going down only: no two units may import each other, not even through others."""
    reach = {unit: set(others) for unit, others in MAY_IMPORT.items()}
    for _ in reach:
        reach = {unit: others.union(*(reach.get(other, set()) for other in others)) for unit, others in reach.items()}
    assert [unit for unit, others in reach.items() if unit in others] == []


# ── does it see what is wrong? ──────────────────────────────────────────────────────────────────────────────


def plant(folder, files):
    root = folder / "regard"
    there = dict.fromkeys(
        [
            "__init__.py",
            "shapes.py",
            "verbs/commands.py",
            "nn/block.py",
            "attention/masks.py",
            "recipes/text/reader.py",
        ],
        "",
    )
    for path, text in {**there, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    "text",
    [
        "import regard.nn.block",
        "from regard.nn.block import Block",
        "from regard.nn import block",
        "from regard import nn",
        "from ..nn.block import Block",
        "from .. import nn",
        "def f():\n    from regard.nn.block import Block",
        "class A:\n    def f(self):\n        import os, regard.nn",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from regard.nn.block import Block",
        "from importlib import import_module\nimport_module('regard.nn.block')",
        "__import__('regard.nn')",
        "try:\n    import regard.nn\nexcept ImportError:\n    pass",
    ],
)
def test_a_planted_import_the_wrong_way_is_caught(tmp_path, text):
    (broken,) = broken_rules(plant(tmp_path, {"attention/tap.py": text}))
    assert broken.startswith("attention/tap.py:")
    assert broken.endswith("but attention may not import nn")


@pytest.mark.parametrize(
    "path, text, words",
    [
        ("attention/__init__.py", "from ..nn import block", "attention may not import nn"),
        ("attention/kernels/tiled.py", "from ...nn import block", "attention may not import nn"),
        ("shapes.py", "import regard.attention.masks", "shapes may not import attention"),
        ("attention/tap.py", "from regard import attend", "attention may not import regard"),
        ("attention/tap.py", "import regard", "attention may not import regard"),
        ("utils.py", "", "utils.py has no place in the table of layers"),
        ("helpers/x.py", "", "helpers/x.py has no place in the table of layers"),
        ("targets/open.py", "from regard.recipes.text.reader import x", "targets may not import recipes.text"),
        ("verbs/train.py", "import regard.recipes.text", "verbs may not import recipes.text"),
        ("recipes/base.py", "from regard.recipes.text import reader", "recipes may not import recipes.text"),
        (
            "recipes/images/draw.py",
            "from regard.recipes.text.reader import x",
            "recipes.images may not import recipes.text",
        ),
    ],
)
def test_other_planted_breaks(tmp_path, path, text, words):
    (broken,) = broken_rules(plant(tmp_path, {path: text}))
    assert broken.endswith(words)


@pytest.mark.parametrize(
    "path, text",
    [
        ("nn/mlp.py", "from regard.attention.masks import Causal\nimport regard.shapes, regard.nn.block"),
        ("nn/mlp.py", "from .block import Block\nfrom ..attention import masks\nimport torch.nn, regarding"),
        ("verbs/main.py", "def f():\n    from regard import __version__\n    from regard.verbs import commands"),
        ("attention/kernels/__init__.py", "import contextlib\ndef only(name):\n    from regard.attention import masks"),
    ],
)
def test_what_is_allowed_is_allowed(tmp_path, path, text):
    root = plant(tmp_path, {path: text})
    assert broken_rules(root) == re_exports(root) == circle(root) == []


@pytest.mark.parametrize(
    "path, text, words",
    [
        ("attention/__init__.py", "from regard.attention.masks import Causal", "attention/__init__.py:1 re-exports"),
        ("attention/__init__.py", "from .masks import Causal", "attention/__init__.py:1 re-exports"),
        ("nn/__init__.py", "if True:\n    import regard.shapes", "nn/__init__.py:2 re-exports"),
        ("nn/__init__.py", "def __getattr__(name): ...", "nn/__init__.py:1 has lazy names"),
        ("nn/mlp.py", "def __getattr__(name): ...", "nn/mlp.py:1 has lazy names"),
    ],
)
def test_planted_re_exports_are_caught(tmp_path, path, text, words):
    assert re_exports(plant(tmp_path, {path: text})) == [words]


def test_a_planted_circle_is_caught(tmp_path):
    root = plant(
        tmp_path,
        {"nn/a.py": "from regard.nn.b import x", "nn/b.py": "import regard.nn.c", "nn/c.py": "from regard.nn import a"},
    )
    assert circle(root) == ["regard.nn.a", "regard.nn.b", "regard.nn.c", "regard.nn.a"]

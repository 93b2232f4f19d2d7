"""What only one kind of data needs to know is in its folder: outside of recipes/ and the registry no code names a kind."""

import ast
from pathlib import Path

import pytest

from regard import registry

ROOT = Path(__file__).parents[1] / "regard"
KINDS = set(registry.entries("recipes"))


def named_kinds(tree, kinds):
    """(line, what) for each comparison with the name of a kind, and each list or dict of several of them."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = {each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)}
            found += [(node.lineno, f"compares with {sorted(words & kinds)}")] if words & kinds else []
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant) and node.value.value in kinds:
            found.append((node.value.lineno, f"matches {node.value.value!r}"))
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            words = {each.value for each in node.elts if isinstance(each, ast.Constant)}
            found += [(node.lineno, f"lists {sorted(words & kinds)}")] if len(words & kinds) > 1 else []
        elif isinstance(node, ast.Dict):
            words = {each.value for each in node.keys if isinstance(each, ast.Constant)}
            found += [(node.lineno, f"has a table of {sorted(words & kinds)}")] if len(words & kinds) > 1 else []
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("get_recipe", "import_module"):
            words = {each.value for each in node.args if isinstance(each, ast.Constant)}
            found += [(node.lineno, f"asks for {sorted(words & kinds)}")] if words & kinds else []
    return found


def generic(root):
    return [
        path for path in sorted(root.rglob("*.py")) if path.relative_to(root).parts[0] not in ("recipes", "registry.py")
    ]


def test_no_generic_code_names_a_kind_of_data():
    broken = []
    for path in [*generic(ROOT), *(ROOT / "recipes").glob("*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        broken += [f"{path.relative_to(ROOT)}:{line} {what}" for line, what in named_kinds(tree, KINDS)]
    assert len(generic(ROOT)) > 100 and not broken, "\n".join(broken)


@pytest.mark.parametrize(
    "code",
    [
        "if run.config.recipe == 'images': pass",
        "x = 1 if 'sets' != name else 2",
        "y = name in ('sets', 'graphs')",
        "FOLLOWS = ['text', 'images']",
        "READERS = {'text': 1, 'graphs': 2}",
        "match name:\n    case 'images':\n        pass",
        "get_recipe('images').reader(run, model)",
    ],
)
def test_a_planted_name_is_caught(code):
    assert named_kinds(ast.parse(code), KINDS)


def test_other_words_are_no_kinds():
    assert named_kinds(ast.parse("x = name == 'textual' and path in ('a', 'b'); y = {'text': 1}"), KINDS) == []


# ── a kind is small


MOST_FILES = 15  # of a kind, beside its formats and views
LARGER = {"text": 22, "world": 18}  # five problems and the writing of text; environments, imagination and episodes


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_can_be_read_in_an_hour(kind):
    files = [path.name for path in (ROOT / "recipes" / kind).glob("*.py") if path.name != "__init__.py"]
    assert 3 < len(files) <= LARGER.get(kind, MOST_FILES), sorted(files)

"""The public API is as tests/public_api.txt lists it, so that no name changes unseen."""

import difflib
import runpy
from pathlib import Path

HERE = Path(__file__).parent
API = runpy.run_path(str(HERE / "public_api.py"))


def test_the_public_api_is_as_listed():
    listed = (HERE / "public_api.txt").read_text().splitlines()
    changes = [line for line in difflib.ndiff(listed, API["describe"]()) if line[0] in "+-"]
    assert not changes, (
        "the public API changed: " + "; ".join(changes) + ". If that is meant: python tests/public_api.py > "
        "tests/public_api.txt, and say so in CHANGELOG.md (docs/versions.md has the rule)"
    )


def test_a_changed_default_is_seen():
    def before(x, *, scale=None): ...

    def after(x, *, scale=1.0): ...

    describe = API["describe_signature"]
    assert describe(before) == "(x, *, scale=None)"
    assert describe(before) != describe(after)

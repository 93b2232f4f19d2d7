"""regard tokenize: data made ready on disk, once for many runs."""

from typing import Any

from regard import registry
from regard.errors import RegardError
from regard.recipes.base import get_recipe
from regard.verbs.console import progress_printer
from regard.verbs.options import options_help, read_options


def run(words: list[str]) -> int:
    """regard tokenize --data PATH --out DIR"""
    recipe = _find_recipe()
    options, rest = read_options(recipe.shard_options, words, "regard tokenize")
    if rest or not options.data or not options.out:
        raise RegardError(
            f"regard tokenize takes --data PATH and --out DIR, got {' '.join(words) or 'neither'}; see: regard tokenize "
            "--help"
        )
    print(recipe.write_shards(options, progress_printer()))
    return 0


def explain(words: list[str]) -> str:
    return options_help(_find_recipe().shard_options, "regard tokenize", every="--help-all" in words)


def _find_recipe() -> Any:
    """The recipe whose data can be made ready."""
    for name in registry.entries("recipes"):
        recipe = get_recipe(name)
        if recipe.shard_options is not None:
            return recipe
    raise RegardError("no recipe has data to tokenize")

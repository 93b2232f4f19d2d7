"""The command that makes data ready on disk, once for many runs."""

from typing import Any

from regard.errors import RegardError
from regard.verbs.commands import command, command_options


@command(
    "tokenize --data PATH --out DIR",
    "make token shards of texts of any size",
    "regard tokenize --data folder --out shards",
    "regard tokenize --data 'corpus/*.txt' --out shards --tokens bpe --vocabulary 32768",
)
def tokenize(words: list[str]) -> int:
    recipe = find_recipe()
    options = command_options("tokenize", recipe.shard_options, words)
    if options is None:
        return 0
    chosen, rest = options
    if rest or not chosen.data or not chosen.out:
        raise RegardError(
            f"regard tokenize takes --data PATH and --out DIR, got {' '.join(words) or 'neither'}; see: regard tokenize "
            "--help"
        )

    from regard.verbs.console import progress_printer

    print(recipe.write_shards(chosen, progress_printer()))
    return 0


def find_recipe() -> Any:
    """The recipe whose data can be made ready."""
    from regard import registry
    from regard.recipes.base import get_recipe

    for name in registry.entries("recipes"):
        recipe = get_recipe(name)
        if recipe.shard_options is not None:
            return recipe
    raise RegardError("no recipe has data to tokenize")

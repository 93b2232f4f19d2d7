"""regard list: every part that has a name, with one sentence."""

from collections.abc import Sequence

from regard import registry
from regard.errors import RegardError


def run(words: list[str]) -> int:
    """regard list [CATEGORY]"""
    if len(words) > 1:
        raise RegardError(f"regard list takes one category at most, got {len(words)}: {' '.join(words)}")
    if words:
        category = words[0]
        parts = registry.entries(category).items()
        print(f"{category}: {registry.describe(category)}\n")
        rows: list[tuple[str, ...]] = []
        for name, entry in parts:
            keeps = [f"keeps {entry.symmetry}"] if entry.symmetry else []
            rows.append((name, entry.target.replace(":", "."), *keeps, entry.sentence))
        print(format_table(rows))
    else:
        for category in registry.categories():
            print(
                format_table(
                    [(category.ljust(10), registry.describe(category)), ("", ", ".join(registry.entries(category)))]
                )
            )
        print("\nMore about one category: regard list CATEGORY")
    return 0


def explain(words: list[str]) -> str:
    return f"categories: {', '.join(registry.categories())}"


def format_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of cells in columns as wide as they need."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    lines = [[*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]] for row in rows]
    return "\n".join("  " + "  ".join(line) for line in lines)

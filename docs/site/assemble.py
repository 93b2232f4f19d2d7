"""The sources of the site: every page of the repository where its links expect it, every linked file of code as a page
of its own, and a reference page for each folder of the package.

    python docs/site/assemble.py FOLDER

Pages keep their places, so a link between two of them needs no change. A link to a file of code goes to its page under
source/. Nothing is fetched, and nothing is written outside FOLDER.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# groups of the menu and the pages in them, in the order of reading
MENU = {
    "Train": [
        "docs/text.md",
        "docs/generation.md",
        "docs/long.md",
        "docs/experts.md",
        "docs/translation.md",
        "docs/images.md",
        "docs/sets.md",
        "docs/graphs.md",
        "docs/meshes.md",
        "docs/autoencoder.md",
        "docs/world.md",
        "docs/series.md",
        "docs/memory.md",
        "docs/pretrained.md",
        "docs/scale.md",
        "docs/serve.md",
    ],
    "Check, look, compare": ["docs/check.md", "docs/found.md", "docs/look.md", "docs/compare.md", "docs/figures.md"],
    "Understand": ["docs/story.md", "docs/attention.md", "docs/symmetry.md", "docs/trust.md"],
    "The project": [
        "docs/tour.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/versions.md",
        "docs/licences.md",
        "SECURITY.md",
        "benchmarks/README.md",
        "benchmarks/results.md",
    ],
}
PAGES = ("README.md", *(page for group in MENU.values() for page in group))
REFERENCE = (
    "attention",
    "nn",
    "models",
    "symmetry",
    "look",
    "data",
    "training",
    "generation",
    "runs",
    "recipes",
    "api",
)
LANGUAGES = {
    ".py": "python",
    ".js": "javascript",
    ".css": "css",
    ".html": "html",
    ".cpp": "cpp",
    ".json": "json",
    ".toml": "toml",
}
PICTURES = {".png", ".svg", ".gif"}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def assemble(folder: Path) -> None:
    """Write all sources of the site into an empty folder."""
    linked: set[Path] = set()
    for page in PAGES:
        text = rewrite_links(ROOT / page, linked)
        if page == "README.md":
            text += _menu()
        _write(folder / _place(page), text)
    for path in sorted(linked):
        if path.suffix in PICTURES:
            _copy(path, folder)
        else:
            _write(folder / _source_page(path), _show_source(path))
    for name in REFERENCE:
        _write(folder / "api" / f"{name}.md", _reference(name))
    _write(folder / "api" / "regard.md", _public_names())
    shutil.copy(Path(__file__).with_name("conf.py"), folder / "conf.py")


def rewrite_links(page: Path, linked: set[Path]) -> str:
    """The text of a page whose links to files of code lead to their pages; what it links to is added to `linked`."""

    def rewrite(match: re.Match[str]) -> str:
        target, hash_, name = match[2].partition("#")
        if "://" in match[2] or match[2].startswith("mailto:") or not target:
            return match[0]
        path = (page.parent / target).resolve()
        inside = str(path.relative_to(ROOT))
        if inside in PAGES:
            return f"{match[1]}{_way(page, _place(inside))}{hash_}{name}{match[3]}"
        if path.is_dir():
            return f"{match[1]}{_way(page, _folder_page(path, linked))}{match[3]}"
        linked.add(path)
        if path.suffix in PICTURES:
            return match[0]
        return f"{match[1]}{_way(page, _source_page(path))}{match[3]}"

    text = page.read_text("utf-8")
    pieces: list[str] = []
    end = 0
    for fence in FENCE.finditer(text):  # what is in a code block is no link
        pieces.append(LINK.sub(rewrite, text[end : fence.start()]))
        pieces.append(fence[0])
        end = fence.end()
    pieces.append(LINK.sub(rewrite, text[end:]))
    return "".join(pieces)


def _way(page: Path, target: str) -> str:
    """A link from a page of the site to another."""
    here = Path(_place(str(page.relative_to(ROOT)))).parent
    return os.path.relpath(target, here).replace(os.sep, "/")


def _place(page: str) -> str:
    return "index.md" if page == "README.md" else page


def _source_page(path: Path) -> str:
    return f"source/{path.relative_to(ROOT)}.md"


def _folder_page(path: Path, linked: set[Path]) -> str:
    """The page of a folder is that of the file that its name promises."""
    first = path / "__init__.py"
    linked.add(first)
    return _source_page(first)


def _show_source(path: Path) -> str:
    language = LANGUAGES.get(path.suffix, "text")
    text = path.read_text("utf-8")
    fence = "`" * (max(map(len, re.findall(r"`{3,}", text)), default=2) + 1)
    return f"---\norphan: true\n---\n# {path.relative_to(ROOT)}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _menu() -> str:
    groups = [_toctree(caption, [page.removesuffix(".md") for page in pages]) for caption, pages in MENU.items()]
    groups.append(_toctree("Reference", ["api/regard", *(f"api/{name}" for name in REFERENCE)]))
    return "\n" + "\n".join(groups)


def _toctree(caption: str, pages: list[str]) -> str:
    inside = "\n".join(pages)
    return f"```{{toctree}}\n:caption: {caption}\n:hidden:\n:titlesonly:\n\n{inside}\n```\n"


def _public_names() -> str:
    """The names that `import regard` gives."""
    import regard

    lines = ["# regard", "", "The names of `import regard`. Everything else is in its module.", "", "```{eval-rst}"]
    for name in regard.__all__:
        kind = "autoclass" if name[0].isupper() else "autofunction"
        lines += [f".. {kind}:: {regard._HOME[name]}.{name}", "   :no-index:", ""]
    return "\n".join([*lines, "```", ""])


def _reference(name: str) -> str:
    """All modules of a folder, each with its public classes and functions."""
    lines = [f"# regard.{name}", ""]
    for path in sorted((ROOT / "regard" / name).rglob("*.py")):
        if path.name == "__init__.py" or not _defines_public(path):
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        lines += [
            f"## {module.removeprefix('regard.')}",
            "",
            "```{eval-rst}",
            f".. automodule:: {module}",
            "   :members:",
            "```",
            "",
        ]
    return "\n".join(lines)


def _defines_public(path: Path) -> bool:
    body = ast.parse(path.read_text("utf-8")).body
    return any(isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_") for node in body)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _copy(path: Path, folder: Path) -> None:
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    assemble(Path(sys.argv[1]))

"""What goes along with a release is true: licences, citation, workflow, the list of benchmarks, the pages of the site."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SITE = runpy.run_path(str(ROOT / "docs" / "site" / "assemble.py"))
CONF = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))


def dependencies():
    extras = PROJECT["optional-dependencies"]
    wanted = list(PROJECT["dependencies"])
    for name, packages in extras.items():
        if name not in ("all", "dev", "docs"):
            wanted += packages
    return {re.match(r"[\w.-]+", each).group() for each in wanted}


def test_each_dependency_has_a_licence_in_the_table():
    page = (ROOT / "docs" / "licences.md").read_text("utf-8")
    packages = page.partition("## Packages")[2].partition("## Data")[0]
    listed = re.findall(r"^\| ([\w-]+) \|", packages, re.MULTILINE)
    assert set(listed) - {"package"} == dependencies()
    for each in [*PROJECT["optional-dependencies"]["dev"], *PROJECT["optional-dependencies"]["docs"]]:
        assert re.search(rf"\b{re.escape(each)}\b", packages), f"{each} is not in docs/licences.md"


def test_the_citation_names_this_version():
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {regard.__version__}" in lines
    assert f"license: {PROJECT['license']}" in lines


def test_the_workflow_runs_every_version_of_python_that_is_promised():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    tested = set(re.findall(r'"(3\.\d+)"', workflow))
    promised = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each}
    assert tested == promised
    oldest = re.search(r"torch>=([\d.]+)", " ".join(PROJECT["dependencies"])).group(1)
    assert f'"{oldest}.0"' in workflow


# ── benchmarks ──────────────────────────────────────────────────────────────────────────────────────────────


def test_each_table_of_results_has_one_command():
    results = (ROOT / "benchmarks" / "results.md").read_text("utf-8")
    page = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| \[(.+?)\]\(results\.md#[^)]*\) \| (.+?) \|", page, re.MULTILINE))
    assert set(re.findall(r"^## (.+)$", results, re.MULTILINE)) == set(rows)
    for title, command in rows.items():
        scripts = re.findall(r"benchmarks/(\w+\.\w+)", command)
        assert scripts or command.startswith("no script: "), f"{title} has no command"
        assert all((ROOT / "benchmarks" / name).exists() for name in scripts), title


def test_each_benchmark_is_named_and_each_file_of_data_has_a_hash():
    page = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    missing = [path.name for path in (ROOT / "benchmarks").glob("*.py") if path.name not in page]
    assert not missing, f"say in benchmarks/README.md what {', '.join(missing)} measures"
    commands, _, data = page.partition("## Data")
    named = {name for cell in re.findall(r"\| ([^|]*) \|$", commands, re.MULTILINE) for name in cell.split(", ")}
    hashed = set(re.findall(r"^\| ([^|]+?) \| `[^|]+ \| `[0-9a-f]{64}` \|$", data, re.MULTILINE))
    packaged = {"MiniLM", "SmolLM2"}
    assert named - {"", "data", "---|---|---"} - packaged <= hashed


# ── the site ────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_page_is_in_the_menu_once():
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    listed = [page for page in SITE["PAGES"] if page.startswith("docs/")]
    assert sorted(listed) == sorted(pages)
    assert all((ROOT / page).exists() for page in SITE["PAGES"])


def test_links_to_code_lead_to_its_page_on_the_site(tmp_path):
    SITE["assemble"](tmp_path)
    for page in tmp_path.rglob("*.md"):
        if "source" in page.relative_to(tmp_path).parts:
            continue
        text = SITE["FENCE"].sub("", page.read_text("utf-8"))
        for _, link, _ in SITE["LINK"].findall(text):
            target = link.partition("#")[0]
            if target and "://" not in link and not link.startswith("mailto:"):
                assert (page.parent / target).exists(), f"{page.relative_to(tmp_path)}: {link}"
    shown = (tmp_path / "source/regard/attention/attend.py.md").read_text("utf-8")
    assert (ROOT / "regard/attention/attend.py").read_text("utf-8").rstrip() in shown
    assert "../source/regard/attention/attend.py.md" in (tmp_path / "docs/tour.md").read_text("utf-8")


@pytest.mark.parametrize(
    "docstring, rst",
    [
        ("Mix a_b and *c*.", ["Mix a\\_b and \\*c\\*.", ""]),
        ("Take `x`.", ["Take \\ ``x``\\ .", ""]),
        ("First.\n\n    y = x  # as typed", ["First.", "", "::", "", "       y = x  # as typed", ""]),
        ("one    first\ntwo    second", ["::", "", "   one    first", "   two    second", ""]),
    ],
)
def test_docstrings_keep_their_equations(docstring, rst):
    assert CONF["to_rst"](docstring.split("\n")) == rst

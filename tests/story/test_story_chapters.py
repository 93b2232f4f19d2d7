"""The text: its Python runs and prints what it says, its links lead somewhere, its equations are MathML."""

import re
from xml.etree import ElementTree

import pytest

from regard.errors import RegardError
from regard.story.chapter import FOLDER, read_chapters
from regard.story.equations import mathml
from regard.story.page import WEB
from tests.test_docs import DOCS, anchor, blocks, run

PATHS = sorted(FOLDER.glob("*.md"))
ALL = [block for path in PATHS for block in blocks(path.name, path.read_text("utf-8"))]


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.page)
def test_the_call_of_a_chapter_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "# " in block.code
    run(block, capsys)


def test_every_chapter_has_a_figure_a_call_and_a_page_to_read_on():
    for path in PATHS[1:-1]:
        text = path.read_text("utf-8")
        assert text.count("[figure: ") == text.count("```python") == text.count("[docs: ") == 1, path.name
        assert "$$" in text


def test_every_figure_has_a_script_and_every_script_a_figure():
    wanted = {name for path in PATHS for name in re.findall(r"\[figure: ([\w-]+)\]", path.read_text("utf-8"))}
    drawn = {
        name for path in WEB.glob("*.js") for name in re.findall(r"^figures\.(\w+) =", path.read_text("utf-8"), re.M)
    }
    assert wanted == drawn


def test_links_lead_to_headings_of_the_documentation():
    links = re.findall(r'href="at/(\w+)\.html(?:#([\w-]+))?"', "".join(each.html for each in read_chapters("at/")))
    assert len(links) == len(PATHS) - 1
    for page, name in links:
        text = (DOCS / f"{page}.md").read_text("utf-8")
        headings = {anchor(heading) for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)}
        assert not name or name in headings, f"{page}.md has no heading {name}"


def test_an_address_may_be_a_folder_of_this_machine():
    assert 'href="file:///a%20&amp;b/attention.html' in read_chapters("file:///a%20&b/")[1].html


def test_without_an_address_pages_are_named():
    text = "".join(each.html for each in read_chapters())
    assert "href=" not in text
    assert "Read on in <code>docs/attention.md</code>" in text


def test_no_line_of_a_call_is_too_long_for_the_column():
    assert [line for block in ALL for line in block.code.splitlines() if len(line) > 80] == []


def test_chapters_are_well_formed():
    for chapter in read_chapters("."):
        ElementTree.fromstring(chapter.html.replace("&nbsp;", " ").replace(' tabindex="0"', ""))
        assert "$" not in chapter.html


def test_html_is_shown_as_it_is_typed(tmp_path, monkeypatch):
    blocks = [
        "# A <b>",
        '<b onclick=x>a</b> $\\text{<i>} a<b$ `<u>` [x](javascript:x) "',
        "<script>\n1\n</script>",
        "```\n<s>\n```",
    ]
    (tmp_path / "00-a.md").write_text("\n\n".join(blocks), "utf-8")
    monkeypatch.setattr("regard.story.chapter.FOLDER", tmp_path)
    html = read_chapters("javascript:x")[0].html
    tags = set(re.findall(r"<(\w+)", html))
    assert tags == {"section", "h2", "span", "p", "math", "mrow", "mtext", "mi", "mo", "code", "pre"}
    for typed in ("b", "b onclick=x", "i", "u", "script", "s"):
        assert f"&lt;{typed}&gt;" in html


MATHML = "{http://www.w3.org/1998/Math/MathML}"
CHILDREN = {
    **dict.fromkeys(("mfrac", "msub", "msup", "munder", "mover"), 2),
    **dict.fromkeys(("msubsup", "munderover"), 3),
    **dict.fromkeys(("mi", "mn", "mo", "mtext", "mspace"), 0),
}


def test_every_equation_is_whole():
    for chapter in read_chapters("."):
        for equation in re.findall(r"<math.*?</math>", chapter.html):
            tree = ElementTree.fromstring(equation)
            for part in tree.iter():
                name = part.tag.removeprefix(MATHML)
                assert name in {"math", "mrow", "msqrt", *CHILDREN}, f"{chapter.name}: {equation}"
                assert len(part) == CHILDREN.get(name, len(part)), f"{chapter.name}: {equation}"
            shown = "".join(tree.itertext())
            for begin, end in ("()", "[]", "⟨⟩"):
                assert shown.count(begin) == shown.count(end), f"{chapter.name}: {shown}"
    for path in PATHS:
        text = path.read_text("utf-8")
        assert text.count("{") == text.count("}"), path.name


@pytest.mark.parametrize(
    "tex, wanted",
    [
        ("x_i", "<msub><mi>x</mi><mi>i</mi></msub>"),
        ("x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
        ("\\frac{1}{d}", "<mfrac><mrow><mn>1</mn></mrow><mrow><mi>d</mi></mrow></mfrac>"),
        ("\\theta", "<mi>θ</mi>"),
        ("\\sum_i", "<munder><mo>∑</mo><mi>i</mi></munder>"),
        ("a<b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
        ("\\text{<b>&lt;}", "<mtext>&lt;b&gt;&lt;</mtext>"),
    ],
)
def test_equations(tex, wanted):
    space = MATHML.strip("{}")
    assert mathml(tex, display=True) == f'<math xmlns="{space}" display="block"><mrow>{wanted}</mrow></math>'


@pytest.mark.parametrize("tex", ["a}", "x_", "\\unknown", "\\text{a", "\\left( a", "\\mathbb"])
def test_a_wrong_equation_is_refused(tex):
    with pytest.raises(RegardError, match=re.escape(tex)):
        mathml(tex)

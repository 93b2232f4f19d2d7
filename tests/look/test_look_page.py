"""The page in a real browser: every view is opened, clicked and hovered, and what it says is compared with the data."""

import re

import pytest
import torch

from regard.look import page
from tests.look import pages
from tests.look.browser import PHONE, eventually, opened, plain, point, readout, ready, three
from tests.look.scenes import write_page

VIEWS = ["attention", "next", "classes", "contribution", "image", "positions", "filters", "features", "embeddings"]
VIEWS += ["curves", "samples", "laws", "confusion", "about"]


# ---- the frame


def test_every_view_opens_and_says_what_it_is(browser, example):
    with opened(browser, example) as shown:
        tabs = shown.get_by_role("tab")
        assert [tab.get_attribute("id") for tab in tabs.all()] == [f"tab-{name}" for name in VIEWS]
        for tab, name in zip(tabs.all(), VIEWS, strict=True):
            tab.click()
            assert tab.get_attribute("aria-selected") == "true"
            title = shown.get_by_role("tabpanel").locator("h2").first
            eventually(shown, lambda title=title: title.inner_text() != "", True)
            assert f"view={name}" in shown.url
        assert shown.title() == "a small decoder"
        assert "without dropout" in shown.locator("footer").inner_text()


def test_only_what_there_is_has_a_tab(browser, tmp_path):
    strange = {"view": "from the future", "data": 1}
    with opened(browser, write_page(pages.page_of([pages.classes(), strange]), tmp_path / "few.html")) as shown:
        assert shown.get_by_role("tab").all_inner_texts() == ["Classes"]
    with opened(browser, write_page(pages.page_of([]), tmp_path / "none.html")) as shown:
        assert "nothing to see" in shown.get_by_role("tabpanel").inner_text()


def test_tabs_follow_the_arrow_keys(browser, example):
    with opened(browser, example, "next") as shown:
        shown.locator("#tab-next").focus()
        for key, name in [
            ("ArrowRight", "classes"),
            ("ArrowLeft", "next"),
            ("End", "about"),
            ("ArrowRight", "attention"),
        ]:
            shown.keyboard.press(key)
            assert shown.evaluate("document.activeElement.id") == f"tab-{name}"
            assert shown.locator(f"#tab-{name}").get_attribute("aria-selected") == "true"


def test_a_link_opens_the_same_view(browser, example):
    with opened(browser, example, "attention&layer=3&head=6") as shown:
        assert shown.get_by_role("heading", name="Layer 3, head 6").is_visible()
        shown.get_by_role("button", name="layer 2, head 4").click()
        assert shown.get_by_role("heading", name="Layer 2, head 4").is_visible()
        kept = shown.url
        assert kept.endswith("#view=attention&layer=2&head=4")  # as the page counts
        shown.goto("about:blank")
        shown.goto(kept)
        assert shown.get_by_role("heading", name="Layer 2, head 4").is_visible()
        shown.evaluate("location.hash = 'view=laws'")
        shown.get_by_role("heading", name="What the model promises").wait_for()
    with opened(browser, example, "<b>&layer=99&head=0") as shown:  # what makes no sense is as if it were not there
        assert shown.get_by_role("heading", name="Layer 1, head 1").is_visible()


def test_dark_and_light(browser, example):
    paper = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, example, color_scheme="dark") as shown:
        night = shown.evaluate(paper)
        shown.get_by_role("button", name="show the page light").click()
        day = shown.evaluate(paper)
        assert sum(map(int, re.findall(r"\d+", night)[:3])) < 120 < 700 < sum(map(int, re.findall(r"\d+", day)[:3]))
        shown.reload()
        assert shown.evaluate(paper) == day  # what was chosen is remembered
    with opened(browser, example, color_scheme="light") as shown:
        assert shown.evaluate(paper) == day


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser, example, scheme):
    """WCAG AA: 4.5 for text, on each ground it stands on."""
    on_paper = [(name, "paper") for name in ("ink", "muted", "accent")]
    pairs = [*on_paper, ("ink", "raised"), ("muted", "raised"), ("accent", "tint"), ("on-accent", "accent")]
    pairs += [(name, f"{name}-tint") for name in ("good", "bad", "unsure")]
    measure = """pairs => {
        const probe = document.body.appendChild(document.createElement("i"));
        const light = (name) => {
            probe.style.color = `var(--${name})`;
            const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map((c) => c / 255)
                .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
        };
        return pairs.map(([a, b]) => Math.max(light(a) / light(b), light(b) / light(a)));
    }"""
    with opened(browser, example, color_scheme=scheme) as shown:
        found = dict(zip(pairs, shown.evaluate(measure, pairs), strict=True))
        assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}


def test_a_phone_scrolls_only_down(browser, example):
    wide = "[document.scrollingElement.scrollWidth, innerWidth]"
    with opened(browser, example, viewport=PHONE, has_touch=True, is_mobile=True) as shown:
        found = {}
        for name in VIEWS:
            shown.locator(f"#tab-{name}").tap()
            shown.wait_for_timeout(60)  # what is unpacked first is drawn then
            found[name] = shown.evaluate(wide)
        assert found == {name: [360, 360] for name in VIEWS}


def test_touch(browser, example):
    with opened(browser, example, viewport=PHONE, has_touch=True) as shown:
        field = shown.locator(".field")
        field.wait_for()
        size = field.bounding_box()
        field.tap(position={"x": size["width"] * 1.5 / 17, "y": size["height"] * 1.5 / 17})
        assert readout(shown).startswith("query ·cat 2 → key ·cat 2")
        shown.locator("label", has_text="lines").tap()
        shown.locator(".links").tap(position={"x": 40, "y": 4 + 20 * 2.5})
        assert readout(shown).startswith("query ·sat 3 looks at")


def test_printing_leaves_out_what_is_for_the_screen(browser, example):
    corner = "node => [...node.getContext('2d').getImageData(node.width - 2, 2, 1, 1).data.slice(0, 3)]"
    with opened(browser, example, color_scheme="dark", expected="willReadFrequently") as shown:
        ready(shown)
        assert max(shown.locator(".cells").evaluate(corner)) < 60  # hidden by the mask: as dark as the paper
        shown.emulate_media(media="print")
        eventually(shown, lambda: min(shown.locator(".cells").evaluate(corner)) > 240, True)
        assert not shown.get_by_role("tablist").is_visible() and not shown.locator(".controls").first.is_visible()
        assert shown.locator(".matrix").is_visible()
        assert shown.evaluate("getComputedStyle(document.body).color") == "rgb(26, 29, 34)"


def test_nothing_is_read_as_html_or_from_elsewhere():
    made = page.parts()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "import(",
        "url(",
    ):
        assert word not in made["script"] + made["style"], word
    addresses = re.findall(r"https?://[^\"'\s]+", made["script"] + made["style"] + made["page"])
    assert addresses == ["http://www.w3.org/2000/svg"]  # a name, which nobody asks for
    assert "{{POLICY}}" in made["page"] and page.policy().startswith("default-src 'none'; script-src 'sha256-")
    assert "'unsafe" not in page.policy() + page.policy(live=True)


def test_only_the_scripts_of_the_page_run(browser, tmp_path):
    """Whatever else gets into a page, by whatever way, is not run: the policy names the script by its hash."""
    where = write_page(pages.page_of([pages.classes()], ["a"]), tmp_path / "page.html")
    planted = (
        "<script>window.planted = 1</script><img src=x onerror='window.planted = 2'>"
        "<style>body { color: rgb(1, 2, 3) !important }</style><a href='javascript:window.planted = 3' id=go>x</a>"
        "<iframe srcdoc='<script>parent.planted = 4</script>'></iframe>"
    )
    text = where.read_text().replace("</body>", f"{planted}</body>")
    where.write_text(text)
    with opened(browser, where, expected="Content Security Policy") as shown:
        ready(shown, "regard:open")
        shown.evaluate("document.getElementById('go').click()")
        shown.wait_for_timeout(50)
        assert shown.evaluate("window.planted") is None
        assert shown.evaluate("getComputedStyle(document.body).color") != "rgb(1, 2, 3)"
        assert shown.locator("h1").inner_text()


def test_hostile_labels(browser, tmp_path):
    labels = [
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(2)>",
        "\x00\x1b[31m",
        "a\u202eb",
        "",
        " ",
        "\n\t",
    ]
    labels += ["{{DATA}}", "ש", "\u2028", "👩‍🚀", "x" * 500, "&lt;"]
    seen = pages.attention(labels, 1, 2)
    views = [seen, pages.next_token(labels), pages.contribution(labels), pages.embeddings(labels)]
    data = pages.page_of(views, labels, title="<b>&</b>", notes=["<img src=x onerror=alert(3)>"])
    with opened(browser, write_page(data, tmp_path / "hostile.html")) as shown:
        ready(shown)
        assert shown.title() == "<b>&</b>" and shown.locator("h1").inner_text() == "<b>&</b>"
        assert shown.locator(".labels .label.row").all_text_contents() == [
            "<script>alert(1)</script>", "</script><img·src=x·onerror=alert(2)>", "␀␛[31m", "a‹202E›b", "∅", "·", "↵⇥",
            "{{DATA}}", "ש", "‹2028›", "👩‍🚀", "x" * 39 + "…", "&lt;",
        ]  # fmt: skip
        assert "key <script>alert(1)</script> 1" in point(shown, 13, 13, 3, 0)
        for name in ("next", "contribution", "embeddings"):
            shown.locator(f"#tab-{name}").click()
        assert shown.locator("img, b").count() == 0
        assert shown.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


# ---- attention


def weights_of(layer=0, heads=8, n=17):
    return pages.kinds_of_heads(n, layer, heads)


def test_the_matrix_says_the_weights(browser, example):
    weights = weights_of(2)[3].half().float()
    with opened(browser, example, "attention&layer=3&head=4") as shown:
        ready(shown)
        for i, j in [(0, 0), (5, 2), (16, 16), (9, 4), (12, 0)]:
            said = point(shown, 17, 17, i, j)
            names = [pages.SENTENCE[k].replace(" ", "·").replace("\n", "↵") for k in (i, j)]
            assert said == f"query {names[0]} {i + 1} → key {names[1]} {j + 1} {three(weights[i, j].item())}"
        assert point(shown, 17, 17, 2, 9).endswith("key ·tired 10 0")  # hidden by the mask
        marked = shown.locator(".label.marked:visible").all_text_contents()
        assert marked == ["·sat", "·tired"]
        shown.mouse.move(5, 5)
        assert readout(shown).startswith("Point at")


def test_a_clicked_cell_stays_and_arrows_move_it(browser, example):
    with opened(browser, example) as shown:
        ready(shown)
        point(shown, 17, 17, 5, 2)
        shown.mouse.down()
        shown.mouse.up()
        shown.mouse.move(5, 5)
        assert readout(shown).startswith("query ·mat 6 → key ·sat 3 ")
        shown.locator(".matrix").focus()
        moves = {"ArrowRight": "query ·mat 6 → key ·on 4", "ArrowUp": "query ·the 5 → key ·on 4", "Home": "→ key The 1",
                 "Shift+ArrowDown": "query ·did 15 → key The 1", "End": "→ key . 17", "Escape": "Point at"}  # fmt: skip
        for key, words in moves.items():
            shown.keyboard.press(key)
            assert words in readout(shown), key


def test_a_weight_that_is_not_listed_is_below_those_that_are(browser, tmp_path):
    weights = torch.tensor(
        [[[0.5, 0.25, 0.125, 0.125], [0.0, 0.75, 0.25, 0.0], [0.125, 0.125, 0.25, 0.5], [1.0, 0, 0, 0]]]
    )
    weights = torch.cat([weights, weights.flip(-1)])
    seen = {"view": "attention", "layers": [pages.layer_of(weights, 0, count=2)]}
    with opened(browser, write_page(pages.page_of([seen], list("abcd")), tmp_path / "listed.html")) as shown:
        ready(shown)
        assert point(shown, 4, 4, 0, 1).endswith(" 0.250")
        bound = ((round(255 * 0.125**0.5) + 0.5) / 255) ** 2  # the small map knows better than the list
        assert point(shown, 4, 4, 0, 2).endswith(f" below {three(bound)}")
        assert point(shown, 4, 4, 3, 1).endswith(" 0")  # fewer are listed than there is room for
        assert "2 largest weights of each row" in shown.locator(".legend").inner_text()
        shown.get_by_role("button", name="layer 1, head 2").click()
        assert point(shown, 4, 4, 3, 3).endswith(" 1.00")


def test_single_characters_stand_upright_and_skipped_labels_are_told(browser, tmp_path):
    labels = [*"abc", " d", *"efgh"] * 30
    layer = pages.layer_of(pages.kinds_of_heads(240, 0, 2), 0, count=8)
    data = pages.page_of([{"view": "attention", "layers": [layer]}], labels)
    with opened(browser, write_page(data, tmp_path / "long.html")) as shown:
        shown.locator(".label.column").first.wait_for()
        words = plain(shown.locator(".skipped").inner_text())
        step = int(words.split()[1].rstrip("stndrh"))
        assert words.startswith(f"Every {words.split()[1]} row and every ") and words.endswith("read the others.")
        assert shown.locator(".labels .label.row").count() == -(-240 // step)
    with opened(
        browser, write_page(pages.page_of([pages.attention([*"abc", " d"])], [*"abc", " d"]), tmp_path / "short.html")
    ) as shown:
        shown.locator(".label.column").first.wait_for()
        column = shown.locator(".labels .label.column")
        upright = column.evaluate_all("all => all.map((one) => getComputedStyle(one).writingMode)")
        assert upright == ["horizontal-tb"] * 3 + ["vertical-rl"]
        assert shown.locator(".skipped").is_hidden()


def test_lines_and_matrix_point_together(browser, example):
    weights = weights_of(0)[2].half().float()
    with opened(browser, example, "attention&layer=1&head=3") as shown:
        ready(shown)
        box = shown.locator(".links").bounding_box()
        shown.mouse.move(box["x"] + 30, box["y"] + 4 + 20 * 8.5)
        said = readout(shown)
        best = zip(*(each.tolist() for each in weights[8].topk(5)), strict=True)
        assert said.startswith("query ·was 9 looks at ")
        assert re.findall(r"(\d+) (\d\.\d+)", said) == [(str(j + 1), three(weight)) for weight, j in best]
        assert shown.locator(".label.marked:visible").all_text_contents() == ["·was"]
        shown.mouse.move(box["x"] + box["width"] - 30, box["y"] + 4 + 20 * 3.5)
        assert readout(shown).startswith("key ·on 4 is looked at by ")
        shown.mouse.move(5, 5)
        shown.locator(".links").focus()
        moves = [
            ("ArrowDown", "query The 1"),
            ("ArrowDown", "query ·cat 2"),
            ("ArrowRight", "key ·cat 2"),
            ("End", "key . 17"),
        ]
        for key, words in moves:
            shown.keyboard.press(key)
            assert readout(shown).startswith(words)


def test_matrix_or_lines_or_both(browser, example):
    with opened(browser, example) as shown:
        ready(shown)
        for way, seen in [("matrix", (True, False)), ("lines", (False, True)), ("both", (True, True))]:
            shown.locator(".enlarged label", has_text=way).click()
            assert (shown.locator(".matrix").is_visible(), shown.locator(".links").is_visible()) == seen


def test_the_sheet_of_heads(browser, example):
    data = pages.example()["views"][0]["layers"]
    with opened(browser, example) as shown:
        ready(shown, "regard:complete")
        first = shown.get_by_role("button", name="layer 1, head 1")
        pixel = "node => [...node.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1).data]"
        assert sum(first.evaluate(pixel)[:3]) < 150  # the first token can only look at itself
        first.focus()
        for key, name in [
            ("ArrowRight", "layer 1, head 2"),
            ("ArrowDown", "layer 2, head 2"),
            ("ArrowUp", "layer 1, head 2"),
        ]:
            shown.keyboard.press(key)
            assert shown.evaluate("document.activeElement.getAttribute('aria-label')") == name
        assert shown.get_by_role("heading", name="Layer 1, head 2").is_visible()
        facts = plain(shown.locator(".figures-of").inner_text())
        assert (
            facts
            == f"entropy {three(data[0]['entropy'][1])} distance {three(data[0]['distance'][1])} proved to 1.2·10⁻⁷"
        )
        for measure in ("entropy", "distance"):
            shown.locator(".overview label", has_text=measure).click()
            said = shown.locator(".head .figure").all_inner_texts()
            wanted = [x for layer in data[:4] for x in layer[measure]]
            assert [float(x) for x in said] == pytest.approx(wanted, abs=0.051)


def test_a_layer_that_is_not_proved_says_why(browser, example):
    with opened(browser, example) as shown:
        shown.get_by_role("button", name="layer 5 is not shown").click()
        assert "attention dropout was on" in shown.locator(".reason").inner_text()
        assert shown.locator(".matrix").count() == 0


def test_cross_attention_has_rows_and_columns_of_its_own(browser, tmp_path):
    data = pages.translation()
    with opened(browser, write_page(data, tmp_path / "cross.html")) as shown:
        ready(shown)
        assert shown.locator(".head").count() == 12
        shown.locator(".overview label", has_text="cross").click()
        assert shown.locator(".head").count() == 4
        assert shown.get_by_role("heading", name="Layer 3, head 1").is_visible()
        shown.locator(".as-matrix .axes", has_text="queries: target").wait_for()
        rows, columns = (shown.locator(f".labels .label.{side}") for side in ("row", "column"))
        eventually(shown, lambda: rows.all_text_contents()[:3], ["Die", "·Katze", "·saß"])
        assert columns.all_text_contents()[:3] == ["The", "·cat", "·sat"]
        assert point(shown, 7, 7, 1, 1).startswith("query ·Katze 2 → key ·cat 2")
        assert "Die Katze" in shown.locator(".asked").inner_text()


def test_pieces_become_words_and_a_switch_shows_them_again(browser, tmp_path):
    english, german = (["A", " grand", "mother", " jumps", "."], ["Eine", " Groß", "mut", "ter", " spr", "ingt", "."])
    streams = [
        pages.text_stream(english, "source") | {"words": [0, 1, 1, 2, 3]},
        pages.text_stream(german, "target") | {"words": [0, 1, 1, 1, 2, 2, 3]},
    ]
    weights = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    layers = [
        pages.layer_of(weights, 0, kind="cross", rows=1, columns=0, distance=None),
        pages.layer_of(pages.kinds_of_heads(7, 1, 2), 1, rows=1, columns=1),
    ]
    data = pages.page_of([{"view": "attention", "layers": layers}], streams=streams)
    into = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    summed = weights[0] @ into  # into the pieces of a word: summed
    merged = torch.stack([summed[0], summed[1:4].mean(0), summed[4:6].mean(0), summed[6]])  # from them: averaged
    with opened(browser, write_page(data, tmp_path / "words.html")) as shown:
        ready(shown)
        names = shown.locator(".labels .label.row")
        assert names.all_text_contents() == ["Eine", "Großmutter", "springt", "."]
        assert shown.locator(".labels .label.column").all_text_contents() == ["A", "grandmother", "jumps", "."]
        said = point(shown, 4, 4, 1, 1)
        assert said == f"query Großmutter 2 → key grandmother 2 {three(merged[1, 1].item())}"
        assert point(shown, 4, 4, 2, 3).endswith(three(merged[2, 3].item()))
        shown.locator(".units label", has_text="tokens").click()
        eventually(shown, lambda: names.count(), 7)
        assert point(shown, 7, 5, 1, 2) == f"query ·Groß 2 → key mother 3 {three(weights[0, 1, 2].item())}"
        assert shown.evaluate("document.activeElement.value") == "tokens"  # keys go on from there
        shown.get_by_role("button", name="layer 2, head 1").click()
        eventually(shown, lambda: names.count(), 7)
        shown.locator(".units label", has_text="words").click()
        eventually(shown, lambda: names.count(), 4)
        shown.get_by_role("button", name="layer 1, head 2").click()  # what was chosen stays
        columns = shown.locator(".labels .label.column")
        eventually(shown, lambda: columns.all_text_contents()[1:2], ["grandmother"])


@pytest.mark.parametrize("words", [None, [0, 1, 2, 3], [0, 0, 1]])
def test_without_words_of_several_pieces_there_is_no_switch(browser, tmp_path, words):
    stream = pages.text_stream(["a", " b", " c", " d"]) | {"words": words}
    seen = {"view": "attention", "layers": [pages.layer_of(pages.kinds_of_heads(4, 0, 2), 0)]}
    data = pages.page_of([seen], streams=[stream])
    with opened(browser, write_page(data, tmp_path / "none.html")) as shown:
        ready(shown)
        shown.locator(".labels .label.row").first.wait_for()
        assert shown.locator(".units").count() == 0 and shown.locator(".labels .label.row").count() == 4


def test_letters_are_shown_as_letters_until_words_are_asked_for(browser, tmp_path):
    labels = list("12 mai 2026")
    stream = pages.text_stream(labels) | {"words": [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]}
    cross = pages.layer_of(pages.kinds_of_heads(11, 0, 2), 0, kind="cross", distance=None)
    data = pages.page_of([{"view": "attention", "layers": [cross]}], streams=[stream])
    with opened(browser, write_page(data, tmp_path / "letters.html")) as shown:
        ready(shown)
        assert shown.locator(".labels .label.row").count() == 11
        shown.locator(".units label", has_text="words").click()
        eventually(shown, lambda: shown.locator(".labels .label.row").all_text_contents(), ["12", "mai", "2026"])


def test_more_weight_is_darker_by_day_and_lighter_by_night(browser, tmp_path):
    weights = torch.tensor([0.0, 0.01, 0.04, 0.1, 0.25, 0.6])
    seen = {"view": "attention", "layers": [pages.layer_of(weights.expand(1, 6, 6), 0)]}
    where = write_page(pages.page_of([seen], list("abcdef")), tmp_path / "ramp.html")
    pick = """node => {
        const line = node.getContext("2d").getImageData(0, 5, node.width, 1).data;
        return [0, 1, 2, 3, 4, 5].map((j) => 4 * Math.floor((j + 0.5) * node.width / 6))
            .map((x) => 0.2126 * line[x] + 0.7152 * line[x + 1] + 0.0722 * line[x + 2]);
    }"""
    for scheme, sign in (("light", -1), ("dark", 1)):
        with opened(browser, where, color_scheme=scheme) as shown:
            ready(shown)
            seen = [sign * x for x in shown.locator(".cells").evaluate(pick)]
            assert seen == sorted(seen) and len({round(x) for x in seen}) == 6


def test_a_large_page_is_small_enough(browser, tmp_path):
    """12 layers × 12 heads × 512 tokens. How long it takes is measured in benchmarks/look_page.py."""
    where = write_page(pages.large(), tmp_path / "large.html")
    assert where.stat().st_size < 10_000_000
    with opened(browser, where) as shown:
        ready(shown)
        assert "24 largest" in shown.locator(".legend").inner_text()
        assert re.fullmatch(
            r"query ·token305 306 → key ·token\d+ \d+ (below )?[\d.]+", point(shown, 512, 512, 305, 100)
        )
        # no node for each cell or each token
        assert shown.evaluate("document.querySelectorAll('*').length") < 2_000
        box = shown.locator(".links").bounding_box()
        shown.mouse.move(box["x"] + 30, box["y"] + 4 + 20 * 8.5)
        assert readout(shown).startswith("query ·token")
        ready(shown, "regard:complete")

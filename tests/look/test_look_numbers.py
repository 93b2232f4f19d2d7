"""One way to write numbers: Python and the scripts of the page agree in every digit."""

import random

import pytest

from regard.look.page import SCRIPTS, WEB
from regard.runs.number_format import say_loss, say_number, say_percent, say_value
from tests.look.browser import SUPERSCRIPTS

TIES = [0.125, 0.0625, 0.5, 2.5, 0.00125, 1.5, 12345.5, 0.87650, 0.9995, 0.99995, 0.0001, 0.00005, 999.5, 99999.5]


def some_numbers():
    chance = random.Random(0)
    spread = [chance.choice((-1, 1)) * 10 ** chance.uniform(-9, 9) for _ in range(400)]
    return [0.0, 1.0, *TIES, *spread, *(chance.random() for _ in range(300)), *(k / 128 for k in range(128))]


def as_on_the_page(text):
    """A minus is one, and a power is raised."""
    first, found, power = text.partition("e")
    if found:
        text = f"{first}·10{str(int(power)).translate(SUPERSCRIPTS)}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def test_the_page_and_python_agree(browser):
    numbers = some_numbers()
    asked = {
        "number(x, 3)": [as_on_the_page(say_number(x, 3)) for x in numbers],
        "number(x, 6)": [as_on_the_page(say_number(x, 6)) for x in numbers],
        "percent(x)": [say_percent(x) for x in numbers if 0 <= x <= 1],
        "lossText(x)": [as_on_the_page(say_loss(x)) for x in numbers],
        'valueText("MAE", x)': [as_on_the_page(say_value("MAE", x)) for x in numbers],
    }
    code = (WEB / SCRIPTS / "02-numbers.js").read_text("utf-8")
    shown = browser.contexts[0].pages[0]
    shown.goto("about:blank")
    for call, wanted in asked.items():
        given = [x for x in numbers if 0 <= x <= 1] if "percent" in call else numbers
        run = f"([code, numbers]) => new Function('numbers', code + '; return numbers.map((x) => {call})')(numbers)"
        found = shown.evaluate(run.replace('"MAE"', '\\"MAE\\"'), [code, given])
        wrong = [each for each in zip(given, wanted, found, strict=True) if each[1] != each[2]]
        assert not wrong, f"{call}: {wrong[:5]}"


@pytest.mark.parametrize(
    "share, said",
    [(0, "0%"), (1, "100%"), (0.876, "87.6%"), (0.0012, "0.12%"), (0.99964, "99.96%"), (0.999999, ">99.99%"), (1e-7, "<0.01%")],
)  # fmt: skip
def test_a_share_is_never_rounded_to_nothing_or_all(share, said):
    assert say_percent(share) == said


@pytest.mark.parametrize(
    "x, said", [(0, "0"), (35.21374, "35.21"), (123456, "1.23e+05"), (12345.6, "12346"), (-1.2e-7, "-1.20e-07")]
)
def test_a_number_has_its_significant_digits(x, said):
    assert say_number(x) == said

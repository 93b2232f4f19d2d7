"""A real browser for tests: Debian's Chromium, driven by Playwright, that tells of every complaint and every request."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

COMMAND = "sudo apt-get install chromium"
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-quic",
]  # fmt: skip
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser. Without it the tests are skipped, unless REGARD_BROWSER=required says that it has to be there."""
    where = shutil.which("chromium")
    if where is None:
        words = f"no chromium to open pages with; {COMMAND}"
        if os.environ.get("REGARD_BROWSER") == "required":
            pytest.fail(words)
        pytest.skip(words)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=QUIET)
        browser.new_context(viewport=DESK).new_page()
        yield browser
        browser.close()


class Watcher:
    """What a page did that it should not: complaints in its console, and requests for anything but itself."""

    def __init__(self, allowed: str, expected: str) -> None:
        self.allowed, self.expected = allowed, expected
        self.complaints: list[str] = []
        self.heard = {"console": self.said, "pageerror": self.thrown, "dialog": self.asked, "request": self.requested}

    def said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (self.expected and self.expected in message.text):
            self.complaints.append(f"{message.type}: {message.text}")

    def thrown(self, error: Exception) -> None:
        self.complaints.append(f"thrown: {error}")

    def asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def requested(self, request: Request) -> None:
        if not request.url.startswith((self.allowed, "data:", "about:")):
            self.complaints.append(f"request: {request.url}")


@contextmanager
def watched(
    browser: Browser, *, allowed: str = "file:", expected: str = "", color_scheme: str = "light", **options: Any
) -> Iterator[Page]:
    """A page that must have given no cause for complaint when the test is over, but for what was `expected`.

    Without options it is always the same one, emptied: a window of its own takes longer than most tests.
    """
    context = browser.new_context(**{"viewport": DESK, **options}) if options else browser.contexts[0]
    page = context.new_page() if options else context.pages[0]
    page.goto("about:blank")
    page.emulate_media(media="screen", color_scheme=color_scheme)
    page.set_default_timeout(30_000)  # of a machine that is busy with something else
    watcher = Watcher(allowed, expected)
    for event, heard in watcher.heard.items():
        page.on(event, heard)
    try:
        yield page
        page.evaluate("localStorage.clear()")
    finally:
        for event, heard in watcher.heard.items():
            page.remove_listener(event, heard)
        if options:
            context.close()
    assert watcher.complaints == []


@contextmanager
def opened(browser: Browser, where: Path, view: str = "", **options: Any) -> Iterator[Page]:
    """A page that was written to a file."""
    with watched(browser, **options) as shown:
        shown.goto(where.as_uri() + (f"#view={view}" if view else ""))
        yield shown


def ready(shown: Page, mark: str = "regard:interactive") -> None:
    shown.wait_for_function("name => performance.getEntriesByName(name).length > 0", arg=mark)


def eventually(shown: Page, asked: Callable[[], Any], wanted: Any) -> None:
    """What is unpacked first is drawn a little later."""
    for _ in range(200):
        if asked() == wanted:
            return
        shown.wait_for_timeout(50)
    assert asked() == wanted


def readout(shown: Page, within: str = "") -> str:
    return plain(shown.locator(f"{within} .readout").first.inner_text())


def point(shown: Page, n: int, m: int, i: int, j: int, within: str = "") -> str:
    """The pointer goes to the middle of a cell of a matrix; what is then said."""
    field = shown.locator(f"{within} .field").first
    field.wait_for()
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    assert box is not None
    shown.mouse.move(box["x"] + (j + 0.5) * box["width"] / m, box["y"] + (i + 0.5) * box["height"] / n)
    return readout(shown, within)


def hover(shown: Page, selector: str, x: float, y: float) -> None:
    """The pointer goes to a part of an element, measured in its width and height."""
    box = shown.locator(selector).first.bounding_box()
    assert box is not None
    shown.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])


def plain(text: str) -> str:
    """What a reader sees, in one line."""
    return " ".join(text.replace("\u2009", " ").split())


def three(x: float) -> str:
    """Three digits, as the page writes them."""
    if x == 0:
        return "0"
    if abs(x) >= 0.001:
        digits = max(0, 2 - math.floor(math.log10(abs(x))))
        return f"{x:.{digits}f}".replace("-", "−")
    first, power = f"{x:.1e}".split("e")
    return f"{first}·10{str(int(power)).translate(SUPERSCRIPTS)}".replace("-", "−")

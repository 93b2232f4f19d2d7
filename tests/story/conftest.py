"""The story, built once for all tests, and opened once in a browser."""

import pytest

from tests.look.browser import DESK, Watcher, ready


@pytest.fixture(scope="session")
def built():
    from regard.story.build import build

    heard = []
    data = build(lambda what, share: heard.append((what, share)))
    return data, heard


@pytest.fixture(scope="session")
def written(built, tmp_path_factory):
    from regard.story.page import write

    return write(built[0], tmp_path_factory.mktemp("story") / "story.html")


@pytest.fixture(scope="session")
def window(browser, written):
    """One page for tests that only ask it, or leave it as they found it. It has complained about nothing at the end."""
    page = browser.new_context(viewport=DESK, has_touch=True).new_page()
    page.set_default_timeout(10_000)
    watcher = Watcher("file:", "")
    for event, told in watcher.heard.items():
        page.on(event, told)
    page.goto(written.as_uri())
    ready(page)
    yield page
    page.context.close()
    assert watcher.complaints == []


@pytest.fixture
def fresh(window):
    """The same page, as it is when it is opened."""
    window.reload()
    ready(window)
    return window

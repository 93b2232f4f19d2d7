"""One browser for all tests of pages, and one page with every view: both take longer to make than most tests."""

import pytest


@pytest.fixture(scope="session")
def browser():
    from tests.look.browser import chromium

    with chromium() as one:
        yield one


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    from regard.look import page
    from tests.look import pages

    return page.write(pages.example(), tmp_path_factory.mktemp("page") / "example.html")

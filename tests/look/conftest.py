"""One browser for all tests of pages: starting it takes longer than most of them."""

import pytest


@pytest.fixture(scope="session")
def browser():
    from tests.look.browser import chromium

    with chromium() as one:
        yield one

"""One page with every view, which takes longer to make than most tests."""

import pytest


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    from tests.look import pages
    from tests.look.scenes import write_page

    return write_page(pages.example(), tmp_path_factory.mktemp("page") / "example.html")

"""What all tests share: hypothesis tries the same examples on every machine, so that a failure is one for everybody."""

import gc
import os
import sys

import pytest
from hypothesis import settings

# before PyTorch comes: workers that each take all cores wait for each other
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("same", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("same")

# a tracer makes millions of small objects: looking for cycles every 700 is a tenth of all time
gc.set_threshold(50_000)


@pytest.fixture
def no_report(monkeypatch):
    """Runs of commands end as with report=False: curves, laws and report take ten times as long as a few small steps."""
    from regard.verbs import train_run

    whole = train_run.finish_run
    monkeypatch.setattr(train_run, "finish_run", lambda *what, **how: whole(*what, **how | {"report": False}))


@pytest.fixture
def everything():
    """For tests of what a run ends with: the curves, the laws, the report."""


@pytest.fixture(scope="session")
def browser():
    from tests.look.browser import chromium

    with chromium() as one:
        yield one


@pytest.fixture(autouse=True)
def close_figures():
    """A test that draws leaves no figure open: pyplot keeps them all."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")

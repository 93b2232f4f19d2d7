import pytest

from tests.serving.asking import echo_server


@pytest.fixture(scope="session")
def echo():
    """Scheduler and application of a server that repeats what it is told."""
    _, scheduler, app = echo_server()
    yield scheduler, app
    scheduler.close()

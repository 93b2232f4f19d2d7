"""What all tests share: hypothesis tries the same examples on every machine, so that a failure is one for everybody."""

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("same")

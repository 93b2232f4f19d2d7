"""What the tests of training share: no waiting for the disk, which matters in a power cut only."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)

"""Endpoints for the tests: one that fails on demand, one that is real."""

import sys
from pathlib import Path

import pytest

from practicum.models.chat import ChatServer

sys.path.insert(0, str(Path(__file__).with_name("standins")))
from faulty_endpoint import FaultyEndpoint

KEY = "sk-secret-7f3a9c51e2d84b06"


@pytest.fixture
def faults():
    endpoint = FaultyEndpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture(scope="session")
def real_endpoint():
    """llama.cpp's own server around the packaged model; it asks for no key."""
    with ChatServer(n_ctx=1024) as server:
        yield server


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


@pytest.fixture
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

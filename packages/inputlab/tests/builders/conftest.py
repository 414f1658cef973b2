"""Makes `pair_requests` importable for the tests beside it, and gives the fixture pair."""

import importlib.util
import sys
from pathlib import Path

import pytest


def _load():
    name = "inputlab_pair_requests"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("pair_requests.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def pairs():
    """The module `pair_requests`."""
    return _load()


@pytest.fixture(scope="session")
def fixture_pair(pairs, tmp_path_factory):
    """Request, binding and variables of the fixture pair."""
    return pairs.fixture_request(tmp_path_factory.mktemp("fixture"))

"""`concerto.testing` offers the names of all its modules, and loads the heavy ones on first use."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import concerto.testing

MODULES = ["control_models", "emergency", "encounters", "filters", "responsibility"]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_of_a_module_is_offered_by_the_package(module: str) -> None:
    home = importlib.import_module(f"concerto.testing.{module}")
    assert set(home.__all__) <= set(concerto.testing.__all__)
    for name in home.__all__:
        assert getattr(concerto.testing, name) is getattr(home, name)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'check_everything'"):
        concerto.testing.check_everything  # noqa: B018 - the access is the test


def test_importing_the_package_compiles_and_solves_nothing() -> None:
    code = (
        "import sys, concerto.testing; print(sorted({'numba', 'scipy', 'gymnasium', 'matplotlib'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert loaded.stdout.strip() == "[]"

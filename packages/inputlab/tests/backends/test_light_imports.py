"""Backends are there at once: what is heavy loads when it is used."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    ["backends.llm", "backends.scripted", "backends.retrieval", "backends.user", "backends.embedding",
     "backends.vector", "backends.recorded", "model_server", "cli._serve_model"],
)  # fmt: skip
def test_nothing_heavy_is_loaded_by_an_import(module):
    heavy = "{'numpy', 'httpx', 'yaml', 'pydantic', 'scipy', 'gguf', 'tokenizers'}"
    code = f"import sys, agentinputlab.{module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

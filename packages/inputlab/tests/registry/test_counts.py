"""Figures in prose are the ones that the registry gives."""

import re
from pathlib import Path

from agentinputlab.registry import AlgorithmRegistry

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_counts_the_methods_that_run() -> None:
    registry = AlgorithmRegistry.default()
    running = {release.method_id for release in registry.list_releases() if release.runnable}
    said = re.search(r"knows (\d+)\s+published methods, of which (\d+) run here", README.read_text(encoding="utf-8"))
    assert said is not None
    assert [int(number) for number in said.groups()] == [len(registry.list_methods()), len(running)]

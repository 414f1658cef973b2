"""Compatibility alias of `agentinputlab.contracts`: every name of it, and no other."""

# pyright: reportWildcardImportFromLibrary=false
from agentinputlab import contracts
from agentinputlab.contracts import *  # noqa: F403 - an alias has every name

__all__: list[str] = []
__all__ += contracts.__all__

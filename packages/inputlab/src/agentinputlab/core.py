"""Compatibility alias of `agentinputlab.contracts`."""

from agentinputlab import contracts
from agentinputlab.contracts import *  # noqa: F403 - an alias has every name of what it stands for

__all__ = contracts.__all__

"""Compatibility alias of `agentinputlab.contracts`."""

from agentinputlab.contracts import *  # noqa: F403 - an alias has every name of what it stands for
from agentinputlab.contracts import __all__ as __all__

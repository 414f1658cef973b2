"""Input lab: does changing an agent's input help? Strictly paired first attempts."""

from importlib.metadata import version

__version__ = version("ripieno-inputlab")

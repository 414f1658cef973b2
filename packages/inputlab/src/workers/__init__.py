"""Worker programs that Input lab drives as separate processes."""

from importlib.metadata import version

__version__ = version("ripieno-inputlab")

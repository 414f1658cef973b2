"""The evidence layer: run folders that anyone can verify, byte by byte."""

from importlib.metadata import version

__version__ = version("ripieno")

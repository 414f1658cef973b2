"""Concerto: keep a robot safe beside black-box partner robots."""

from importlib.metadata import version

__version__ = version("ripieno-concerto")

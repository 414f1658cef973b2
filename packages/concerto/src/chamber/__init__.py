"""Chamber: measure how well a robot cooperates with strangers."""

from importlib.metadata import version

__version__ = version("ripieno-concerto")

__all__: list[str] = []

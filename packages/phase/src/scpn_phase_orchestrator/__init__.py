"""Phase: networks of phase oscillators, simulated, supervised, audited and replayed."""

from importlib.metadata import version

__version__ = version("ripieno-phase")

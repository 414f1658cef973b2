"""What Chamber raises when it cannot do what its names promise."""

from ripieno.errors import InputError, RipienoError

__all__ = ["ActionError", "ChamberEnvCompatibilityError", "SimulationDivergedError"]


class ActionError(InputError):
    """An environment was given what is no action of its robots; nothing has moved."""


class ChamberEnvCompatibilityError(RipienoError, RuntimeError):
    """A wrapped environment breaks a wrapper's structural assumption, or a simulator cannot be used.

    Chamber fails loudly here: a silent fallback would invalidate what the wrapped environment measures.
    """


class SimulationDivergedError(RipienoError, RuntimeError):
    """A simulated state stopped being finite; its copy must be reset before it is stepped again."""

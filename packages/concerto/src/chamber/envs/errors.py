"""What the environments raise when they cannot do what their name promises."""

from chamber.errors import ChamberEnvCompatibilityError

__all__ = ["ChamberEnvCompatibilityError"]

"""What the message layer raises and warns with."""

__all__ = ["ChamberCommError", "ChamberCommQPSaturationWarning"]


class ChamberCommError(RuntimeError):
    """The contract of a channel is broken: a malformed packet, an unknown key, profile or schema version."""


class ChamberCommQPSaturationWarning(UserWarning):
    """A link is so bad, or a quadratic program so slow, that a safety filter cannot be expected to keep up."""

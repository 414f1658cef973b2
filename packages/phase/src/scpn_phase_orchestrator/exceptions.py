"""The exception family. Each class also derives from a builtin, so that a generic handler keeps working."""

__all__ = ["AuditError", "BindingError", "EngineError", "ExtractorError", "PolicyError", "SPOError", "ValidationError"]


class SPOError(Exception):
    """Root of the family."""


class BindingError(SPOError, ValueError):
    """A spec file cannot be read, cannot be parsed, or lacks a field."""


class ValidationError(SPOError, ValueError):
    """A loaded spec breaks a constraint."""


class ExtractorError(SPOError, RuntimeError):
    """A signal from which no phase can be extracted."""


class EngineError(SPOError, RuntimeError):
    """An integration that diverged or broke the limits of its step; the message names the step and the size."""


class PolicyError(SPOError, ValueError):
    """A malformed rule, guard or net, or an action that cannot be resolved."""


class AuditError(SPOError, RuntimeError):
    """A broken hash chain, a missing header, or a refusal to write; the message names the place."""

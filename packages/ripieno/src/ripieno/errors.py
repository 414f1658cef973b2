"""The exceptions that ripieno raises on purpose."""

__all__ = ["InputError", "IntegrityError", "RipienoError", "StorageError"]


class RipienoError(Exception):
    """Base of everything ripieno raises on purpose; its text is one sentence for the person at the keyboard."""


class InputError(RipienoError, ValueError):
    """What the caller gave is wrong; nothing was changed. A command ends with exit code 2."""


class IntegrityError(RipienoError):
    """A record does not say what was once written; a command ends with exit code 1."""


class StorageError(RipienoError):
    """The file system refused a write (full, read-only, broken); what was acknowledged before still holds."""

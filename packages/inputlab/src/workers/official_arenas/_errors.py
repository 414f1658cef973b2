"""The error of a refused request, config, inventory or attempt."""

__all__ = ["OfficialArenaError"]


class OfficialArenaError(RuntimeError):
    """The request, config, inventory or attempt was refused; nothing of its content is in the text."""

"""What can go wrong in a conversation."""

from workers.official_arenas.protocol import OfficialArenaError

__all__ = [
    "ContextWindowExceededError",
    "EpisodeTimeoutError",
    "JudgeError",
    "MalformedGenerationError",
    "ModelEndpointError",
    "ToolError",
]


class ToolError(ValueError):
    """A tool refused a call; the text is what the agent reads."""


class MalformedGenerationError(OfficialArenaError):
    """A model generated something that is neither a message nor a call; the episode ends with nothing scored."""


class EpisodeTimeoutError(OfficialArenaError):
    """The episode took longer than its config allows."""


class ContextWindowExceededError(OfficialArenaError):
    """A model endpoint refused a conversation that is longer than what its model can read."""


class JudgeError(OfficialArenaError):
    """A judge's answer does not cover exactly the assertions that were asked."""


class ModelEndpointError(OfficialArenaError):
    """A model endpoint did not answer as the chat API says; the text carries at most the HTTP status."""

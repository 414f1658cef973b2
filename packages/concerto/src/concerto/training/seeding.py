"""Named random streams for training; the implementation is [`ripieno.randomness`][ripieno.randomness]."""

from ripieno.randomness import Substream, derive_substream

__all__ = ["Substream", "derive_substream"]

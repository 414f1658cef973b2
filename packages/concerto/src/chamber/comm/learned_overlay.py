"""The part of a packet that jointly trained partners fill; a black-box partner leaves it empty."""

from __future__ import annotations

__all__ = ["LearnedOverlay"]


class LearnedOverlay:
    """Holds the tensor of the next packets, in the manner of HetGPPO or CommFormer; every path takes None.

    Args:
        tensor: what is sent at first.
    """

    def __init__(self, tensor: object | None = None) -> None:
        self._tensor = tensor

    @property
    def tensor(self) -> object | None:
        """What is sent now."""
        return self._tensor

    def set(self, tensor: object | None) -> None:
        """Send ``tensor`` from now on."""
        self._tensor = tensor

    def reset(self) -> None:
        """Send nothing."""
        self._tensor = None

    def encode(self) -> object | None:
        """Give what goes into a packet: the held tensor, unchanged."""
        return self._tensor

    @staticmethod
    def decode(packet_overlay: object | None) -> object | None:
        """Give what a packet carried, unchanged."""
        return packet_overlay

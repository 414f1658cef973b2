"""Named random streams: the only source of randomness in the project.

Every consumer asks for a stream by its own name. The stream depends on the name and on the root seed of
the run and on nothing else, so adding a consumer never changes the numbers another one sees.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

__all__ = ["Substream", "derive_substream"]


@dataclass(frozen=True, eq=False)
class Substream:
    """One named stream; equal to another one when entropy, spawn key and pool size are equal.

    Attributes:
        seed_sequence: the NumPy seed sequence that defines the stream.
    """

    seed_sequence: np.random.SeedSequence

    def default_rng(self) -> np.random.Generator:
        """Give a fresh generator (PCG64); every call starts at the beginning of the stream."""
        return np.random.default_rng(self.seed_sequence)

    def spawn(self, n: int) -> list[Substream]:
        """Give ``n`` independent child streams; a later call continues the numbering of the children."""
        return [Substream(child) for child in self.seed_sequence.spawn(n)]

    def _identity(self) -> tuple[object, ...]:
        entropy = self.seed_sequence.entropy
        if entropy is not None and not isinstance(entropy, int):
            entropy = tuple(entropy)
        return (entropy, tuple(self.seed_sequence.spawn_key), self.seed_sequence.pool_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Substream):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


def derive_substream(name: str, *, root_seed: int = 0) -> Substream:
    """Derive the stream called ``name`` from the root seed of a run.

    The spawn key is the BLAKE2b digest of the name (16 bytes), read as two big-endian 64-bit integers.

    Args:
        name: name of the consumer, e.g. ``"env.mpe_cooperative_push.episode.3"``.
        root_seed: seed of the whole run, a non-negative integer.

    Raises:
        ValueError: ``root_seed`` is negative.

    Examples:
        >>> derive_substream("comm.fixed").default_rng().integers(0, 2**31 - 1)
        np.int64(113543518)
    """
    if root_seed < 0:
        raise ValueError(f"root_seed must be >= 0, got {root_seed}")
    digest = hashlib.blake2b(name.encode("utf-8"), digest_size=16).digest()
    spawn_key = (int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big"))
    return Substream(np.random.SeedSequence(entropy=root_seed, spawn_key=spawn_key))

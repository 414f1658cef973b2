"""How a rollout is cut into minibatches."""

from __future__ import annotations

__all__ = ["minibatch_sizes"]


def minibatch_sizes(n: int, batch_size: int) -> list[int]:
    """Give the sizes of the minibatches of ``n`` samples.

    There are ``max(1, n // batch_size)``, all of the same size but the last one, which takes the remainder.

    Examples:
        >>> minibatch_sizes(1000, 256)
        [333, 333, 334]
        >>> minibatch_sizes(100, 256)
        [100]
    """
    n_batches = max(1, n // batch_size)
    size = max(1, n // n_batches)
    return [*[size] * (n_batches - 1), n - size * (n_batches - 1)]

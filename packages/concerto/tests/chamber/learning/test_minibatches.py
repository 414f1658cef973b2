"""A rollout is cut as documented."""

from __future__ import annotations

import pytest

from chamber.learning.minibatches import minibatch_sizes


@pytest.mark.parametrize(
    ("n", "batch_size", "sizes"),
    [
        (1024, 256, [256] * 4),
        (1000, 256, [333, 333, 334]),
        (100, 256, [100]),
        (10, 3, [3, 3, 4]),
        (1, 1, [1]),
        (511, 256, [511]),
    ],
)
def test_all_minibatches_are_equal_and_the_last_takes_the_rest(n: int, batch_size: int, sizes: list[int]) -> None:
    assert minibatch_sizes(n, batch_size) == sizes

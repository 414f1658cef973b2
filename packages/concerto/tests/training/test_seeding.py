"""`concerto.training.seeding` is the project's own source of randomness under its documented name."""

from concerto.training import seeding
from ripieno import randomness


def test_the_documented_names_are_the_shared_ones():
    assert seeding.derive_substream is randomness.derive_substream
    assert seeding.Substream is randomness.Substream


def test_equal_names_and_seeds_give_equal_bytes_and_different_names_do_not():
    draws = [
        seeding.derive_substream(name, root_seed=seed).default_rng().bytes(16)
        for name, seed in (("training.episode.0", 3), ("training.episode.0", 3), ("training.episode.1", 3))
    ]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]

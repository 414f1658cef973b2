"""A stream depends on its name and the root seed, and on nothing else."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.randomness import Substream, derive_substream

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SEEDS = st.integers(0, 2**130)


def first_draws(stream: Substream) -> bytes:
    return stream.default_rng().bytes(32)


@given(NAMES, SEEDS)
def test_a_stream_is_that_of_the_documented_spawn_key(name: str, seed: int) -> None:
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    spawn_key = tuple(int(x) for x in np.frombuffer(digest, ">u8"))
    sequence = np.random.SeedSequence(entropy=seed, spawn_key=spawn_key)
    assert first_draws(derive_substream(name, root_seed=seed)) == np.random.default_rng(sequence).bytes(32)


@given(NAMES, NAMES, SEEDS, SEEDS)
def test_streams_are_equal_exactly_when_name_and_seed_are(a: str, b: str, seed: int, other_seed: int) -> None:
    left, right = derive_substream(a, root_seed=seed), derive_substream(b, root_seed=other_seed)
    same = (a, seed) == (b, other_seed)
    assert (left == right) is same
    assert (first_draws(left) == first_draws(right)) is same
    assert derive_substream(a, root_seed=seed) == left
    assert len({left, right, derive_substream(a, root_seed=seed)}) == (1 if same else 2)


def test_every_generator_starts_at_the_beginning_of_the_stream() -> None:
    stream = derive_substream("a", root_seed=3)
    assert first_draws(stream) == first_draws(stream)
    assert derive_substream("a") == derive_substream("a", root_seed=0)


def test_children_are_numbered_on_and_leave_the_parent_as_it_is() -> None:
    stream = derive_substream("a")
    before = first_draws(stream)
    children = [*stream.spawn(2), *stream.spawn(2)]
    assert len({first_draws(child) for child in children}) == 4
    assert children == derive_substream("a").spawn(4)
    assert first_draws(stream) == before


def test_equality_looks_at_everything_that_defines_the_stream() -> None:
    sequence = np.random.SeedSequence([1, 2], pool_size=4)
    assert Substream(sequence) == Substream(np.random.SeedSequence([1, 2]))
    assert Substream(sequence) != Substream(np.random.SeedSequence([1, 3]))
    assert Substream(sequence) != Substream(np.random.SeedSequence([1, 2], pool_size=8))
    assert hash(Substream(sequence)) == hash(Substream(np.random.SeedSequence([1, 2])))
    assert Substream(sequence) != "a stream"


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="root_seed must be >= 0, got -1"):
        derive_substream("a", root_seed=-1)

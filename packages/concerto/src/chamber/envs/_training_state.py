"""What decides the future of an environment, as plain data: how tasks save it, and how wrappers pass it on.

A run with several copies can be resumed when its environment, and every layer around it, has ``save_training_state``
and ``load_training_state`` (`concerto.training.protocols.ResumableEnv`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from chamber.envs._forwarding import AttributeForwarding
from ripieno.errors import InputError

__all__ = ["MemorylessWrapper", "array_from", "require_same", "streams_from_text", "text_of_streams", "value_from"]


class MemorylessWrapper(AttributeForwarding):
    """Mixin, before `gymnasium.Wrapper` in the bases, of a wrapper that remembers nothing from one step to the next.

    Its state is that of the environment it wraps, which must be able to save itself. A wrapper with a memory does not
    take this mixin, and its runs cannot be resumed unless it saves that memory itself.
    """

    def save_training_state(self) -> dict[str, Any]:
        """Give the state of the environment that is wrapped."""
        return self.env.save_training_state()

    def load_training_state(self, state: Mapping[str, Any]) -> Any:
        """Bring the environment that is wrapped back, and give its observation as this wrapper shows it."""
        obs = self.env.load_training_state(state)
        wrapper: object = self
        if isinstance(wrapper, gym.ObservationWrapper):
            return cast("gym.ObservationWrapper[Any, Any, Any]", wrapper).observation(obs)
        return obs


def require_same(state: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a state that says of an environment something else than what is.

    Raises:
        InputError: a field is missing or differs; the message names it and both values.
    """
    for name, value in expected.items():
        found = value_from(state, name)
        if found != value:
            raise InputError(f"the saved state is of an environment with {name} {found!r}, this one has {value!r}")


def value_from(state: Mapping[str, Any], name: str) -> Any:
    """Give a field of a state.

    Raises:
        InputError: it is not there.
    """
    if name not in state:
        raise InputError(f"the saved state of the environment has no field {name!r}, it has {sorted(state)}")
    return state[name]


def array_from(state: Mapping[str, Any], name: str, *, like: NDArray[Any]) -> NDArray[Any]:
    """Give a field as an array of the shape and type of another one.

    Raises:
        InputError: it is not there, is of another shape or type, or has a number that is not finite.
    """
    array = np.asarray(value_from(state, name))
    if (array.shape, array.dtype) != (like.shape, like.dtype):
        raise InputError(
            f"field {name!r} of the saved state must be {like.dtype} of shape {like.shape}, "
            f"got {array.dtype} of shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise InputError(f"field {name!r} of the saved state must be finite")
    return array


def text_of_streams(generators: Iterable[np.random.Generator]) -> str:
    """Give where random generators are; as text, because their numbers have more than 64 bits."""
    return json.dumps([generator.bit_generator.state for generator in generators], sort_keys=True)


def streams_from_text(state: Mapping[str, Any], name: str, *, count: int) -> list[np.random.Generator]:
    """Give generators that go on where those of `text_of_streams` were.

    Raises:
        InputError: the field is not there, is no such text, or is of another number of generators.
    """
    text = value_from(state, name)
    generators: list[np.random.Generator] = []
    try:
        for saved in cast("Sequence[Any]", json.loads(text)):
            generator = np.random.default_rng(0)
            generator.bit_generator.state = saved
            generators.append(generator)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise InputError(f"field {name!r} of the saved state holds no random streams: {error}") from error
    if len(generators) != count:
        raise InputError(f"field {name!r} of the saved state must hold {count} random streams, got {len(generators)}")
    return generators

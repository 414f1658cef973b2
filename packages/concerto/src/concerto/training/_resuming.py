"""Going on exactly where a run was: what a checkpoint holds beside the networks, and how the world is brought back.

An environment with one copy need not be able to save itself. The checkpoint holds how the running episode began and
what the ego wanted since then; env, partner and safety driver are played through it again, and must earn the same
rewards and reach the same observation, bit for bit. N copies that reset themselves must be able to save themselves
(`concerto.training.protocols.ResumableEnv`), and the same observation is asked of them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from concerto.training._window import read_outcome
from concerto.training.checkpoints import CheckpointError, CheckpointMetadata, load_checkpoint_file
from concerto.training.protocols import EnvLike, PartnerLike, ResumableEnv, SafetyDriver
from ripieno.errors import InputError

__all__ = [
    "ResumePoint",
    "RunningEpisode",
    "layer_that_cannot_save",
    "load_env_state",
    "observation_sha256",
    "read_resume_point",
    "refusing_malformed_state",
    "replay",
    "to_arrays",
    "to_tensors",
]

RESUME_KEY = "resume"
"""Where a payload holds what only a resumed run needs."""
RESUME_FORMAT = 1


@dataclass
class RunningEpisode:
    """How the running episode began, and what the ego has wanted since: enough to play it again.

    Attributes:
        index: number of the episode; 0 is the first.
        seed: what environment and partner were reset with.
        has_ended: the reset for the next one is due.
        nominal_actions: of the ego, one per step, copies.
        driver_state: of the safety driver when the episode began; None without one.
    """

    index: int
    seed: int
    has_ended: bool = False
    nominal_actions: list[NDArray[Any]] = field(default_factory=list[NDArray[Any]])
    driver_state: dict[str, Any] | None = None

    def state(self) -> dict[str, Any]:
        """Give the episode with its actions as one array."""
        return {
            "index": self.index,
            "seed": self.seed,
            "has_ended": self.has_ended,
            "nominal_actions": np.array(self.nominal_actions) if self.nominal_actions else np.zeros(0),
            "driver_state": self.driver_state,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RunningEpisode:
        """Take what `state` gave."""
        actions = list(state["nominal_actions"])
        if not np.isfinite(state["nominal_actions"]).all():
            raise ValueError("the ego's actions since the episode began must be finite")
        index, seed, has_ended = state["index"], state["seed"], state["has_ended"]
        if (type(index), type(seed), type(has_ended)) != (int, int, bool):
            raise TypeError(f"an episode needs a number, a seed and a flag, got {index!r}, {seed!r}, {has_ended!r}")
        return cls(index, seed, has_ended, actions, state["driver_state"])


@dataclass(frozen=True)
class ResumePoint:
    """A checkpoint that a run can go on from.

    Attributes:
        path: of its payload.
        metadata: of its sidecar; ``sha256`` is the digest of the payload.
        trainer_state_dict: networks and optimisers.
        trainer: ``training_state`` of the trainer.
        env: ``save_training_state`` of N copies, with arrays as NumPy arrays; None for one.
        loop: state of the loop, with arrays as NumPy arrays.
    """

    path: Path
    metadata: CheckpointMetadata
    trainer_state_dict: dict[str, Any]
    trainer: dict[str, Any]
    env: dict[str, Any] | None
    loop: dict[str, Any]


def read_resume_point(path: Path, *, config_hash: str) -> ResumePoint:
    """Read a checkpoint that a run of the same configuration can go on from.

    Raises:
        CheckpointError: it cannot be loaded, was saved by a trainer or environment that cannot be resumed, or belongs
            to another configuration.
    """
    payload, metadata = load_checkpoint_file(path)
    state_dict = dict(payload)
    resume: Any = state_dict.pop(RESUME_KEY, None)
    if not isinstance(resume, dict):
        raise CheckpointError(
            f"{path} holds a policy but not the state of its run: its trainer or its environment cannot be resumed"
        )
    found = cast("dict[str, Any]", resume)
    if found.get("format") != RESUME_FORMAT:
        raise CheckpointError(
            f"{path} holds a run in format {found.get('format')!r}; this version reads {RESUME_FORMAT}"
        )
    with refusing_malformed_state(path):
        loop = to_arrays(found["loop"])
        if loop["config_hash"] != config_hash:
            raise CheckpointError(
                f"{path} belongs to a run of another configuration (fingerprint {loop['config_hash']}, this one has "
                f"{config_hash}); resume with the configuration and the overrides of that run"
            )
        if loop["frames"] != metadata.step:
            raise CheckpointError(f"{path} is of frame {metadata.step}, its run was at {loop['frames']}")
        return ResumePoint(path, metadata, state_dict, found["trainer"], to_arrays(found["env"]), loop)


@contextmanager
def refusing_malformed_state(path: Path) -> Generator[None]:
    """Refuse a checkpoint whose state of the run has another form than this program writes.

    Raises:
        CheckpointError: whatever taking the state over raised, unless it is a refusal already.
    """
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        said = str(error).partition("\n")[0][:200]
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        raise CheckpointError(f"{path} holds no state that a run could go on from: {kind}{said}") from error


def replay(
    episode: RunningEpisode,
    *,
    env: EnvLike,
    partner: PartnerLike,
    driver: SafetyDriver | None,
    uids: tuple[str, str],
    rewards: Sequence[float],
    sha256: str,
) -> Any:
    """Play the running episode again from its start.

    Args:
        episode: what is played.
        env: the environment.
        partner: the frozen partner.
        driver: the safety driver, if the run has one.
        uids: of ego and partner.
        rewards: what the steps must earn, one per action.
        sha256: of the observation that must be reached.

    Returns:
        The observation.

    Raises:
        CheckpointError: another reward or observation came out, so the run could not go on exactly.
    """
    ego_uid, partner_uid = uids
    obs, _ = env.reset(seed=episode.seed)
    partner.reset(seed=episode.seed)
    if driver is not None:
        driver.load_state(episode.driver_state or {})
        driver.start_episode()
    earned: list[float] = []
    for nominal in episode.nominal_actions:
        partner_action = partner.act(obs)
        action = nominal if driver is None else driver.decide(env, nominal, partner_action).action
        obs, reward, terminated, truncated, _ = env.step({ego_uid: action, partner_uid: partner_action})
        earned.append(read_outcome(reward, terminated, truncated, n_envs=1).mean_reward)
    if not np.array_equal(np.array(earned), np.asarray(rewards), equal_nan=True):
        raise _not_the_same("rewards")
    if observation_sha256(obs) != sha256:
        raise _not_the_same("observation")
    return obs


def load_env_state(env: EnvLike, state: dict[str, Any] | None, *, sha256: str) -> Any:
    """Bring N copies back to a saved state and give their observation.

    Raises:
        CheckpointError: they cannot be brought back, or show another observation.
    """
    layer = layer_that_cannot_save(env)
    if layer is not None:
        raise CheckpointError(
            f"a run with several copies of {type(layer).__name__} cannot be resumed: it has no save_training_state and "
            "load_training_state"
        )
    if state is None:
        raise CheckpointError("the checkpoint holds no state of the environment: it was saved by a run with one copy")
    try:
        obs = cast("ResumableEnv", env).load_training_state(state)
    except InputError as error:
        raise CheckpointError(f"the environment refuses the state of the checkpoint: {error}") from error
    if observation_sha256(obs) != sha256:
        raise _not_the_same("observation")
    return obs


def layer_that_cannot_save(env: object) -> object | None:
    """Give the outermost layer of an environment that is no `ResumableEnv`; None when the whole can be saved.

    A wrapper may have the methods only to pass them on, so what it wraps (its attribute ``env``) is asked as well.
    """
    layer: object = env
    while hasattr(layer, "step"):
        if not isinstance(layer, ResumableEnv):
            return layer
        layer = getattr(layer, "__dict__", {}).get("env")
    return None


def observation_sha256(obs: Any) -> str:
    """Give the SHA-256 of an observation: nested mappings and sequences of arrays, tensors, numbers, text and None.

    Two observations have the same digest when keys, shapes, types and bits are the same; the order of keys and the
    memory layout of arrays do not matter.
    """
    digest = hashlib.sha256()
    _feed(digest, obs)
    return digest.hexdigest()


def to_tensors(value: Any) -> Any:
    """Copy nested dictionaries with NumPy arrays as tensors, which a checkpoint can hold."""
    import torch

    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: to_tensors(item) for key, item in items}
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def to_arrays(value: Any) -> Any:
    """Copy nested dictionaries with tensors as NumPy arrays: undo `to_tensors`."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: to_arrays(item) for key, item in items}
    return value.numpy() if hasattr(value, "numpy") else value


def _not_the_same(what: str) -> CheckpointError:
    return CheckpointError(
        f"the running episode was played again and gave other {what} than the checkpoint says: environment, partner "
        "or safety layer are not what they were, or not reproducible, so the run cannot go on exactly"
    )


def _feed(digest: Any, value: Any) -> None:
    """Feed a value to a digest so that different values feed different bytes: a tag, lengths, then the content."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        _feed_bytes(digest, b"a", f"{array.dtype.str}{array.shape}".encode())
        _feed_bytes(digest, b"b", np.ascontiguousarray(array).tobytes())
    elif isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        _feed_bytes(digest, b"m", str(len(mapping)).encode())
        for key in sorted(mapping):
            _feed_bytes(digest, b"k", str(key).encode())
            _feed(digest, mapping[key])
    elif isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        _feed_bytes(digest, b"s", str(len(items)).encode())
        for item in items:
            _feed(digest, item)
    else:
        _feed_bytes(digest, b"r", f"{type(value).__name__}:{value!r}".encode())


def _feed_bytes(digest: Any, tag: bytes, content: bytes) -> None:
    digest.update(tag + struct.pack("<q", len(content)) + content)

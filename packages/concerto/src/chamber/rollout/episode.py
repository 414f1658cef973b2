"""One episode: a start, a team, and everything that happened until the end."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from chamber.rollout.team import Team

__all__ = ["Episode", "Trajectory", "play_episode"]

MAX_STEPS = 100_000
"""No episode is longer; an environment that never ends is stopped here."""

MAX_BYTES = 2**30
"""No trajectory is larger when unpacked: a small file of anybody's making must not fill the memory."""

_NUMBERS = "biuf"

Spectator = Callable[[int, Mapping[str, Any]], None]
"""Called with the number of steps so far and ``info`` after the reset and after every step."""


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """What happened, as arrays: one row per step under ``action/...`` and ``reward``, one more under ``obs/...``.

    Pictures are left out: how a machine renders is not part of what happened.
    """

    arrays: Mapping[str, NDArray[Any]]

    @property
    def sha256(self) -> str:
        """Give a hash that equal trajectories, and only they, share."""
        digest = hashlib.sha256()
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(f"{name}:{array.dtype.str}:{array.shape}\n".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def to_bytes(self) -> bytes:
        """Give the arrays as an ``.npz`` file; equal trajectories give equal bytes."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **{name: self.arrays[name] for name in sorted(self.arrays)})
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Trajectory:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: these are not such bytes.
        """
        try:
            arrays = _unpacked(data)
        except Exception as error:  # bytes of anybody's making: every library on the way has errors of its own
            raise ValueError(f"not a trajectory: {error}") from error
        texts = [name for name, array in arrays.items() if array.dtype.kind not in _NUMBERS]
        if texts:
            raise ValueError(f"not a trajectory: {texts[0]} holds {arrays[texts[0]].dtype}, no numbers")
        return cls(arrays)


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """An episode that was played.

    Attributes:
        episode_idx: its number in the session.
        initial_state_seed: seed of the reset.
        success: what the environment said when it ended; None for a task that has no success.
        n_steps: control steps.
        total_reward: sum of the rewards.
        terminated, truncated: why it ended.
        metrics: numbers of the last ``info``, and of the team.
        trajectory: what happened.
    """

    episode_idx: int
    initial_state_seed: int
    success: bool | None
    n_steps: int
    total_reward: float
    terminated: bool
    truncated: bool
    metrics: Mapping[str, bool | int | float | str]
    trajectory: Trajectory

    def to_event(self) -> dict[str, Any]:
        """Give everything but the arrays, which the hash stands for."""
        return {
            "episode_idx": self.episode_idx,
            "initial_state_seed": self.initial_state_seed,
            "success": self.success,
            "n_steps": self.n_steps,
            "total_reward": self.total_reward,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "metrics": dict(self.metrics),
            "trajectory_sha256": self.trajectory.sha256,
        }


@dataclass(slots=True)
class _Columns:
    """Rows by name, while they come in."""

    rows: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    def add(self, prefix: str, value: object) -> None:
        for name, leaf in _leaves(value, prefix):
            self.rows.setdefault(name, []).append(leaf)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: np.stack(rows) for name, rows in self.rows.items()}


def play_episode(
    env: Any,
    team: Team,
    *,
    seed: int,
    episode_idx: int = 0,
    spectator: Spectator = lambda _step, _info: None,
) -> Episode:
    """Play one episode to its end.

    Args:
        env: environment with a single copy.
        team: who acts.
        seed: seed of the reset and of the controllers.
        episode_idx: number in the session, for the record.
        spectator: is told after every step.
    """
    obs, info = env.reset(seed=seed)
    team.reset(seed=seed)
    columns = _Columns()
    columns.add("obs", obs)
    spectator(0, info)
    total, step, terminated, truncated = 0.0, 0, False, False
    while not (terminated or truncated) and step < MAX_STEPS:
        action = team.act(obs)
        obs, reward, terminated, truncated, info = env.step(action)
        step += 1
        total += float(reward)
        columns.add("action", _as_arrays(action))
        columns.add("obs", obs)
        columns.add("reward", np.float64(reward))
        spectator(step, info)
    return Episode(
        episode_idx=episode_idx,
        initial_state_seed=seed,
        success=bool(info["success"]) if "success" in info else None,
        n_steps=step,
        total_reward=total,
        terminated=bool(terminated),
        truncated=bool(truncated),
        metrics={
            **{name: _plain(value) for name, value in info.items() if _is_plain(value)},
            **team.measures(),
        },
        trajectory=Trajectory(columns.arrays()),
    )


def _unpacked(data: bytes) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
    if n_bytes > MAX_BYTES:
        raise ValueError(f"it unpacks to {n_bytes} bytes, {MAX_BYTES} are allowed")
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _leaves(value: object, path: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Numbers in nested mappings, by path; texts, None and pictures are not part of a trajectory."""
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            if key != "sensor_data":
                yield from _leaves(inner, f"{path}/{key}")
        return
    if value is None or isinstance(value, str):
        return
    array = np.asarray(value)
    if array.dtype.kind in _NUMBERS:
        yield path, array.copy()


def _as_arrays(action: Any) -> Any:
    """Actions of a team by uid, or the one vector of a turn, whose width may change from turn to turn."""
    return action if isinstance(action, Mapping) else {"turn": np.asarray(action, dtype=np.float64)}


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str | np.bool_ | np.integer | np.floating)


def _plain(value: Any) -> bool | int | float | str:
    return value.item() if isinstance(value, np.generic) else value

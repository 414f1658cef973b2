"""A policy that has been learned: read from a checkpoint, ready to act, closed to training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from chamber.learning.acting import ActingKernel
from chamber.learning.networks import parameter_shapes, policy_widths
from chamber.learning.observations import flat_ego_obs
from chamber.utils.pytorch import torch
from concerto.training.checkpoints import load_checkpoint_file
from ripieno.errors import InputError
from ripieno.randomness import derive_substream

__all__ = ["TrainedPolicy", "load_policy"]

Float32Array = NDArray[np.float32]

_SUBSTREAM = "learning.trained_policy"


class TrainedPolicy:
    """Acts as the ego of a finished training; nothing here can change its parameters.

    Attributes:
        ego_uid: whose observation it reads.
        checkpoint_sha256: SHA-256 of the checkpoint's payload.
        run_id: run that wrote the checkpoint.
        step: frames that the policy had learned from.
        obs_dim: width of an observation.
        action_dim: width of an action.
    """

    def __init__(
        self, actor: Mapping[str, torch.Tensor], *, ego_uid: str, checkpoint_sha256: str, run_id: str, step: int
    ) -> None:
        widths = policy_widths(actor)
        self.ego_uid = ego_uid
        self.checkpoint_sha256 = checkpoint_sha256
        self.run_id = run_id
        self.step = step
        self.obs_dim = widths.obs_dim
        self.action_dim = widths.action_dim
        ordered = [actor[name].detach().to("cpu", torch.float32).reshape(-1) for name in parameter_shapes(widths)]
        flat = torch.cat(ordered)
        if not flat.isfinite().all():
            raise InputError("the parameters of a policy must be finite")
        self._kernel = ActingKernel(flat.numpy(), widths)
        self.reset(seed=0)

    def reset(self, *, seed: int | None = None) -> None:
        """Begin an episode.

        Args:
            seed: names the stream that ``act(deterministic=False)`` draws from; ``None`` goes on with the present one.
        """
        if seed is not None:
            self._rng = derive_substream(_SUBSTREAM, root_seed=seed).default_rng()

    def act(self, obs: Mapping[str, Any], *, deterministic: bool = True) -> Float32Array:
        """Give the action for one observation.

        Args:
            obs: ``obs["agent"][ego_uid]["state"]`` is a vector of width ``obs_dim``, or a matrix with such rows.
            deterministic: the mean, or else a sample.

        Returns:
            Shape ``(action_dim,)``, or ``(n, action_dim)`` for n rows.

        Raises:
            ValueError: the observation has another width.
        """
        state = flat_ego_obs(obs, self.ego_uid)
        rows = state.reshape(1, -1) if state.ndim == 1 else state
        if rows.ndim != 2 or rows.shape[1] != self.obs_dim:
            raise ValueError(
                f"the policy was trained on observations of width {self.obs_dim}, "
                f"got obs['agent'][{self.ego_uid!r}]['state'] of shape {state.shape}"
            )
        if deterministic:
            actions = self._kernel.mean(rows)
        else:
            noise = self._rng.standard_normal((len(rows), self.action_dim), dtype=np.float32)
            actions = self._kernel.sample(rows, noise)
        return actions[0] if state.ndim == 1 else actions


def load_policy(path: Path, *, ego_uid: str, device: str = "cpu") -> TrainedPolicy:
    """Read the ego's policy from a checkpoint of a training run.

    Args:
        path: the ``.pt`` file; its sidecar ``.pt.json`` lies beside it.
        ego_uid: whose observation the policy reads.
        device: must be ``"cpu"`` or ``"auto"``: one action at a time is computed fastest there.

    Raises:
        CheckpointError: a file is missing or damaged.
        InputError: the checkpoint holds no policy of the known architecture, or another device is asked for.
    """
    if device not in {"cpu", "auto"}:
        raise InputError(f"a trained policy acts on the CPU, so device must be 'cpu' or 'auto', got {device!r}")
    state, metadata = load_checkpoint_file(path)
    actor = cast("object", state.get("actor"))
    if not isinstance(actor, Mapping):
        raise InputError(f"{path} holds no policy: there is no 'actor' among its keys {sorted(state)}")
    try:
        return TrainedPolicy(
            cast("Mapping[str, torch.Tensor]", actor),
            ego_uid=ego_uid,
            checkpoint_sha256=metadata.sha256,
            run_id=metadata.run_id,
            step=metadata.step,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error

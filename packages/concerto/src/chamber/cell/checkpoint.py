"""A trained policy as a part of a record: read, held against the task, and kept beside what it did."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ripieno.errors import InputError, IntegrityError
from ripieno.files import sha256_file
from ripieno.run import RunWriter

if TYPE_CHECKING:
    from chamber.learning import TrainedPolicy

__all__ = ["checkpoint_sha256", "load_fitting_policy", "store_checkpoint"]


def checkpoint_sha256(path: Path) -> str:
    """Give the SHA-256 of a checkpoint's payload; needs no PyTorch.

    Raises:
        InputError: it is no regular file, or cannot be read.
    """
    try:
        return sha256_file(path.resolve())
    except IntegrityError as error:
        raise InputError(f"the checkpoint {path} is not a regular file") from error
    except OSError as error:
        raise InputError(f"cannot read the checkpoint {path}: {error.strerror}") from error


def load_fitting_policy(path: Path, *, uid: str, obs_dim: int, action_dim: int, task: str) -> TrainedPolicy:
    """Read a trained policy, and refuse one of another task.

    Args:
        path: the checkpoint.
        uid: the robot that it acts for.
        obs_dim: width of that robot's observation.
        action_dim: width of its action.
        task: for messages.

    Raises:
        InputError: the checkpoint is missing or damaged, or holds no policy or one of other widths.
        ImportError: PyTorch is not installed.
    """
    from chamber.learning import load_policy

    policy = load_policy(path, ego_uid=uid)
    if (policy.obs_dim, policy.action_dim) != (obs_dim, action_dim):
        raise InputError(
            f"{path} does not fit {task}: its policy takes {policy.obs_dim} numbers and gives {policy.action_dim}, "
            f"{uid!r} observes {obs_dim} and acts with {action_dim}"
        )
    return policy


def store_checkpoint(run: RunWriter, name: str, path: Path, *, sha256: str) -> None:
    """Copy a checkpoint into a run folder, with a sidecar that vouches for it.

    Args:
        run: the folder.
        name: of the copy; its sidecar has ``.json`` after it.
        path: the checkpoint.
        sha256: what it was when it was read.

    Raises:
        InputError: it has been changed since.
        StorageError: the file system refuses.
    """
    from concerto.training.checkpoints import load_checkpoint_file

    _, metadata = load_checkpoint_file(path)
    copy = run.artifact(name, path.resolve())
    if {metadata.sha256, sha256_file(copy)} != {sha256}:
        raise InputError(f"{path} was changed while the run began")
    run.artifact(f"{name}.json", json.dumps(asdict(metadata), indent=2, sort_keys=True) + "\n")

"""A trained policy acts as the network of its checkpoint does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from chamber.learning import load_policy
from chamber.learning.networks import GaussianPolicy
from concerto.training.checkpoints import CheckpointError, CheckpointMetadata, load_checkpoint, save_checkpoint
from ripieno.errors import InputError

WIDTHS = (5, 16, 3)


def _saved(root: Path, state: dict[str, object]) -> Path:
    metadata = CheckpointMetadata(
        run_id="0123456789abcdef", seed=4, step=2048, git_sha="unknown", pyproject_hash="0" * 64, sha256=""
    )
    return save_checkpoint(state_dict=state, uri="local://artifacts/policy.pt", metadata=metadata, artifacts_root=root)


def _policy() -> GaussianPolicy:
    torch.manual_seed(11)
    policy = GaussianPolicy(obs_dim=WIDTHS[0], hidden_dim=WIDTHS[1], action_dim=WIDTHS[2])
    for parameter in policy.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    return policy


def _obs(state: np.ndarray) -> dict[str, object]:
    return {"agent": {"ego": {"state": state}}}


def test_it_acts_like_the_saved_network_whatever_the_order_of_the_names(tmp_path: Path) -> None:
    network = _policy()
    parameters = network.state_dict()
    path = _saved(tmp_path, {"actor": {name: parameters[name] for name in sorted(parameters)}})
    policy = load_policy(path, ego_uid="ego")
    states = np.random.default_rng(0).normal(size=(4, WIDTHS[0]))
    with torch.no_grad():
        mean, _ = network(torch.from_numpy(states).float())
    np.testing.assert_allclose(policy.act(_obs(states)), mean, atol=1e-6)
    alone = policy.act(_obs(states[2]))
    assert (alone.shape, alone.dtype) == ((WIDTHS[2],), np.float32)
    np.testing.assert_array_equal(alone, policy.act(_obs(states))[2])
    digest = load_checkpoint(uri="local://artifacts/policy.pt", artifacts_root=tmp_path)[1].sha256
    assert (policy.obs_dim, policy.action_dim, policy.run_id, policy.step, policy.checkpoint_sha256) == (
        WIDTHS[0],
        WIDTHS[2],
        "0123456789abcdef",
        2048,
        digest,
    )


def test_samples_follow_the_seed_and_have_the_spread_of_the_policy(tmp_path: Path) -> None:
    network = _policy()
    policy = load_policy(_saved(tmp_path, {"actor": network.state_dict()}), ego_uid="ego")
    obs = _obs(np.zeros((4000, WIDTHS[0])))
    policy.reset(seed=3)
    first, second = (policy.act(obs, deterministic=False) for _ in range(2))
    policy.reset(seed=3)
    np.testing.assert_array_equal(policy.act(obs, deterministic=False), first)
    policy.reset()
    np.testing.assert_array_equal(policy.act(obs, deterministic=False), second)
    policy.reset(seed=4)
    assert not np.array_equal(policy.act(obs, deterministic=False), first)
    with torch.no_grad():
        np.testing.assert_allclose(first.std(axis=0), network.std(), rtol=0.05)


@pytest.mark.parametrize("shape", [(4,), (6,), (2, 4), (1, 1, 5), ()])
def test_an_observation_of_another_width_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    policy = load_policy(_saved(tmp_path, {"actor": _policy().state_dict()}), ego_uid="ego")
    with pytest.raises(ValueError, match="trained on observations of width 5"):
        policy.act(_obs(np.zeros(shape)))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"critic": {}}, "no 'actor' among its keys"),
        ({"actor": {"weight": torch.zeros(3)}}, r"base\.feature_norm\.weight must have 1 dimension"),
        ({"actor": {**_policy().state_dict(), "act.action_out.log_std": torch.tensor([0.0, np.nan, 0.0])}}, "finite"),
    ],
)
def test_a_checkpoint_without_such_a_policy_is_refused_with_its_path(
    tmp_path: Path, state: dict[str, object], message: str
) -> None:
    path = _saved(tmp_path, state)
    with pytest.raises(InputError, match=message) as refusal:
        load_policy(path, ego_uid="ego")
    assert str(path) in str(refusal.value)


def test_missing_files_and_other_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        load_policy(tmp_path / "absent.pt", ego_uid="ego")
    with pytest.raises(InputError, match="acts on the CPU"):
        load_policy(tmp_path / "absent.pt", ego_uid="ego", device="cuda")

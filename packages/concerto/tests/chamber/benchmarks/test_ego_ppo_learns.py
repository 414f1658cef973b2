"""The learning ego solves a problem whose answer is known: one step, and a reward for the right action."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from chamber.benchmarks.ego_ppo_trainer import EgoPPOTrainer
from chamber.partners.api import PartnerSpec
from chamber.partners.registry import load_partner
from concerto.training.config import EgoAHTConfig
from concerto.training.logging import bind_run_logger, compute_run_metadata

ROLLOUT, N_UPDATES = 256, 24


@pytest.fixture(autouse=True)
def _restored_determinism() -> Iterator[None]:
    before = torch.get_deterministic_debug_mode()
    yield
    torch.set_deterministic_debug_mode(before)


def _right_action(state: np.ndarray) -> np.ndarray:
    return np.array([0.5 * np.sign(state[0]), -0.3])


def _obs(state: np.ndarray) -> dict[str, Any]:
    return {"agent": {"ego": {"state": state}}}


@pytest.mark.parametrize("seed", [0, 1])
def test_the_right_action_and_the_value_of_a_state_are_learned(tmp_path: Path, seed: int) -> None:
    happo = {"rollout_length": ROLLOUT, "batch_size": 64, "hidden_dim": 32, "lr": 6e-3}
    cfg = EgoAHTConfig.model_validate({"seed": seed, "env": {"task": "mpe_cooperative_push"}, "happo": happo})
    context = compute_run_metadata(seed=seed, run_kind="test", repo_root=tmp_path)
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(ROLLOUT * N_UPDATES + 1, 4)).astype(np.float32)
    with bind_run_logger(context, jsonl_path=tmp_path / "log.jsonl") as logger:
        trainer = EgoPPOTrainer(
            cfg=cfg,
            ego_uid="ego",
            ego_obs_space=spaces.Box(-np.inf, np.inf, (4,)),
            ego_act_space=spaces.Box(-1, 1, (2,)),
            partner=load_partner(PartnerSpec("scripted_heuristic", 0, None, None, {"uid": "partner"})),
            logger=logger,
        )
        for number, state in enumerate(states[:-1], 1):
            away = trainer.act(_obs(state)) - _right_action(state)
            reward = -float(away @ away) - abs(float(state[1]))  # the second part is no action's fault
            trainer.observe(_obs(states[number]), reward, True)
            if number % ROLLOUT == 0:
                trainer.update()

    tests = rng.normal(size=(200, 4)).astype(np.float32)
    errors = [np.abs(trainer.act(_obs(s), deterministic=True) - _right_action(s)).mean() for s in tests]
    assert np.mean(errors) < 0.2, "standing still is 0.4 away"
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    explained = [line["explained_variance"] for line in lines]
    assert explained[0] < 0.2
    assert np.mean(explained[-5:]) > 0.5, "the critic has learned what a state is worth"

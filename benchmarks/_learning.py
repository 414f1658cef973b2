"""What one seed of the shipped planar configuration learns: measured for the benchmark and for its test."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber._planar import PlanarView, straight_command
from chamber.benchmarks.training_runner import build_env, build_partner, run_training
from chamber.cell.analysis import Group, group, verdicts
from chamber.cell.config import Condition
from chamber.cell.loading import parse_cell, pin_checkpoint, trained_cell_text
from chamber.cell.runner import run_cell
from chamber.configs import shipped_config_path
from chamber.envs.mpe_cooperative_push import DT, VELOCITY_BOUND
from chamber.learning import load_policy
from concerto.training._random_ego import RandomEgoTrainer, make_random_trainer
from concerto.training.config import EgoAHTConfig, load_config, validated_copy
from concerto.training.learning_signal_check import SlopeReport, check_positive_learning_slope

CONFIG = "mpe_cooperative_push"
SEEDS = (0, 1, 2)
LAST_EPISODES = 100
EVALUATION_EPISODES = 200
EVALUATION_ROOT_SEED = 20261129
"""Starts that no training run has seen: they are named by another root seed."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Rewards per episode of a trained and of a random ego in the same starts.

    Attributes:
        trained, random: mean reward per episode, metres summed over the steps.
        margin: difference of the means over the root of the sum of their squared standard errors. The starts are the
            same, which this leaves out of account, so the true margin is larger.
    """

    trained: float
    random: float
    margin: float

    @classmethod
    def of(cls, trained: Sequence[float], random: Sequence[float]) -> Comparison:
        """Compare two samples of the same size."""
        a, b = np.asarray(trained, dtype=np.float64), np.asarray(random, dtype=np.float64)
        error = math.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size)
        return cls(float(a.mean()), float(b.mean()), float(a.mean() - b.mean()) / error)


@dataclass(frozen=True)
class SeedResult:
    """What one seed gave.

    Attributes:
        seed: root seed of the run.
        frames: how long it was trained.
        report: of the check of the slope.
        training: the last `LAST_EPISODES` of the run, in which the ego explores, against a random ego in the same run.
        evaluation: `EVALUATION_EPISODES` new starts beside the partner of the training, without exploration.
        cell: numbers of the cell ``planar_push_trained`` by partner and condition.
        claims: its preregistered claims, and whether they hold.
    """

    seed: int
    frames: int
    report: SlopeReport
    training: Comparison
    evaluation: Comparison
    cell: Mapping[tuple[str, Condition], Group]
    claims: Mapping[str, bool]

    def contacts_at_fault(self, condition: Condition) -> dict[str, int]:
        """Contacts at the ego's fault beside each partner."""
        return {partner: total.contacts_at_fault for (partner, when), total in self.cell.items() if when is condition}


def measure(seed: int, scratch: Path) -> SeedResult:
    """Train one seed and judge what it learned; everything is written below an empty folder."""
    cfg = validated_copy(
        load_config(config_path=shipped_config_path(CONFIG)),
        seed=seed,
        log_dir=scratch / "logs",
        artifacts_root=scratch / "trained",
    )
    curve, _ = run_training(cfg)
    by_chance = validated_copy(cfg, log_dir=scratch / "random-logs", artifacts_root=scratch / "random")
    random_curve, _ = run_training(by_chance, trainer_factory=make_random_trainer)
    payload = curve.checkpoint_paths[-1]
    cell, claims = _in_the_cell(payload, scratch / "cell")
    ego = cfg.env.agent_uids[0]
    policy = load_policy(payload, ego_uid=ego)
    random = random_ego(ego, seed=seed)
    return SeedResult(
        seed=seed,
        frames=cfg.total_frames,
        report=check_positive_learning_slope(curve),
        training=Comparison.of(
            curve.per_episode_ego_rewards[-LAST_EPISODES:], random_curve.per_episode_ego_rewards[-LAST_EPISODES:]
        ),
        evaluation=Comparison.of(_evaluated(cfg, policy.act), _evaluated(cfg, random.act, deterministic=False)),
        cell=cell,
        claims=claims,
    )


def random_ego(uid: str, *, seed: int) -> RandomEgoTrainer:
    """Give the random ego that a trained one is compared with; each seed has one with draws of its own."""
    return RandomEgoTrainer(ego_uid=uid, action_dim=2, root_seed=EVALUATION_ROOT_SEED + seed)


def untrained_rewards(cfg: EgoAHTConfig) -> dict[str, float]:
    """Mean reward in the new starts of egos that never learned, for scale.

    Returns:
        By name: ``at rest``, an ego that never moves, and ``rule``, one that drives straight to the landmark farther
        from the partner.
    """
    uid = cfg.env.agent_uids[0]

    def stay(_: Mapping[str, Any], *, deterministic: bool) -> FloatArray:
        return np.zeros(2)

    def drive(obs: Mapping[str, Any], *, deterministic: bool) -> FloatArray:
        view = PlanarView.of(obs, uid)
        free = view.landmarks[np.argmax(np.linalg.norm(view.landmarks - view.other, axis=1))]
        return straight_command(free, speed_limit=VELOCITY_BOUND, dt=DT)

    return {name: float(np.mean(_evaluated(cfg, act))) for name, act in (("at rest", stay), ("rule", drive))}


def _evaluated(cfg: EgoAHTConfig, act: Callable[..., Any], *, deterministic: bool = True) -> list[float]:
    """Reward per episode beside the partner of the training, in starts that training has not seen."""
    env, partner = build_env(cfg.env, root_seed=EVALUATION_ROOT_SEED), build_partner(cfg.partner)
    ego_uid, partner_uid = cfg.env.agent_uids
    rewards: list[float] = []
    for start in range(EVALUATION_EPISODES):
        obs, _ = env.reset(seed=start)
        partner.reset(seed=start)
        total, is_over = 0.0, False
        while not is_over:
            action = {ego_uid: act(obs, deterministic=deterministic), partner_uid: partner.act(obs)}
            obs, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            is_over = terminated or truncated
        rewards.append(total)
    return rewards


def _in_the_cell(checkpoint: Path, folder: Path) -> tuple[dict[tuple[str, Condition], Group], dict[str, bool]]:
    """Run the preregistered cell with a trained ego."""
    text = trained_cell_text()
    cell, path = pin_checkpoint(
        parse_cell(text, source="planar_push_trained.yaml"),
        source="planar_push_trained.yaml",
        folder=Path(),
        checkpoint=checkpoint,
    )
    record = run_cell(cell, folder, cell_text=text, checkpoint=path).record
    groups = {
        (entry.label, condition): group(record.outcomes, condition, entry.label)
        for entry in cell.partners
        for condition in cell.conditions
    }
    return groups, {verdict.rule.claim: verdict.holds for verdict in verdicts(cell, record.outcomes)}

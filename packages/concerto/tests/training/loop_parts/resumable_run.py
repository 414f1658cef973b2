"""One training run in a process of its own, which a test can kill: the planar task, a moody partner, the stack on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from loop_parts import MoodyPartner, config, planar_env, planar_stack_driver

from chamber.benchmarks.ego_ppo_trainer import EgoPPOTrainer
from concerto.training.config import EgoAHTConfig
from concerto.training.ego_aht import TrainingResult, train


def killable_config(folder: Path, *, total_frames: int = 3000) -> EgoAHTConfig:
    """Checkpoints every 37 frames, in the middle of an episode (50) and of a rollout (64) nearly always."""
    return config(
        folder,
        seed=3,
        total_frames=total_frames,
        checkpoint_every=37,
        happo={"rollout_length": 64, "batch_size": 32, "n_epochs": 2, "hidden_dim": 16},
        runtime={"device": "cpu"},
        safety={"enabled": True},
    )


def run(cfg: EgoAHTConfig, **kwargs: Any) -> TrainingResult:
    """Run it, from the start or from a checkpoint."""
    return train(
        cfg,
        env=planar_env(cfg),
        partner=MoodyPartner(),
        trainer_factory=EgoPPOTrainer.from_config,
        repo_root=cfg.artifacts_root,  # no repository, whose commit could change meanwhile
        safety_builder=planar_stack_driver,
        **kwargs,
    )


if __name__ == "__main__":
    run(killable_config(Path(sys.argv[1])))

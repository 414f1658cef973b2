"""The tutorial on training: what it lets the reader save runs, with fewer frames."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from chamber.benchmarks.training_runner import build_env, build_partner
from chamber.configs import shipped_config_path
from chamber.partners import registry
from concerto.training.config import load_config

PAGE = (Path(__file__).parent.parent / "docs/tutorials/train-an-ego.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def test_the_file_of_settings_is_a_configuration_whose_partner_there_is():
    (text,) = blocks("yaml")
    Path("mine.yaml").write_text(text)
    cfg = load_config(config_path=Path("mine.yaml"))
    assert (cfg.partner.class_name, cfg.happo.lr) == (yaml.safe_load(text)["partner"]["class_name"], 1e-3)
    build_partner(cfg.partner)


def test_the_partner_moves_its_robot(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    names: dict[str, type] = {}
    partner, _, _ = blocks("python")
    exec(partner, names)
    cfg = load_config(
        config_path=shipped_config_path("mpe_cooperative_push"),
        overrides=["partner.class_name=circler"],
    )
    env, circler = build_env(cfg.env, root_seed=0), build_partner(cfg.partner)
    obs, _ = env.reset(seed=0)
    circler.reset(seed=0)
    action = circler.act(obs)
    assert np.linalg.norm(action) == pytest.approx(1.0)
    env.step({"ego": np.zeros(2), "partner": action})


def test_training_from_python_and_a_learner_of_ones_own(capsys: pytest.CaptureFixture[str]):
    _, training, learner = blocks("python")
    names: dict[str, object] = {}
    few = 'overrides=["total_frames=600", "happo.rollout_length=200", "happo.batch_size=100", '
    assert 'overrides=["total_frames=40960", ' in training
    exec(training.replace('overrides=["total_frames=40960", ', few), names)
    assert "CheckStatus." in capsys.readouterr().out
    exec(learner, names)
    curve = names["curve"]
    assert len(curve.per_episode_ego_rewards) == 12  # type: ignore[attr-defined]
    (checkpoint,) = Path("runs/own/artifacts").glob("*.pt")
    assert checkpoint.name == f"{curve.run_id}_step600.pt"  # type: ignore[attr-defined]


@pytest.mark.slow
def test_every_command_of_the_tutorial_runs_in_order(tmp_path: Path):
    (settings,), (partner, _, _) = blocks("yaml"), blocks("python")
    Path("mine.yaml").write_text(settings)
    Path("circler.py").write_text(partner)
    plain = re.sub(r"^```\w+\n.*?^```\n", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^((?:\.venv/bin/|    --|RUN=).*)$", plain, re.MULTILINE)
    assert sum(line.startswith(".venv/bin/") for line in lines) == 13
    programs = Path(sys.executable).parent
    script = "\n".join(lines).replace(".venv/bin/", f"{programs}/")
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "status=PASSED" in done.stdout
    assert "10 contacts, 10 at the ego's fault" in done.stdout
    assert "10 contacts, 0 at the ego's fault" in done.stdout
    assert Path("seeds.svg").is_file()

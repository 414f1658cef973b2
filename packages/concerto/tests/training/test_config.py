"""Training configurations: what is accepted, what is refused, fingerprints, copies and warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from chamber.configs import shipped_config_names, shipped_config_path
from chamber.envs.cocarry import COCARRY_REWARD_TRANSPORT_PBRS_COEFF
from concerto.training.config import (
    EgoAHTConfig,
    EnvConfig,
    HAPPOHyperparams,
    config_fingerprint,
    configuration_warnings,
    load_config,
    validated_copy,
)
from concerto.training.logging import compute_run_metadata
from ripieno.errors import InputError

MPE = shipped_config_path("mpe_cooperative_push")
STAGE1 = shipped_config_path("stage1_pickplace")


def config(**values: Any) -> EgoAHTConfig:
    return EgoAHTConfig.model_validate({"env": {"task": "mpe_cooperative_push"}} | values)


# --- fingerprints ----------------------------------------------------------------------------------------------------


def test_documented_fingerprints_and_run_id(tmp_path: Path) -> None:
    fingerprint = config_fingerprint(config())
    assert fingerprint == "ee3f484930f20a58"
    context = compute_run_metadata(seed=0, run_kind="ego_aht_happo", repo_root=tmp_path, config_fingerprint=fingerprint)
    assert context.run_id == "79e4461c7a0750c7"
    assert config_fingerprint(load_config(config_path=MPE)) == "48aa451e7544199a"


def test_where_a_run_writes_is_not_its_identity() -> None:
    moved = config(log_dir="elsewhere", artifacts_root="/there", wandb={"enabled": True, "project": "mine"})
    assert config_fingerprint(moved) == config_fingerprint(config())


def test_every_other_field_is_part_of_the_fingerprint() -> None:
    changes: list[dict[str, Any]] = [
        {"seed": 1},
        {"runtime": {"device": "cpu"}},
        {"rollout_recorder": {"enabled": True}},
        {"exploratory": {"partner_static_override": True}},
        {"partner": {"extra": {"uid": "x"}}},
        {"happo": {"entropy_coef": 0.02}},
        {"happo": {"value_clip": 0.2}},
        {"happo": {"lr_decay": "linear"}},
    ]
    fingerprints = {config_fingerprint(config(**change)) for change in changes}
    assert len(fingerprints | {config_fingerprint(config())}) == len(changes) + 1


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "location"),
    [
        ({"lerning_rate": 1}, "lerning_rate"),
        ({"env": {"task": "t", "agent_uids": ["a", "a"]}}, "env.agent_uids"),
        ({"env": {"task": "t", "agent_uids": ["a", "b", "c"]}}, "env.agent_uids"),
        ({"env": {"task": "t", "agent_uids": ["a", " "]}}, "env.agent_uids.1"),
        ({"total_frames": 0}, "total_frames"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"happo": {"lr": float("nan")}}, "happo.lr"),
        ({"happo": {"gamma": 1.1}}, "happo.gamma"),
        ({"happo": {"lr_decay": "cosine"}}, "happo.lr_decay"),
        ({"happo": {"target_kl": 0.0}}, "happo.target_kl"),
        ({"partner": {"extra": {"action_dim": 2}}}, "partner.extra.action_dim"),
        ({"safety": {"clamp_floor_ratio": 0.9, "saturation_threshold": 0.9}}, "safety"),
        ({"runtime": {"device": "tpu"}}, "runtime.device"),
        ({"env": {}}, "env.task"),
    ],
)
def test_refused_values_are_named(values: dict[str, Any], location: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        config(**values)
    assert [".".join(map(str, detail["loc"])) for detail in refusal.value.errors()] == [location]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"env": {"task": "cocarry"}}, "env.condition_id must name a condition of 'cocarry'"),
        ({"env": {"task": "stage1_pickplace", "condition_id": ""}}, "env.condition_id must name a condition"),
        ({"env": {"task": "t", "num_envs": 2}, "safety": {"enabled": True}}, "env.num_envs must be 1 with safety"),
        ({"env": {"task": "t", "num_envs": 101}, "total_frames": 100}, "env.num_envs must be at most total_frames"),
        ({"env": {"task": "cocarry", "condition_id": "c", "num_envs": 2}}, "env.num_envs must be 1 for 'cocarry'"),
        ({"env": {"task": "t", "mask_partner_obs": True}}, "env.mask_partner_obs must be false"),
        ({"shaping": {"settle_alpha": 0.1}}, "shaping.settle_alpha must be 0 for any task but"),
        ({"shaping": {"transport_pbrs_coeff": 1.0}}, "shaping.transport_pbrs_coeff must be 0 for any task but"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        config(**values)


def test_uids_of_a_yaml_list_are_a_tuple_and_a_config_is_frozen() -> None:
    cfg = load_config(config_path=MPE)
    assert cfg.env.agent_uids == ("ego", "partner")
    with pytest.raises(ValidationError, match="frozen"):
        cfg.seed = 3  # type: ignore[misc]


# --- files and overrides ---------------------------------------------------------------------------------------------


def test_overrides_follow_the_keys_of_the_file() -> None:
    from hydra.errors import HydraException

    assert load_config(config_path=MPE, overrides=["happo.lr=1e-4"]).happo.lr == 1e-4
    assert load_config(config_path=MPE, overrides=["+safety.enabled=true"]).safety.enabled
    with pytest.raises(HydraException):
        load_config(config_path=MPE, overrides=["safety.enabled=true"])
    # One environment, because the stack is not vectorised.
    single = ["env.num_envs=1"]
    assert load_config(config_path=STAGE1, overrides=[*single, "safety.enabled=true"]).safety.enabled
    with pytest.raises(HydraException):
        load_config(config_path=STAGE1, overrides=[*single, "+safety.enabled=true"])


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    from hydra.errors import MissingConfigException

    with pytest.raises(MissingConfigException):
        load_config(config_path=tmp_path / "none.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(TypeError, match="must hold a mapping of settings, got a list"):
        load_config(config_path=tmp_path / "list.yaml")
    (tmp_path / "unquoted.yaml").write_text("env: {task: t}\npartner: {extra: {action_dim: 2}}\n")
    with pytest.raises(ValidationError):
        load_config(config_path=tmp_path / "unquoted.yaml")


def test_a_file_of_another_kind_is_not_taken_for_the_yaml_beside_it(tmp_path: Path) -> None:
    from hydra.errors import MissingConfigException

    (tmp_path / "cell.yaml").write_text("env: {task: t}\n")
    (tmp_path / "cell.json").write_text("{}")
    with pytest.raises(MissingConfigException, match=r"must end in \.yaml"):
        load_config(config_path=tmp_path / "cell.json")


def test_a_config_can_be_loaded_again_and_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd name=1").mkdir()
    (tmp_path / "odd name=1" / "cell.v1.yaml").write_text("seed: 4\nenv: {task: t}\n")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert load_config(config_path=Path("odd name=1/cell.v1.yaml")).seed == 4


def test_models_need_no_extra_and_files_name_theirs() -> None:
    program = """
import sys
for name in ("hydra", "omegaconf", "torch", "structlog", "wandb"):
    sys.modules[name] = None  # how Python marks a module that cannot be imported
import importlib.util
importlib.util.find_spec = lambda name: None
from pathlib import Path
import concerto.training
from concerto.training.config import EgoAHTConfig, load_config
EgoAHTConfig.model_validate({"env": {"task": "t"}})
try:
    load_config(config_path=Path("a.yaml"))
except ImportError as error:
    print(error)
"""
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert answer.stdout == (
        "reading a training configuration needs hydra-core: pip install 'ripieno-concerto[train]'\n"
    )


# --- shipped files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_config_names())
def test_shipped_configurations_load(name: str) -> None:
    cfg = load_config(config_path=shipped_config_path(name))
    assert (cfg.happo.gae_lambda, cfg.happo.n_epochs, cfg.partner.seed) == (0.95, 4, 0)
    assert cfg.partner.extra["uid"] == cfg.env.agent_uids[1]
    assert cfg.runtime.deterministic_torch == (cfg.runtime.device == "cpu")


def test_shipped_names_and_an_unknown_one() -> None:
    assert shipped_config_names() == [
        "cocarry_blind",
        "cocarry_matched",
        "mpe_cooperative_push",
        "stage0_smoke",
        "stage1_pickplace",
    ]
    with pytest.raises(InputError, match="no shipped configuration 'nope'; there are cocarry_blind"):
        shipped_config_path("nope")


def test_the_blind_cell_differs_from_the_matched_one_in_its_eyes_only() -> None:
    matched, blind = (load_config(config_path=shipped_config_path(f"cocarry_{kind}")) for kind in ("matched", "blind"))
    assert blind == validated_copy(matched, env={"mask_partner_obs": True})
    assert matched.shaping.transport_pbrs_coeff == COCARRY_REWARD_TRANSPORT_PBRS_COEFF


# --- copies ----------------------------------------------------------------------------------------------------------


def test_a_copy_is_checked_and_keeps_what_is_not_named() -> None:
    cfg = load_config(config_path=MPE)
    copy = validated_copy(cfg, seed=3, env={"episode_length": 25}, happo=HAPPOHyperparams(lr=1.0))
    assert (copy.seed, copy.env.episode_length, copy.env.task) == (3, 25, "mpe_cooperative_push")
    assert (copy.happo, copy.partner) == (HAPPOHyperparams(lr=1.0), cfg.partner)
    assert cfg.seed == 0
    unchecked = EnvConfig(task="t").model_copy(update={"agent_uids": "ab"})
    for wrong in ({"seed": -1}, {"nope": 1}, {"env": unchecked}, {"env": {"nope": 1}}):
        with pytest.raises(ValidationError):
            validated_copy(cfg, **wrong)


# --- warnings --------------------------------------------------------------------------------------------------------


def test_a_budget_without_waste_warns_of_nothing() -> None:
    assert configuration_warnings(config(total_frames=102_400)) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "the last 672 will be played and not learned from"),
        ({"total_frames": 1000}, "there will be no update, and nothing is learned"),
        (
            {"total_frames": 1003, "env": {"task": "t", "num_envs": 8}},
            "1000 frames will be played, the last 3 will not",
        ),
        ({"happo": {"rollout_length": 1000}}, "an epoch will be 2 batches of 333 and one of 334"),
        ({"happo": {"rollout_length": 500}}, "an epoch will be one batch of 500"),
        ({"happo": {"rollout_length": 128}}, "every epoch will be one gradient step on all of them"),
        ({"checkpoint_every": 200_000}, "only the final policy will be saved"),
        ({"checkpoint_every": 4, "env": {"task": "t", "num_envs": 8}}, "one checkpoint per step of all environments"),
        ({"total_frames": 40}, "an episode that is not ended by its task will stay unfinished"),
        ({"rollout_recorder": {"enabled": True, "interval_frames": 200_000}}, "no episode will be recorded"),
        ({"runtime": {"device": "cuda"}}, "has no effect on 'cuda'"),
        ({"exploratory": {"partner_static_override": True}}, "the partner will stand still"),
    ],
)
def test_waste_is_legal_and_says_what_will_happen(values: dict[str, Any], said: str) -> None:
    assert any(said in line for line in configuration_warnings(config(**values)))

"""The learning ego: documented numbers, exact resuming, and one whole update against the formulas in float64."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from chamber.benchmarks import ego_ppo_trainer
from chamber.benchmarks.ego_ppo_trainer import EgoPPOTrainer
from chamber.envs.mpe_cooperative_push import MPECooperativePushEnv
from chamber.learning.networks import GaussianPolicy, ValueNetwork
from chamber.learning.ppo import single_thread
from chamber.partners.api import PartnerSpec
from chamber.partners.registry import load_partner
from concerto.training.config import EgoAHTConfig
from concerto.training.logging import bind_run_logger, compute_run_metadata
from ripieno.errors import InputError
from ripieno.randomness import derive_substream

DOCUMENTED_METRICS = {
    "policy_loss",
    "value_loss",
    "dist_entropy",
    "actor_grad_norm",
    "approx_kl",
    "clip_fraction",
    "ratio_min",
    "ratio_max",
    "advantage_mean",
    "advantage_std",
    "value_mean",
    "value_std",
    "learning_rate",
}
WIDTHS = (6, 16, 2)


@pytest.fixture(autouse=True)
def _restored_determinism() -> Iterator[None]:
    before = torch.get_deterministic_debug_mode()
    yield
    torch.set_deterministic_debug_mode(before)


def _config(*, num_envs: int = 1, seed: int = 0, total_frames: int = 4096, **happo: Any) -> EgoAHTConfig:
    return EgoAHTConfig.model_validate(
        {
            "seed": seed,
            "total_frames": total_frames,
            "env": {"task": "mpe_cooperative_push", "num_envs": num_envs},
            "happo": {"rollout_length": 40, "batch_size": 16, "n_epochs": 3, "hidden_dim": WIDTHS[1], **happo},
            "runtime": {"device": "cpu"},
        }
    )


class _Trainable:
    """A partner whose parameters anybody could train."""

    spec = None

    def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [("net.weight", torch.nn.Parameter(torch.zeros(1)))]

    def reset(self, *, seed: int | None = None) -> None: ...

    def act(self, obs: Any, *, deterministic: bool = True) -> Any: ...


def _frozen() -> Any:
    extra = {"uid": "partner", "target_xy": "0.0,0.0", "action_dim": "2"}
    return load_partner(PartnerSpec("scripted_heuristic", 0, None, None, extra))


def _trainer(cfg: EgoAHTConfig, **arguments: Any) -> EgoPPOTrainer:
    return EgoPPOTrainer(
        cfg=cfg,
        ego_uid="ego",
        ego_obs_space=spaces.Box(-np.inf, np.inf, (WIDTHS[0],)),
        ego_act_space=spaces.Box(-1, 1, (WIDTHS[2],)),
        partner=_frozen(),
        **arguments,
    )


def _obs(state: Any) -> dict[str, Any]:
    return {"agent": {"ego": {"state": state}}}


def _live(trainer: EgoPPOTrainer, n_steps: int, *, n_envs: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    """Live through random steps with terminations and truncations, and give what happened, time first."""
    rng = np.random.default_rng(seed)
    happened: dict[str, list[Any]] = {name: [] for name in ("obs", "actions", "rewards", "terminated", "truncated")}
    happened["final"] = []
    obs = rng.normal(size=(n_envs, WIDTHS[0])).astype(np.float32)
    for _ in range(n_steps):
        state = obs[0] if n_envs == 1 else obs
        action = trainer.act(_obs(state))
        rewards = rng.normal(size=n_envs)
        truncated = rng.random(n_envs) < 0.15
        terminated = (rng.random(n_envs) < 0.15) & ~truncated
        final, following = rng.normal(size=(2, n_envs, WIDTHS[0])).astype(np.float32)
        if n_envs == 1:
            seen = final if truncated[0] else following
            trainer.observe(
                _obs(seen[0]), float(rewards[0]), bool((terminated | truncated)[0]), truncated=bool(truncated[0])
            )
            obs = following
        else:
            trainer.observe(
                _obs(following), rewards, terminated | truncated, truncated=truncated, final_obs=_obs(final)
            )
            obs = following
        step = (state, action, rewards, terminated, truncated, final)
        for name, value in zip(happened, step, strict=True):
            happened[name].append(np.array(value, copy=True).reshape(n_envs, -1))
        last_seen = seen if n_envs == 1 else following
    arrays = {name: np.stack(rows) for name, rows in happened.items()}
    return {**arrays, "last": last_seen}


# --- the documented numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "documented"), [(0, 140323428), (7, 85195721)])
def test_networks_are_those_of_the_documented_torch_seed(seed: int, documented: int) -> None:
    state = _trainer(_config(seed=seed)).state_dict()
    torch.manual_seed(documented)
    o, h, a = WIDTHS
    with single_thread(torch.device("cpu")):
        actor = GaussianPolicy(obs_dim=o, hidden_dim=h, action_dim=a)
    critic = ValueNetwork(obs_dim=o, hidden_dim=h)
    for key, module in (("actor", actor), ("critic", critic)):
        assert state[key].keys() == module.state_dict().keys()
        assert all(torch.equal(state[key][name], value) for name, value in module.state_dict().items())


def test_samples_go_on_in_the_documented_stream() -> None:
    """As if the global generator had been seeded, the networks built, and one sample taken per step."""
    trainer = _trainer(_config())
    torch.manual_seed(140323428)
    actor = GaussianPolicy(obs_dim=WIDTHS[0], hidden_dim=WIDTHS[1], action_dim=WIDTHS[2])
    ValueNetwork(obs_dim=WIDTHS[0], hidden_dim=WIDTHS[1])
    for state in np.random.default_rng(1).normal(size=(20, WIDTHS[0])).astype(np.float32):
        with torch.no_grad():
            sample = torch.distributions.Normal(*actor(torch.from_numpy(state[None]))).sample()
        np.testing.assert_allclose(trainer.act(_obs(state)), sample[0], atol=1e-6)


def test_the_first_permutation_is_the_documented_one() -> None:
    rng = derive_substream(ego_ppo_trainer._MINIBATCH_SUBSTREAM, root_seed=0).default_rng()
    assert rng.permutation(8).tolist() == [2, 1, 4, 0, 5, 7, 6, 3]


def test_a_fresh_ego_stands_still_on_zeros_with_the_documented_density() -> None:
    trainer = _trainer(_config())
    zeros = np.zeros(WIDTHS[0], np.float32)
    assert trainer.act(_obs(zeros), deterministic=True).tolist() == [0.0, 0.0]
    trainer.act(_obs(zeros))
    pending = trainer._pending
    assert pending is not None
    noise = pending.action / 0.365529
    np.testing.assert_allclose(pending.log_prob, 0.0875 - noise**2 / 2, atol=1e-4)


def test_the_actor_s_settings_have_the_names_of_the_package() -> None:
    args = ego_ppo_trainer._build_harl_args(happo=_config(rollout_length=40, batch_size=16, entropy_coef=0.02).happo)
    assert len(args) == 22
    assert args["hidden_sizes"] == [16, 16]
    assert args["actor_num_mini_batch"] == 2
    assert (args["entropy_coef"], args["max_grad_norm"], args["opti_eps"]) == (0.02, 10.0, 1e-5)


# --- who may be trained beside whom, and where --------------------------------------------------------------------


def test_a_trainable_partner_is_refused_before_any_space_is_looked_at() -> None:
    with pytest.raises(ValueError, match=r"_Trainable is not frozen: parameter 'net\.weight'.*ADR-009"):
        EgoPPOTrainer.from_config(_config(), env=object(), partner=_Trainable(), ego_uid="ego")  # type: ignore[arg-type]


def test_a_partner_that_refuses_the_lookup_is_frozen_and_errors_of_the_call_pass_through() -> None:
    ego_ppo_trainer._assert_partner_is_frozen(_frozen())

    class Broken(_Trainable):
        def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
            raise AttributeError("from inside the call")

    with pytest.raises(AttributeError, match="from inside the call"):
        ego_ppo_trainer._assert_partner_is_frozen(Broken())


def test_spaces_that_are_no_boxes_are_refused_by_path() -> None:
    env = MPECooperativePushEnv()
    env.action_space = spaces.Dict({"ego": spaces.Discrete(3)})
    with pytest.raises(TypeError, match=r"env\.action_space\['ego'\] must be a Box, got Discrete"):
        EgoPPOTrainer.from_config(_config(), env=env, partner=_frozen(), ego_uid="ego")


def test_an_absent_device_is_refused_and_auto_is_not() -> None:
    assert ego_ppo_trainer._resolve_device("auto").type in {"cpu", "cuda", "mps"}
    for name, is_there in (("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())):
        if not is_there:
            with pytest.raises(RuntimeError, match=rf"runtime\.device={name}.*auto"):
                ego_ppo_trainer._resolve_device(name)


@pytest.mark.parametrize("deterministic", [True, False])
def test_determinism_is_asked_of_torch_where_the_configuration_wants_it(deterministic: bool) -> None:
    torch.set_deterministic_debug_mode("default")
    cfg = _config().model_copy(update={"runtime": _config().runtime.model_copy(update={"deterministic_torch": False})})
    cfg = _config() if deterministic else cfg
    EgoPPOTrainer.from_config(cfg, env=MPECooperativePushEnv(), partner=_frozen(), ego_uid="ego")
    assert torch.are_deterministic_algorithms_enabled() is deterministic


def test_the_box_of_one_environment() -> None:
    single = spaces.Box(-1, 1, (3,))
    assert ego_ppo_trainer._per_env_box(single) is single
    batched = ego_ppo_trainer._per_env_box(spaces.Box(-2, 2, (5, 3)))
    assert (batched.shape, batched.dtype) == ((3,), np.float32)
    assert batched.low.tolist() == [-2.0] * 3


# --- acting and observing -----------------------------------------------------------------------------------------


def test_observing_without_an_action_changes_nothing() -> None:
    trainer = _trainer(_config())
    before = trainer.training_state()
    trainer.observe(_obs(np.ones(WIDTHS[0])), 1.0, True)
    _assert_same(trainer.training_state(), before)


def test_a_deterministic_action_leaves_no_trace_between_action_and_outcome() -> None:
    trainer, other = _trainer(_config()), _trainer(_config())
    for each in (trainer, other):
        each.act(_obs(np.ones(WIDTHS[0])))
    trainer.act(_obs(np.zeros(WIDTHS[0])), deterministic=True)
    _assert_same(trainer.training_state(), other.training_state())


def test_vectorised_truncation_needs_the_final_observation() -> None:
    trainer = _trainer(_config(num_envs=2))
    trainer.act(_obs(np.zeros((2, WIDTHS[0]))))
    following, flags = np.ones((2, WIDTHS[0])), np.array([False, True])
    with pytest.raises(ValueError, match=r"environments \[1\] were truncated"):
        trainer.observe(_obs(following), np.zeros(2), flags, truncated=flags)
    trainer.observe(_obs(following), np.zeros(2), flags, truncated=flags, final_obs=_obs(3 * following))
    rollout = trainer.training_state()["rollout"]
    assert rollout["final_obs_places"].tolist() == [[0, 1]]
    assert rollout["final_obs"].tolist() == [[3.0] * WIDTHS[0]]


def test_one_environment_that_resets_itself_is_valued_at_its_final_observation() -> None:
    trainer = _trainer(_config())
    trainer.act(_obs(np.zeros(WIDTHS[0])))
    following = np.ones(WIDTHS[0])
    trainer.observe(_obs(following), 0.0, True, truncated=True, final_obs=_obs(3 * following))
    assert trainer.training_state()["rollout"]["final_obs"].tolist() == [[3.0] * WIDTHS[0]]


@pytest.mark.parametrize("n_envs", [1, 2, 5, 64])
def test_the_configuration_decides_the_layout(n_envs: int) -> None:
    trainer = _trainer(_config(num_envs=n_envs))
    assert trainer.act(_obs(np.zeros((n_envs, WIDTHS[0])))).shape == (n_envs, WIDTHS[2])
    with pytest.raises(ValueError, match="must have shape"):
        trainer.act(_obs(np.zeros((n_envs + 1, WIDTHS[0]))))
    if n_envs > 1:
        with pytest.raises(ValueError, match="must have shape"):
            trainer.act(_obs(np.zeros(WIDTHS[0])))


@pytest.mark.parametrize("n_envs", [1, 3])
def test_evaluations_have_as_many_environments_as_they_like(n_envs: int) -> None:
    trainer = _trainer(_config(num_envs=n_envs))
    states = np.random.default_rng(0).normal(size=(4, WIDTHS[0]))
    batch = trainer.act(_obs(states), deterministic=True)
    single = np.stack([trainer.act(_obs(state), deterministic=True) for state in states])
    assert batch.shape == (4, WIDTHS[2])
    np.testing.assert_array_equal(batch, single)
    with pytest.raises(ValueError, match="width"):
        trainer.act(_obs(states[:, :-1]), deterministic=True)


def test_one_environment_with_batched_shapes_is_one_environment() -> None:
    """An environment that emits ``(1, D)`` and one-entry tensors learns the same as one that does not."""
    plain, batched = _trainer(_config()), _trainer(_config())
    for t in range(20):
        state, is_end = np.full(WIDTHS[0], t / 7, np.float32), t % 6 == 5
        plain.act(_obs(state))
        plain.observe(_obs(state + 1), float(t), is_end, truncated=is_end)
        assert batched.act(_obs(torch.from_numpy(state[None]))).shape == (1, WIDTHS[2])
        flag = torch.tensor([is_end])
        batched.observe(_obs(torch.from_numpy(state[None] + 1)), torch.tensor([float(t)]), flag, truncated=flag)
    for each in (plain, batched):
        each.update()
    _assert_same(plain.state_dict(), batched.state_dict())


def test_vectors_of_numbers_and_flags() -> None:
    assert ego_ppo_trainer._to_float_vec(torch.tensor([[1.0], [2.0]]), 2).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="reshape"):
        ego_ppo_trainer._to_float_vec(1.0, 2)
    assert ego_ppo_trainer._to_bool_vec(True, 3).tolist() == [True] * 3
    assert ego_ppo_trainer._to_bool_vec(torch.tensor([0, 1]), 2).tolist() == [False, True]


# --- updating -----------------------------------------------------------------------------------------------------


def _reference_update(
    state: dict[str, Any], happened: dict[str, np.ndarray], cfg: EgoAHTConfig
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """One update in float64, each formula as it is written: loops, autograd, Adam by hand."""
    o, h, a = WIDTHS
    actor = GaussianPolicy(obs_dim=o, hidden_dim=h, action_dim=a)
    critic = ValueNetwork(obs_dim=o, hidden_dim=h)
    actor.load_state_dict(state["actor"])
    critic.load_state_dict(state["critic"])
    actor.double()
    critic.double()
    happo = cfg.happo
    obs, actions = (torch.from_numpy(happened[name]).double() for name in ("obs", "actions"))
    n_steps, n_envs = obs.shape[:2]
    with torch.no_grad():
        values = critic(obs).squeeze(-1)
        at_end = critic(torch.from_numpy(happened["final"]).double()).squeeze(-1)
        at_last = critic(torch.from_numpy(happened["last"]).double()).squeeze(-1)
        old = torch.distributions.Normal(*actor(obs)).log_prob(actions).sum(dim=-1)
    advantages = torch.zeros(n_steps, n_envs, dtype=torch.float64)
    for e in range(n_envs):
        later = 0.0
        for t in reversed(range(n_steps)):
            terminated, truncated = (bool(happened[name][t, e, 0]) for name in ("terminated", "truncated"))
            following = at_last[e] if t == n_steps - 1 else values[t + 1, e]
            following = at_end[t, e] if truncated else following
            following = 0.0 if terminated else following
            delta = happened["rewards"][t, e, 0] + happo.gamma * following - values[t, e]
            later = delta + (0.0 if terminated or truncated else happo.gamma * happo.gae_lambda * later)
            advantages[t, e] = later
    returns = (advantages + values).reshape(-1)
    normalised = ((advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-5)).reshape(-1)
    obs, actions, old = obs.reshape(-1, o), actions.reshape(-1, a), old.reshape(-1)

    rng = derive_substream("training.ego_ppo.minibatch", root_seed=cfg.seed).default_rng()
    adams = (_Adam(list(actor.parameters()), happo.lr, 1e-5), _Adam(list(critic.parameters()), happo.lr, 1e-8))
    n = len(old)
    n_batches = max(1, n // happo.batch_size)
    size = n // n_batches
    for _ in range(happo.n_epochs):
        order = torch.from_numpy(rng.permutation(n))
        for k in range(n_batches):
            mb = order[k * size :] if k == n_batches - 1 else order[k * size : (k + 1) * size]
            density = torch.distributions.Normal(*actor(obs[mb]))
            ratio = (density.log_prob(actions[mb]).sum(dim=-1) - old[mb]).exp()
            clipped = ratio.clamp(1 - happo.clip_eps, 1 + happo.clip_eps)
            surrogate = torch.min(ratio * normalised[mb], clipped * normalised[mb])
            loss = -surrogate.mean() - happo.entropy_coef * density.entropy().sum(dim=-1).mean()
            adams[0].step(loss, limit=happo.max_grad_norm)
            adams[1].step((critic(obs[mb]).squeeze(-1) - returns[mb]).square().mean(), limit=None)
    return actor.state_dict(), critic.state_dict()


class _Adam:
    def __init__(self, parameters: list[torch.nn.Parameter], lr: float, eps: float) -> None:
        self.parameters, self.lr, self.eps, self.t = parameters, lr, eps, 0
        self.means, self.squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))

    def step(self, loss: torch.Tensor, *, limit: float | None) -> None:
        gradients = torch.autograd.grad(loss, self.parameters)
        norm = float(torch.cat([gradient.reshape(-1) for gradient in gradients]).norm())
        scale = 1.0 if limit is None else min(1.0, limit / norm)
        self.t += 1
        with torch.no_grad():
            for p, gradient, m, v in zip(self.parameters, gradients, self.means, self.squares, strict=True):
                m.mul_(0.9).add_(0.1 * scale * gradient)
                v.mul_(0.999).add_(0.001 * (scale * gradient) ** 2)
                p.sub_(self.lr * (m / (1 - 0.9**self.t)) / ((v / (1 - 0.999**self.t)).sqrt() + self.eps))


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("happo", [{}, {"max_grad_norm": 0.05, "entropy_coef": 0.1, "clip_eps": 0.05, "lr": 2e-3}])
def test_a_whole_update_is_the_one_of_the_formulas(n_envs: int, happo: dict[str, float]) -> None:
    cfg = _config(num_envs=n_envs, **happo)
    trainer = _trainer(cfg)
    happened = _live(trainer, 41, n_envs=n_envs)
    before = trainer.state_dict()
    trainer.update()
    after = trainer.state_dict()
    for key, exact in zip(("actor", "critic"), _reference_update(before, happened, cfg), strict=True):
        for name, value in exact.items():
            moved = float((value - before[key][name]).abs().max())
            assert moved > cfg.happo.lr
            np.testing.assert_allclose(after[key][name], value, rtol=0, atol=0.01 * moved, err_msg=f"{key} {name}")


def test_an_empty_update_draws_nothing_and_logs_nothing(tmp_path: Path) -> None:
    logged = tmp_path / "run.jsonl"
    context = compute_run_metadata(seed=0, run_kind="test", repo_root=tmp_path)
    with bind_run_logger(context, jsonl_path=logged) as logger:
        trainer = _trainer(_config(), logger=logger)
        before = (copy.deepcopy(trainer.training_state()), trainer.state_dict())
        trainer.update()
        _assert_same((trainer.training_state(), trainer.state_dict()), before)
    assert logged.read_text() == ""


def test_an_update_logs_one_line_with_the_documented_metrics(tmp_path: Path) -> None:
    logged = tmp_path / "run.jsonl"
    context = compute_run_metadata(seed=0, run_kind="test", repo_root=tmp_path)
    with bind_run_logger(context, jsonl_path=logged) as logger:
        trainer = _trainer(_config(), logger=logger)
        _live(trainer, 40)
        trainer.update()
    (line,) = [json.loads(text) for text in logged.read_text().splitlines()]
    assert (line["event"], line["metric_namespace"], line["step"]) == ("scalar", "train", 40)
    assert DOCUMENTED_METRICS | {"explained_variance", "kl_estimate"} <= line.keys()
    assert all(np.isfinite(line[name]) for name in DOCUMENTED_METRICS)
    assert line["learning_rate"] == 3e-4
    assert line["ratio_min"] <= 1.0 <= line["ratio_max"]
    assert "override_rate" not in line


def test_the_logged_numbers_are_those_of_the_formulas(tmp_path: Path) -> None:
    """One step on the whole rollout: the ratios are one, and the critic's errors are the advantages."""
    cfg = _config(n_epochs=1, batch_size=40)
    logged = tmp_path / "run.jsonl"
    context = compute_run_metadata(seed=0, run_kind="test", repo_root=tmp_path)
    with bind_run_logger(context, jsonl_path=logged) as logger:
        trainer = _trainer(cfg, logger=logger)
        happened = _live(trainer, 40)
        critic = ValueNetwork(obs_dim=WIDTHS[0], hidden_dim=WIDTHS[1])
        critic.load_state_dict(trainer.state_dict()["critic"])
        trainer.update()
    line = json.loads(logged.read_text())
    values, at_end = (
        critic(torch.from_numpy(happened[name])).squeeze(-1).detach().double().numpy()[:, 0]
        for name in ("obs", "final")
    )
    at_last = float(critic(torch.from_numpy(happened["last"]))[-1].detach())
    following = np.append(values[1:], at_last)
    terminated, truncated = (happened[name][:, 0, 0] for name in ("terminated", "truncated"))
    following = np.where(terminated, 0.0, np.where(truncated, at_end, following))
    ends = terminated | truncated
    advantages, later = np.zeros(40), 0.0
    for t in reversed(range(40)):
        delta = happened["rewards"][t, 0, 0] + cfg.happo.gamma * following[t] - values[t]
        later = advantages[t] = delta + (0.0 if ends[t] else cfg.happo.gamma * cfg.happo.gae_lambda * later)
    expected = {
        "advantage_mean": advantages.mean(),
        "advantage_std": advantages.std(),
        "value_mean": values.mean(),
        "value_std": values.std(),
        "value_loss": (advantages**2).mean(),
        "explained_variance": 1.0 - advantages.var() / (advantages + values).var(),
        "policy_loss": 0.0,
        "approx_kl": 0.0,
        "clip_fraction": 0.0,
        "ratio_min": 1.0,
        "ratio_max": 1.0,
    }
    assert {name: line[name] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert line["dist_entropy"] == pytest.approx(0.82506, abs=1e-5)
    assert line["actor_grad_norm"] > 0.0


def test_overrides_are_logged_and_do_not_change_what_is_learned(tmp_path: Path) -> None:
    context = compute_run_metadata(seed=0, run_kind="test", repo_root=tmp_path)
    states: list[Any] = []
    with bind_run_logger(context, jsonl_path=tmp_path / "run.jsonl") as logger:
        for is_overridden in (False, True):
            trainer = _trainer(_config(), logger=logger)
            for t in range(40):
                action = trainer.act(_obs(np.full(WIDTHS[0], t / 40)))
                executed = action.astype(np.float64) + np.array([3.0, 4.0]) if is_overridden and t % 4 == 0 else action
                trainer.observe(_obs(np.zeros(WIDTHS[0])), -float(t), False, executed_action=executed)
            trainer.update()
            states.append(trainer.state_dict())
    _assert_same(*states)
    lines = [json.loads(text) for text in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert "override_rate" not in lines[0]
    assert lines[1]["override_rate"] == 0.25
    assert lines[1]["override_norm_mean"] == pytest.approx(5.0, rel=1e-6)


def test_a_linear_decay_takes_the_rate_to_zero(tmp_path: Path) -> None:
    context = compute_run_metadata(seed=0, run_kind="test", repo_root=tmp_path)
    with bind_run_logger(context, jsonl_path=tmp_path / "run.jsonl") as logger:
        trainer = _trainer(_config(lr_decay="linear", total_frames=160, lr=0.04), logger=logger)
        for _ in range(4):
            _live(trainer, 40)
            trainer.update()
    rates = [json.loads(text)["learning_rate"] for text in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert rates == pytest.approx([0.04, 0.03, 0.02, 0.01])
    for optimiser in ("actor_optim", "critic_optim"):
        assert trainer.state_dict()[optimiser]["param_groups"][0]["lr"] == rates[-1]


def test_a_value_clip_and_a_divergence_limit_change_what_is_learned() -> None:
    results: list[torch.Tensor] = []
    for happo in ({}, {"value_clip": 0.001}, {"target_kl": 1e-9}):
        trainer = _trainer(_config(lr=0.01, **happo))
        _live(trainer, 40)
        trainer.update()
        results.append(torch.cat([value.reshape(-1) for value in trainer.state_dict()["critic"].values()]))
    assert not torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


# --- same seed, same bytes ----------------------------------------------------------------------------------------


def _assert_same(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            _assert_same(a, b)
    else:
        assert one == other


def test_nothing_depends_on_the_global_generator_and_nothing_changes_it() -> None:
    states: list[Any] = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        trainer = _trainer(_config())
        _live(trainer, 40)
        trainer.update()
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(seed)
        _live(trainer, 10)
        states.append((trainer.state_dict(), trainer.training_state()))
    _assert_same(*states)


def test_the_number_of_threads_changes_no_byte() -> None:
    before = torch.get_num_threads()
    states: list[Any] = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            trainer = _trainer(_config(hidden_dim=64, rollout_length=512, batch_size=256))
            _live(trainer, 512)
            trainer.update()
            assert torch.get_num_threads() == n_threads
            states.append(trainer.state_dict())
    finally:
        torch.set_num_threads(before)
    _assert_same(*states)


def test_another_seed_learns_something_else() -> None:
    first, second = (_trainer(_config(seed=seed)).state_dict()["actor"] for seed in (0, 1))
    assert not torch.equal(first["base.mlp.fc.0.weight"], second["base.mlp.fc.0.weight"])


def test_a_state_is_a_copy() -> None:
    trainer = _trainer(_config())
    before = trainer.state_dict()
    kept = copy.deepcopy(before)
    _live(trainer, 40)
    trainer.update()
    _assert_same(before, kept)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("pause", [40, 57])
def test_a_run_goes_on_from_a_saved_state_to_the_same_bytes(tmp_path: Path, n_envs: int, pause: int) -> None:
    """Saved right after an update, and in the middle of a rollout; through a file, into a process-fresh trainer."""
    cfg = _config(num_envs=n_envs)

    def live(trainer: EgoPPOTrainer, first: int, last: int) -> None:
        for t in range(first, last):
            _live(trainer, 1, n_envs=n_envs, seed=t)
            if (t + 1) % cfg.happo.rollout_length == 0:
                trainer.update()

    whole = _trainer(cfg)
    live(whole, 0, pause)
    torch.save((whole.state_dict(), whole.training_state()), tmp_path / "state.pt")
    live(whole, pause, 100)

    networks, rest = torch.load(tmp_path / "state.pt", weights_only=True)
    resumed = _trainer(cfg)
    live(resumed, 200, 213)  # whatever it did before is forgotten
    resumed.load_state_dict(networks)
    resumed.load_training_state(rest)
    live(resumed, pause, 100)
    _assert_same(resumed.state_dict(), whole.state_dict())
    _assert_same(resumed.training_state(), whole.training_state())


def test_an_action_that_waited_for_its_outcome_still_waits() -> None:
    trainer, other = _trainer(_config()), _trainer(_config())
    trainer.act(_obs(np.ones(WIDTHS[0])))
    other.load_training_state(trainer.training_state())
    for each in (trainer, other):
        each.observe(_obs(np.zeros(WIDTHS[0])), 1.0, False)
    _assert_same(other.training_state(), trainer.training_state())


@pytest.mark.parametrize("key", ["actor", "actor_optim", "critic", "critic_optim"])
def test_a_state_with_a_part_missing_or_of_another_width_is_refused_and_changes_nothing(key: str) -> None:
    trainer = _trainer(_config())
    before = trainer.state_dict()
    wider = _trainer(_config(hidden_dim=32))
    for each in (trainer, wider):
        _live(each, 40)
        each.update()
    trainer.load_state_dict({**before, "resume": {"more": 1}})
    state = {name: value for name, value in before.items() if name != key}
    with pytest.raises(InputError, match=rf"lacks \['{key}'\]"):
        trainer.load_state_dict(state)
    with pytest.raises(InputError, match="shape"):
        trainer.load_state_dict({**before, key: wider.state_dict()[key]})
    _assert_same(trainer.state_dict(), before)


def test_a_training_state_of_another_format_or_layout_is_refused() -> None:
    trainer = _trainer(_config())
    with pytest.raises(InputError, match="format 1, got 2"):
        trainer.load_training_state({**trainer.training_state(), "format": 2})
    with pytest.raises(InputError, match=r"lacks \['noise_generator'\]"):
        trainer.load_training_state({k: v for k, v in trainer.training_state().items() if k != "noise_generator"})
    other = _trainer(_config(num_envs=2))
    _live(other, 3, n_envs=2)
    with pytest.raises(InputError, match="saved rollout"):
        trainer.load_training_state(other.training_state())

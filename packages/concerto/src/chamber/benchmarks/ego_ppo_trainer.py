"""The learning ego: PPO of one robot beside a frozen partner.

HAPPO with a single learner is PPO, and the parameter names are those that HAPPO's checkpoints have. The parts
(networks, rollout, loss, optimiser) are those of `chamber.learning`; this module joins them to a configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from chamber.utils.pytorch import torch

try:
    from gymnasium.spaces import Box
except ImportError as error:
    raise ImportError("learning needs Gymnasium; install it with: pip install 'ripieno-concerto[train]'") from error

import numpy as np
from numpy.typing import NDArray

from chamber.learning.advantages import compute_gae, next_step_values, normalize_advantages
from chamber.learning.networks import GaussianPolicy
from chamber.learning.networks import ValueNetwork as _EgoCritic
from chamber.learning.observations import flat_ego_obs as _flat_ego_obs
from chamber.learning.policy_learner import PolicyLearner
from chamber.learning.ppo import Critic, Seat, Steps, policy_metrics, single_thread, update_epochs, value_loss
from chamber.learning.rollout_buffer import RolloutBuffer
from chamber.learning.value_learner import ValueLearner
from chamber.utils.device import torch_device
from concerto.training.config import EgoAHTConfig, HAPPOHyperparams
from concerto.training.logging import RunLogger, log_scalars
from concerto.training.protocols import EnvLike, PartnerLike
from ripieno.errors import InputError
from ripieno.randomness import derive_substream

__all__ = ["EgoPPOTrainer", "compute_gae", "normalize_advantages"]

Float32Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

_TORCH_SUBSTREAM = "training.ego_ppo.torch"
_MINIBATCH_SUBSTREAM = "training.ego_ppo.minibatch"
_SEED_BOUND = 2**31 - 1
_STATE_FORMAT = 1
_STATE_KEYS = ("actor", "actor_optim", "critic", "critic_optim")

_HARL_FIXED_DEFAULTS: dict[str, Any] = {
    "opti_eps": 1e-5,
    "weight_decay": 0.0,
    "data_chunk_length": 10,
    "use_recurrent_policy": False,
    "use_naive_recurrent_policy": False,
    "use_policy_active_masks": False,
    "action_aggregation": "prod",
    "recurrent_n": 1,
    "entropy_coef": 0.01,
    "use_max_grad_norm": True,
    "max_grad_norm": 10.0,
    "use_feature_normalization": True,
    "activation_func": "relu",
    "initialization_method": "orthogonal_",
    "gain": 0.01,
    "std_x_coef": 1.0,
    "std_y_coef": 0.5,
}
"""Constants of the actor under the names of the HARL package; a configuration replaces the two that it has too."""


@dataclass(frozen=True)
class _PendingStep:
    """An action that waits for its outcome.

    Attributes:
        obs: what was seen, shape ``(O,)`` or ``(N, O)``.
        action: what was proposed, shape ``(A,)`` or ``(N, A)``.
        log_prob: log-density per dimension, the shape of ``action``.
        value: the critic's value, a float or shape ``(N,)``.
    """

    obs: Float32Array
    action: Float32Array
    log_prob: Float32Array
    value: float | Float32Array


class EgoPPOTrainer:
    r"""Trains a Gaussian policy with the clipped surrogate; see `chamber.learning` for the formulas.

    **The safety layer counts as part of the environment.** Where it replaces an action, the outcome is credited to the
    action that the policy *proposed*, with the density of that one. The return is then a function of what the policy
    chose, and the gradient is the unbiased one of that function; crediting the executed action, which the policy did
    not draw, would need a density that does not exist.

    Actions are drawn from a generator of the trainer's own; nothing depends on PyTorch's global one, and nothing
    changes it. Equal configurations give equal bytes on a CPU.

    Args:
        cfg: the run.
        ego_uid: whose observation and action these are.
        ego_obs_space: of one environment, shape ``(O,)``.
        ego_act_space: of one environment, shape ``(A,)``.
        partner: checked to be frozen, and not kept.
        device: where the update computes; the CPU by default. Acting is always on the CPU.
        logger: of the run; ``None`` logs nothing.

    Raises:
        ValueError: the partner has parameters that can be trained.
    """

    USES_MODULE_GAE: ClassVar[bool] = True
    """Updates go through `compute_gae` and `normalize_advantages` of this module."""

    def __init__(
        self,
        *,
        cfg: EgoAHTConfig,
        ego_uid: str,
        ego_obs_space: Box,
        ego_act_space: Box,
        partner: PartnerLike,
        device: torch.device | None = None,
        logger: RunLogger | None = None,
    ) -> None:
        _assert_partner_is_frozen(partner)
        self._cfg = cfg
        self._ego_uid = ego_uid
        self._logger = logger
        self._device = torch.device("cpu") if device is None else device
        self._n_envs = cfg.env.num_envs
        self._frames = 0
        obs_dim, action_dim = ego_obs_space.shape[-1], ego_act_space.shape[-1]
        args = _build_harl_args(happo=cfg.happo)
        # The documented draws, without touching the generator that others may use. One thread, because an orthogonal
        # start comes from a QR decomposition, whose last bits depend on their number.
        with single_thread(torch.device("cpu")), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(_draw31(_TORCH_SUBSTREAM, cfg.seed))
            policy = GaussianPolicy(obs_dim=obs_dim, hidden_dim=cfg.happo.hidden_dim, action_dim=action_dim)
            critic = _EgoCritic(obs_dim=obs_dim, hidden_dim=cfg.happo.hidden_dim)
            self._noise_generator = torch.Generator().set_state(torch.get_rng_state())
        self._minibatch_rng = derive_substream(_MINIBATCH_SUBSTREAM, root_seed=cfg.seed).default_rng()
        self._policy = PolicyLearner(
            policy.to(self._device),
            lr=args["lr"],
            clip_eps=args["clip_param"],
            entropy_coef=args["entropy_coef"],
            max_grad_norm=args["max_grad_norm"],
        )
        self._critic = ValueLearner(critic.to(self._device), lr=cfg.happo.lr, value_clip=cfg.happo.value_clip)
        self._noise = torch.zeros((self._n_envs, action_dim))
        self._noise_rows: Float32Array = self._noise.numpy()  # the same memory
        self._rollout = RolloutBuffer(
            n_envs=self._n_envs, obs_dim=obs_dim, action_dim=action_dim, capacity=cfg.happo.rollout_length
        )
        self._action_shape = (action_dim,) if self._n_envs == 1 else (self._n_envs, action_dim)
        self._last_action: Float32Array | None = None

    @classmethod
    def from_config(
        cls,
        cfg: EgoAHTConfig,
        *,
        env: EnvLike,
        partner: PartnerLike,
        ego_uid: str,
        logger: RunLogger | None = None,
    ) -> EgoPPOTrainer:
        """Make the trainer of a run; this is a `TrainerFactory`.

        Raises:
            ValueError: the partner is not frozen.
            TypeError: observation or action of the ego is not a Box.
            RuntimeError: the requested device is not available.
        """
        _assert_partner_is_frozen(partner)
        spaces = cast("Any", env)
        obs_space = spaces.observation_space["agent"][ego_uid]["state"]
        act_space = spaces.action_space[ego_uid]
        for path, space in (
            (f"observation_space['agent'][{ego_uid!r}]['state']", obs_space),
            (f"action_space[{ego_uid!r}]", act_space),
        ):
            if not isinstance(space, Box):
                raise TypeError(f"env.{path} must be a Box, got {type(space).__name__}")
        device = _resolve_device(cfg.runtime.device)
        if device.type == "cpu" and cfg.runtime.deterministic_torch:
            _set_torch_determinism(True)
        return cls(
            cfg=cfg,
            ego_uid=ego_uid,
            ego_obs_space=_per_env_box(obs_space),
            ego_act_space=_per_env_box(act_space),
            partner=partner,
            device=device,
            logger=logger,
        )

    def act(self, obs: Mapping[str, Any], *, deterministic: bool = False) -> Float32Array:
        """Propose an action.

        Args:
            obs: what the robots see; the ego's state has shape ``(O,)``, or ``(N, O)`` for N environments.
            deterministic: give the mean and remember nothing: evaluation in the middle of a run leaves no trace.

        Returns:
            Shape ``(A,)``, or ``(N, A)`` where the state has rows.

        Raises:
            ValueError: the state has another shape.
        """
        state = _flat_ego_obs(obs, self._ego_uid)
        if deterministic:  # evaluations have as many environments as they like
            width = self._rollout.obs_dim
            if state.ndim > 2 or state.shape[-1:] != (width,):
                raise ValueError(
                    f"obs['agent'][{self._ego_uid!r}]['state'] must have rows of width {width}, got {state.shape}"
                )
            means = self._policy.acting.mean(state.reshape(-1, width))
            return means[0] if state.ndim == 1 else means
        rows = self._rows(state)
        self._noise.normal_(generator=self._noise_generator)
        actions = self._policy.acting.sample(rows, self._noise_rows)
        self._rollout.propose(rows, actions)
        action = actions[0] if state.ndim == 1 else actions
        self._last_action = action
        return action

    def observe(
        self,
        obs: Mapping[str, Any],
        reward: Any,
        done: Any,
        *,
        truncated: Any = False,
        final_obs: Mapping[str, Any] | None = None,
        executed_action: Any = None,
    ) -> None:
        """Remember what the last action led to; without one, nothing happens.

        Args:
            obs: what the robots see now.
            reward: a number, or shape ``(N,)``.
            done: whether the episode ended, either way; a bool, or shape ``(N,)``.
            truncated: whether a time limit ended it; what comes after is then worth the critic's value.
            final_obs: last observation of the episodes that ended, where ``obs`` already is the next episode's first.
            executed_action: what the environment got, shape of the action; only counted, see the class.

        Raises:
            ValueError: several environments, one of them truncated, and no ``final_obs``; or a wrong shape.
        """
        if not self._rollout.is_pending:
            return
        next_rows = self._rows(_flat_ego_obs(obs, self._ego_uid))
        executed = None
        if executed_action is not None and executed_action is not self._last_action:
            executed = executed_action
            if type(executed) is not np.ndarray or executed.shape != self._action_shape:
                executed = np.asarray(executed_action, dtype=np.float32).reshape(self._noise_rows.shape)
        if self._n_envs == 1:
            is_cut = bool(_item(truncated)) and bool(_item(done))
            final_rows = None
            if is_cut:
                final_rows = next_rows if final_obs is None else self._rows(_flat_ego_obs(final_obs, self._ego_uid))
            self._rollout.complete(
                next_rows,
                float(_item(reward)),
                terminated=bool(_item(done)) and not is_cut,
                truncated=is_cut,
                final_obs=final_rows,
                executed=executed,
            )
        else:
            ends = _to_bool_vec(done, self._n_envs)
            cut = _to_bool_vec(truncated, self._n_envs) & ends
            if cut.any() and final_obs is None:
                raise ValueError(
                    f"environments {np.flatnonzero(cut).tolist()} were truncated, so final_obs must hold their last "
                    "observation: obs is the next episode's first one"
                )
            self._rollout.complete(
                next_rows,
                _to_float_vec(reward, self._n_envs),
                terminated=ends & ~cut,
                truncated=cut,
                final_obs=None if final_obs is None else self._rows(_flat_ego_obs(final_obs, self._ego_uid)),
                executed=executed,
            )
        self._frames += self._n_envs

    def update(self) -> None:
        """Learn from the rollout and forget it; an empty one changes nothing.

        In this order: values of all observations, advantages, ``n_epochs`` passes over shuffled minibatches, each of
        which steps the policy and then the critic. With a logger one line of scalars is written.
        """
        if self._rollout.n_steps:
            with single_thread(self._device):
                self._learn()
            self._rollout.clear()

    def _learn(self) -> None:
        rollout, happo = self._rollout, self._cfg.happo
        shape = (rollout.n_steps, rollout.n_envs)
        n = rollout.n_steps * rollout.n_envs
        rows, bootstrapped = rollout.observations_to_value()
        rows = rows.to(self._device)
        all_values = self._critic.values(rows)
        on_host = all_values.cpu().numpy()
        values = on_host[:n].reshape(shape)
        bootstraps = np.zeros(shape, np.float32)
        bootstraps[bootstrapped] = on_host[n + rollout.n_envs :]
        ends = rollout.terminated[: rollout.n_steps] | rollout.truncated[: rollout.n_steps]
        advantages = compute_gae(
            rollout.rewards[: rollout.n_steps],
            values,
            next_step_values(values, on_host[n : n + rollout.n_envs], bootstraps, ends),
            ends,
            gamma=happo.gamma,
            gae_lambda=happo.gae_lambda,
        )
        returns = advantages + values
        features = self._policy.features(rows[:n])
        actions = rollout.flat_actions().to(self._device)
        seat = Seat(
            learner=self._policy,
            features=features,
            actions=actions,
            log_probs=self._policy.log_probs(features, actions),
            advantages=torch.from_numpy(normalize_advantages(advantages).reshape(-1)).to(self._device),
        )
        critic = Critic(
            learner=self._critic,
            obs=rows[:n],
            returns=torch.from_numpy(returns.reshape(-1)).to(self._device),
            values=all_values[:n],
        )
        learning_rate = self._learning_rate(n)
        self._policy.optimizer.lr = self._critic.optimizer.lr = learning_rate
        steps = update_epochs(
            [seat],
            critic,
            n_epochs=happo.n_epochs,
            batch_size=happo.batch_size,
            rng=self._minibatch_rng,
            target_kl=happo.target_kl,
        )
        if self._logger is not None:
            self._log(self._logger, steps, advantages, values, returns, learning_rate)

    def state_dict(self) -> dict[str, Any]:
        """Give copies of networks and optimisers: ``actor``, ``actor_optim``, ``critic``, ``critic_optim``."""
        return {
            "actor": _copies(self._policy.policy),
            "actor_optim": self._policy.optimizer.state_dict(),
            "critic": _copies(self._critic.network),
            "critic_optim": self._critic.optimizer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; other keys are ignored.

        Raises:
            InputError: a key is missing or a shape differs; nothing has changed then.
        """
        missing = [key for key in _STATE_KEYS if not isinstance(state.get(key), Mapping)]
        if missing:
            raise InputError(f"the saved state of a learner lacks {missing}; it has {sorted(state)}")
        self._critic.check_state(state["critic"], state["critic_optim"])
        self._policy.load_state(state["actor"], state["actor_optim"])
        self._critic.load_state(state["critic"], state["critic_optim"])

    def training_state(self) -> dict[str, Any]:
        """Give everything beyond `state_dict` that going on exactly needs: generators, frames and the rollout."""
        return {
            "format": _STATE_FORMAT,
            "frames": self._frames,
            "noise_generator": self._noise_generator.get_state(),
            "minibatch_generator": json.dumps(self._minibatch_rng.bit_generator.state, sort_keys=True),
            "rollout": self._rollout.state_dict(),
        }

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `training_state` gave.

        Raises:
            InputError: it lacks a key, has another format, or comes from other widths or another number of
                environments.
        """
        if state.get("format") != _STATE_FORMAT:
            raise InputError(f"the saved training state must have format {_STATE_FORMAT}, got {state.get('format')!r}")
        missing = [key for key in self.training_state() if key not in state]
        if missing:
            raise InputError(f"the saved training state lacks {missing}; it has {sorted(state)}")
        self._rollout.load_state_dict(state["rollout"])
        self._frames = int(state["frames"])
        self._noise_generator.set_state(state["noise_generator"])
        self._minibatch_rng.bit_generator.state = json.loads(state["minibatch_generator"])
        self._last_action = None

    @property
    def _pending(self) -> _PendingStep | None:
        """The action that waits for its outcome, with what the networks say about it."""
        if not self._rollout.is_pending:
            return None
        obs = self._rollout.obs[self._rollout.n_steps].copy()
        actions = self._rollout.actions[self._rollout.n_steps].copy()
        rows = torch.from_numpy(obs).to(self._device)
        with torch.no_grad():
            density = torch.distributions.Normal(*self._policy.policy(rows))
            log_probs = density.log_prob(torch.from_numpy(actions).to(self._device)).cpu().numpy()
            values = self._critic.values(rows).cpu().numpy()
        if self._n_envs == 1:
            return _PendingStep(obs[0], actions[0], log_probs[0], float(values[0]))
        return _PendingStep(obs, actions, log_probs, values)

    def _rows(self, state: Float32Array) -> Float32Array:
        """Give the state as ``(N, O)``; the number of environments decides, not the rank."""
        rows = state.reshape(1, -1) if self._n_envs == 1 else state
        if rows.shape != self._rollout.next_obs.shape:
            raise ValueError(
                f"obs['agent'][{self._ego_uid!r}]['state'] must have shape {self._rollout.next_obs.shape} for "
                f"{self._n_envs} environment(s), got {state.shape}"
            )
        return rows

    def _learning_rate(self, n_samples: int) -> float:
        """Give the rate of this update: constant, or falling to 0 over the frames of the run."""
        happo = self._cfg.happo
        if happo.lr_decay == "none":
            return happo.lr
        return happo.lr * max(0.0, 1.0 - (self._frames - n_samples) / self._cfg.total_frames)

    def _log(
        self,
        logger: RunLogger,
        steps: Steps,
        advantages: Float32Array,
        values: Float32Array,
        returns: Float32Array,
        learning_rate: float,
    ) -> None:
        spread = float(returns.var(dtype=np.float64))
        residual = float((returns - values).var(dtype=np.float64))
        log_scalars(
            logger,
            step=self._frames,
            namespace="train",
            value_loss=value_loss(steps.value, value_clip=self._cfg.happo.value_clip),
            advantage_mean=float(advantages.mean(dtype=np.float64)),
            advantage_std=float(advantages.std(dtype=np.float64)),
            value_mean=float(values.mean(dtype=np.float64)),
            value_std=float(values.std(dtype=np.float64)),
            explained_variance=1.0 - residual / spread if spread else float("nan"),
            learning_rate=learning_rate,
            **policy_metrics(steps.policy[0], clip_eps=self._cfg.happo.clip_eps),
            **self._rollout.override_metrics(),
        )


def _build_harl_args(*, happo: HAPPOHyperparams) -> dict[str, Any]:
    """Give the actor's settings under the names of the HARL package: `_HARL_FIXED_DEFAULTS` and the configured ones."""
    return {
        **_HARL_FIXED_DEFAULTS,
        "entropy_coef": happo.entropy_coef,
        "max_grad_norm": happo.max_grad_norm,
        "lr": happo.lr,
        "clip_param": happo.clip_eps,
        "ppo_epoch": happo.n_epochs,
        "actor_num_mini_batch": max(1, happo.rollout_length // happo.batch_size),
        "hidden_sizes": [happo.hidden_dim, happo.hidden_dim],
    }


def _set_torch_determinism(enabled: bool) -> None:
    """Have PyTorch prefer deterministic algorithms, in the whole process.

    This is what ``torch.use_deterministic_algorithms(enabled, warn_only=True)`` does for eager code; that function also
    imports PyTorch's compiler, which takes over a second.
    """
    torch.set_deterministic_debug_mode("warn" if enabled else "default")


def _assert_partner_is_frozen(partner: PartnerLike) -> None:
    """Check that nothing of the partner can be trained.

    A partner that refuses the lookup of ``named_parameters`` is frozen; errors of the call itself pass through.

    Raises:
        ValueError: a parameter requires a gradient.
    """
    try:
        named_parameters = cast("Any", partner).named_parameters
    except AttributeError:
        return
    for name, parameter in named_parameters():
        if parameter.requires_grad:
            raise ValueError(
                f"partner {type(partner).__name__} is not frozen: parameter {name!r} requires a gradient "
                "(ADR-009: the partner is a black box and is never trained)"
            )


def _resolve_device(requested: str) -> torch.device:
    """Give the device of a name; ``auto`` takes the best one.

    Raises:
        RuntimeError: the named one is not available.
    """
    if requested == "auto":
        return torch.device(torch_device())
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(requested, False):
        raise RuntimeError(f"runtime.device={requested} is not available here; use runtime.device=auto or cpu")
    return torch.device(requested)


def _per_env_box(space: Box) -> Box:
    """Give the box of one environment; a one-dimensional box is that already."""
    if len(space.shape) <= 1:
        return space
    return Box(low=space.low[0], high=space.high[0], shape=(space.shape[-1],), dtype=np.float32)


def _to_float_vec(value: Any, n: int) -> Float32Array:
    """Give n numbers as float32; arrays and tensors of that many entries.

    Raises:
        ValueError: there are not n.
    """
    return _on_host(value).astype(np.float32).reshape(n)


def _to_bool_vec(value: Any, n: int) -> BoolArray:
    """Give n flags; one flag stands for all."""
    flags = _on_host(value).astype(np.bool_)
    return np.full(n, flags.item()) if flags.ndim == 0 else flags.reshape(n)


def _on_host(value: Any) -> NDArray[Any]:
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def _item(value: Any) -> Any:
    """Give the only entry of an array or tensor, or the plain value itself."""
    return value.item() if hasattr(value, "item") else value


def _copies(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _draw31(name: str, root_seed: int) -> int:
    return int(derive_substream(name, root_seed=root_seed).default_rng().integers(0, _SEED_BOUND))

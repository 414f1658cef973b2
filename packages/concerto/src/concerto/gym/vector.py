"""The safety stack around a vector environment: one stack per sub-environment, infos as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from concerto.gym._closing import require_open
from concerto.gym._guard import EgoGuard, ForecastFunction, ego_box, partner_id_of, replace_ego_action
from concerto.gym._hooks import call_vector_hook, require_timestep
from concerto.gym.cost import CostFunction, contact_or_violation_cost
from concerto.safety.api import AgentControlModel, AgentSnapshot, Bounds

__all__ = ["SafetyVectorWrapper"]

AnyVectorEnv = VectorEnv[Any, Any, Any]


class SafetyVectorWrapper(VectorWrapper[Any, Any, Any, Any, Any]):
    """Filters the ego's action of every sub-environment before the vector environment sees it.

    `SafetyWrapper` for environments that are already vectorised. ``infos["safety"]`` and ``infos["cost"]`` hold one
    array per key with a mask ``_key`` beside it, as Gymnasium merges infos; a sub-environment that was reset instead
    of stepped has no entry. Hooks are methods of the sub-environments, reached through ``VectorEnv.call``, or
    callables given here that get the vector environment and return one result per sub-environment.
    ``control_timestep`` has no fallback here.

    A sub-environment that is reset within the step that ended its episode (`AutoresetMode.SAME_STEP`) hides its last
    state, so a contact in it could not be seen. For that mode wrap the sub-environments instead:
    ``SyncVectorEnv([lambda: SafetyWrapper(make_env())] * n, autoreset_mode="SameStep")`` gives the same infos, the
    last step's in ``infos["final_info"]``.

    Args:
        env: the vector environment, with autoreset mode "next step" or "disabled".
        ego_uid: the robot whose action is filtered.
        build_control_models: one mapping from uid to control model per sub-environment.
        build_bounds: one `Bounds` per sub-environment.
        build_agent_snapshots: one mapping from uid to snapshot per sub-environment; read exactly once after every
            ``reset`` and ``step``.
        control_timestep: length of a step, s.
        partner_ids: identity of the partner per sub-environment, where the observation has no ``meta.partner_id``;
            read after every ``reset`` and ``step``.
        predict_partners: forecast of the partners, from all snapshots of a sub-environment and the length of a step.
        cost: gives ``infos["cost"]``; None leaves it alone.
        **stack_options: further keyword arguments of `SafetyStack`.

    Raises:
        TypeError: the ego's action space is no Box of floats, ``stack_options`` has an unknown name, or the metadata do
            not tell the autoreset mode.
        ValueError: a hook is missing, what it says does not fit the action space, or the autoreset mode hides last
            states.
    """

    def __init__(
        self,
        env: AnyVectorEnv,
        *,
        ego_uid: str = "ego",
        build_control_models: Callable[[AnyVectorEnv], Sequence[Mapping[str, AgentControlModel]]] | None = None,
        build_bounds: Callable[[AnyVectorEnv], Sequence[Bounds]] | None = None,
        build_agent_snapshots: Callable[[AnyVectorEnv], Sequence[Mapping[str, AgentSnapshot]]] | None = None,
        control_timestep: float | None = None,
        partner_ids: Callable[[AnyVectorEnv], Sequence[str | None]] | None = None,
        predict_partners: ForecastFunction | None = None,
        cost: CostFunction | None = contact_or_violation_cost,
        **stack_options: Any,
    ) -> None:
        super().__init__(env)
        self._autoreset_mode = _require_autoreset_mode(env)
        self._ego_uid = ego_uid
        self._build_agent_snapshots = build_agent_snapshots
        self._read_partner_ids = partner_ids
        self._cost = cost
        box = ego_box(env.single_action_space, ego_uid)
        self._ego_shape = (env.num_envs, *box.shape)
        self._ego_dtype = box.dtype
        models = call_vector_hook(env, "build_control_models", build_control_models)
        bounds = call_vector_hook(env, "build_bounds", build_bounds)
        if control_timestep is None:
            timesteps = call_vector_hook(env, "control_timestep", None)
        else:
            timesteps = [control_timestep] * env.num_envs
        self._guards = [
            EgoGuard(
                box,
                ego_uid=ego_uid,
                control_models=models[index],
                bounds=bounds[index],
                dt=require_timestep(timesteps[index]),
                predict_partners=predict_partners,
                stack_options=stack_options,
            )
            for index in range(env.num_envs)
        ]
        self._partner_ids: list[str | None] = [None] * env.num_envs
        self._is_over = np.zeros(env.num_envs, dtype=np.bool_)
        self._is_closed = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all sub-environments, or those of ``options["reset_mask"]``, and their safety stacks.

        Args:
            seed: of sub-environment i: the i-th of a sequence, or ``seed + i``.
            options: handed to the vector environment.

        Raises:
            ClosedEnvironmentError: it was closed.
        """
        require_open(self, "reset", is_closed=self._is_closed)
        # The vector environment takes the mask out of the options.
        mask = None if options is None else options.get("reset_mask")
        # Vector environments take one seed per sub-environment; the annotation of their base class leaves that out.
        observations, infos = self.env.reset(seed=seed, options=options)  # pyright: ignore[reportArgumentType]
        is_reset = np.ones(self.num_envs, dtype=np.bool_) if mask is None else np.asarray(mask)
        seeds = _seed_per_env(seed, self.num_envs)
        snapshots = self._snapshots()
        for index in np.flatnonzero(is_reset):
            self._guards[index].reset(snapshots[index], seed=seeds[index])
        self._is_over &= ~is_reset
        self._observe(observations)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Filter the ego's actions, step the sub-environments, and judge where that led.

        Raises:
            ResetNeeded: there was no reset yet.
            ClosedEnvironmentError: it was closed.
            ValueError: the ego's actions are missing, have the wrong shape or are not finite; nothing has changed
                then.
        """
        require_open(self, "step", is_closed=self._is_closed)
        nominal = self._ego_actions(actions)
        is_resetting = self._is_over & (self._autoreset_mode is AutoresetMode.NEXT_STEP)
        stepped = np.flatnonzero(~is_resetting)
        _require_finite(nominal, stepped, self._ego_uid)
        applied = nominal.astype(self._ego_dtype)
        for index in stepped:
            applied[index] = self._guards[index].filter(nominal[index], partner_id=self._partner_ids[index])
        observations, rewards, terminations, truncations, infos = self.env.step(
            replace_ego_action(self.env.single_action_space, actions, self._ego_uid, applied)
        )
        snapshots = self._snapshots()
        if self._cost is not None and "cost" in infos:
            infos["environment_cost"] = infos.pop("cost")
            infos["_environment_cost"] = infos.pop("_cost", np.ones(self.num_envs, dtype=np.bool_))
        for index in range(self.num_envs):
            if is_resetting[index]:
                self._guards[index].reset(snapshots[index], seed=None)
            else:
                infos = self._add_info(infos, self._safety_info(index, snapshots[index]), index)
        self._is_over = np.logical_or(terminations, truncations)
        self._observe(observations)
        return observations, rewards, terminations, truncations, infos

    def close(self, **kwargs: Any) -> None:
        """Close all sub-environments for good; calling it twice does no harm.

        Args:
            **kwargs: handed to the vector environment.
        """
        self._is_closed = True
        super().close(**kwargs)

    def _ego_actions(self, actions: Any) -> NDArray[np.float64]:
        ego_actions = actions
        if isinstance(self.env.single_action_space, gym.spaces.Dict):
            if not isinstance(actions, Mapping) or self._ego_uid not in actions:
                raise ValueError(f"the actions must be a mapping with a value for {self._ego_uid!r}, got {actions!r}")
            ego_actions = actions[self._ego_uid]
        result = np.asarray(ego_actions, dtype=np.float64)
        if result.shape != self._ego_shape:
            raise ValueError(f"the actions of {self._ego_uid!r} must have shape {self._ego_shape}, got {result.shape}")
        return result

    def _snapshots(self) -> list[Mapping[str, AgentSnapshot]]:
        return call_vector_hook(self.env, "build_agent_snapshots", self._build_agent_snapshots)

    def _safety_info(self, index: int, snapshots: Mapping[str, AgentSnapshot]) -> dict[str, Any]:
        outcome = self._guards[index].judge(snapshots)
        info: dict[str, Any] = {"safety": outcome.to_info(self._ego_uid)}
        if self._cost is not None:
            info["cost"] = float(self._cost(outcome))
        return info

    def _observe(self, observations: Any) -> None:
        ids: Any = partner_id_of(observations)
        if self._read_partner_ids is not None:
            ids = call_vector_hook(self.env, "partner_ids", self._read_partner_ids)
        if ids is not None:
            self._partner_ids = [None if partner_id is None else str(partner_id) for partner_id in ids]


def _require_autoreset_mode(env: AnyVectorEnv) -> AutoresetMode:
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise TypeError(f"metadata['autoreset_mode'] of {env} must be an AutoresetMode, got {mode!r}")
    if mode is AutoresetMode.SAME_STEP:
        raise ValueError(
            f"{env} resets a sub-environment in the step that ends its episode, so its last state cannot be judged: "
            "wrap the sub-environments with SafetyWrapper, or use autoreset mode NEXT_STEP or DISABLED"
        )
    return mode


def _require_finite(nominal: NDArray[Any], stepped: NDArray[np.intp], ego_uid: str) -> None:
    for index in stepped:
        if not np.isfinite(nominal[index]).all():
            raise ValueError(f"the action of {ego_uid!r} in sub-environment {index} is not finite: {nominal[index]}")


def _seed_per_env(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int):
        return [seed + index for index in range(num_envs)]
    return list(seed)

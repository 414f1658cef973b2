r"""The slack lambda of every pair, adapted online to how wrong the forecast of the partners was.

Every control step ends with ``lambda <- lambda + eta (epsilon - loss)``. Two losses are on offer:

- `compute_prediction_gap_for_pairs` is the documented default: ``max(0, h(forecast) - h(now))``. It does not depend
  on lambda and is never negative, so with a negative epsilon lambda falls until it is clamped. It measures the
  optimism of the forecast; **it carries no guarantee about the average loss**.
- `compute_signed_loss` follows Huriot & Sibai 2025 (arXiv 2409.18862): the bounded, signed difference between the
  constraint value that was enforced, lambda included, and the one under the true motion. It rises with lambda, so
  the update has an equilibrium, and for every K (conformal decision theory, Lekeufack et al. 2023, arXiv 2310.05921)

      mean loss over K steps = epsilon + (lambda_1 - lambda_{K+1}) / (eta K)

  as long as lambda is not clamped. If the forecast error is bounded, lambda is bounded below, and the mean loss is at
  most epsilon + O(1/K): a bound on the average, not on one step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from concerto.safety._assembly import pack_states
from concerto.safety._barrier import barrier_values
from concerto.safety.api import (
    DEFAULT_WARMUP_STEPS,
    AgentSnapshot,
    FloatArray,
    LambdaDict,
    SafetyState,
    canonical_pair_order,
    make_lambda_dict,
    make_pair_keys,
)

__all__ = [
    "compute_per_pair_loss",
    "compute_prediction_gap_for_pairs",
    "compute_signed_loss",
    "constant_acceleration_predict",
    "constant_velocity_predict",
    "reset_on_partner_swap",
    "update_lambda",
    "update_lambda_from_forecast",
    "update_lambda_from_predictor",
]


def update_lambda(
    state: SafetyState,
    loss_k: Mapping[tuple[str, str], float],
    *,
    in_warmup: bool = False,
    lambda_bound: float | None = None,
    tighten_in_warmup: bool = False,
) -> None:
    """Take one step of the slack of every pair: ``lambda <- lambda + eta (epsilon - loss)``.

    Args:
        state: the slack and its settings; changed in place.
        loss_k: loss of every pair at this step; a forecast loss, never the violation ``max(0, -h)``.
        in_warmup: use the warm-up target ``1.5 epsilon`` and count one warm-up step down.
        lambda_bound: clamp every slack to ``[-lambda_bound, lambda_bound]``, m/s^2, > 0.
        tighten_in_warmup: use the warm-up target ``epsilon - 0.5 |epsilon|``, which is the same for a negative
            epsilon and stricter, as warm-up is meant to be, for a positive one.

    Raises:
        ValueError: the pairs differ from those of the state, a loss is not finite, or the bound is out of range.
    """
    if loss_k.keys() != state.lambda_.keys():
        raise ValueError(f"loss must have exactly the pairs {sorted(state.lambda_)}, got {sorted(loss_k)}")
    if lambda_bound is not None and not lambda_bound > 0.0:
        raise ValueError(f"lambda_bound must be > 0, got {lambda_bound}")
    for key, loss in loss_k.items():
        if not math.isfinite(loss):
            raise ValueError(f"loss of {key} must be finite, got {loss}")
    target = state.epsilon
    if in_warmup:
        target = state.epsilon - 0.5 * abs(state.epsilon) if tighten_in_warmup else 1.5 * state.epsilon
        state.warmup_steps_remaining = max(0, state.warmup_steps_remaining - 1)
    for key, loss in loss_k.items():
        value = state.lambda_[key] + state.eta * (target - loss)
        state.lambda_[key] = value if lambda_bound is None else min(max(value, -lambda_bound), lambda_bound)


def constant_velocity_predict(snap: AgentSnapshot, dt: float) -> AgentSnapshot:
    """Forecast a robot ``dt`` seconds ahead at constant velocity: ``p + v dt``."""
    velocity = np.array(snap.velocity, dtype=np.float64)
    return AgentSnapshot(snap.position + velocity * dt, velocity, snap.radius, snap.qpos)


def constant_acceleration_predict(snap: AgentSnapshot, acceleration: FloatArray, dt: float) -> AgentSnapshot:
    """Forecast a robot under the acceleration that is applied to it: ``p + v dt + a dt^2/2`` and ``v + a dt``.

    Args:
        snap: the robot now.
        acceleration: m/s^2, shape ``(d,)``.
        dt: horizon, s.
    """
    velocity = snap.velocity + acceleration * dt
    return AgentSnapshot(snap.position + 0.5 * dt * (snap.velocity + velocity), velocity, snap.radius, snap.qpos)


def compute_per_pair_loss(predicted_h: FloatArray, actual_h: FloatArray) -> FloatArray:
    """Give ``max(0, predicted - actual)`` of every element, m/s.

    Raises:
        ValueError: the shapes differ.
    """
    predicted = np.asarray(predicted_h, dtype=np.float64)
    actual = np.asarray(actual_h, dtype=np.float64)
    if predicted.shape != actual.shape:
        raise ValueError(f"predicted_h and actual_h must have one shape, got {predicted.shape} and {actual.shape}")
    return np.maximum(0.0, predicted - actual)


def compute_prediction_gap_for_pairs(
    snaps_now: Mapping[str, AgentSnapshot],
    snaps_predicted: Mapping[str, AgentSnapshot],
    *,
    alpha_pair: float | Mapping[tuple[str, str], float],
    gamma: float,
    ego_uid: str | None = None,
) -> LambdaDict:
    """Give how much safer than now the forecast said every pair would be: ``max(0, h(forecast) - h(now))``, m/s.

    Args:
        snaps_now: every robot now.
        snaps_predicted: the forecast of every robot for now.
        alpha_pair: braking of a pair, m/s^2: one number for all, or one per pair.
        gamma: rate of the barrier, 1/s; kept for callers, the gap does not depend on it.
        ego_uid: only the pairs of this robot.

    Raises:
        ValueError: the robots differ, a number is out of range, or ``ego_uid`` is not among the robots.
    """
    _require_rate(gamma)
    keys = _keys_of(snaps_now, snaps_predicted, "snaps_predicted", ego_uid)
    alphas = _alphas_of(keys, alpha_pair)
    losses = compute_per_pair_loss(_h_values(snaps_predicted, keys, alphas), _h_values(snaps_now, keys, alphas))
    return dict(zip(keys, losses.tolist(), strict=True))


def compute_signed_loss(
    lambda_: Mapping[tuple[str, str], float],
    snaps_now: Mapping[str, AgentSnapshot],
    snaps_predicted: Mapping[str, AgentSnapshot],
    *,
    alpha_pair: float | Mapping[tuple[str, str], float],
    dt: float,
    scale: float = 1.0,
    overlap_depth: bool = False,
) -> LambdaDict:
    r"""Give the signed, bounded loss of every pair that has a slack: ``arctan(r / scale) / pi`` in (-1/2, 1/2).

    Over the step that ends now the filter enforced ``(h(forecast) - h(before))/dt + gamma h(before) + lambda >= 0``;
    under the true motion the left side without lambda was ``(h(now) - h(before))/dt + gamma h(before)``. Their
    difference is ``r = lambda + (h(forecast) - h(now))/dt``, m/s^2: positive when lambda and an optimistic forecast
    together asked for too little, negative when they asked for more than was needed.

    Args:
        lambda_: slack of every pair that was enforced, m/s^2.
        snaps_now: every robot now.
        snaps_predicted: the forecast of every robot for now. Forecast the ego under the action that was applied
            (`constant_acceleration_predict`), or give its true state: its own action is no forecast error.
        alpha_pair: braking of a pair, m/s^2: one number for all, or one per pair.
        dt: length of the step, s, > 0.
        scale: value of r at which the loss is 1/4, m/s^2, > 0.
        overlap_depth: let h count how deep an overlap is, see `concerto.safety.cbf_qp.pair_h_value`.

    Raises:
        ValueError: a robot of a pair is missing, or a number is out of range.
    """
    for name, value in (("dt", dt), ("scale", scale)):
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"{name} must be finite and > 0, got {value}")
    keys = list(lambda_)
    for uid in sorted({uid for key in keys for uid in key}):
        if uid not in snaps_now or uid not in snaps_predicted:
            raise ValueError(f"{uid!r} has a slack and must be in snaps_now and snaps_predicted")
    alphas = _alphas_of(keys, alpha_pair)
    forecast, actual = (_h_values(snaps, keys, alphas, overlap_depth) for snaps in (snaps_predicted, snaps_now))
    optimism = forecast - actual
    slacks = np.array(list(lambda_.values()), dtype=np.float64)
    losses = np.arctan((slacks + optimism / dt) / scale) / math.pi
    return dict(zip(keys, losses.tolist(), strict=True))


def update_lambda_from_predictor(
    state: SafetyState,
    snaps_now: Mapping[str, AgentSnapshot],
    snaps_prev: Mapping[str, AgentSnapshot],
    *,
    alpha_pair: float | Mapping[tuple[str, str], float],
    gamma: float,
    dt: float,
    in_warmup: bool = False,
    lambda_bound: float | None = None,
    ego_uid: str | None = None,
    ego_acceleration: FloatArray | None = None,
    tighten_in_warmup: bool = False,
) -> LambdaDict:
    """Forecast every robot at constant velocity, take the prediction gap, and update the slack with it.

    Args:
        state: the slack and its settings; changed in place.
        snaps_now: every robot now.
        snaps_prev: every robot one step ago.
        alpha_pair: braking of a pair, m/s^2: one number for all, or one per pair.
        gamma: rate of the barrier, 1/s.
        dt: length of the step, s, > 0.
        in_warmup: see `update_lambda`.
        lambda_bound: see `update_lambda`.
        ego_uid: only the pairs of this robot.
        ego_acceleration: forecast the ego under this acceleration, m/s^2, in place of constant velocity; needs
            ``ego_uid``.
        tighten_in_warmup: see `update_lambda`.

    Returns:
        The loss of every pair.

    Raises:
        ValueError: the robots differ, or a number is out of range.
    """
    if not (math.isfinite(dt) and dt > 0.0):
        raise ValueError(f"dt must be finite and > 0, got {dt}")
    if ego_acceleration is not None and ego_uid is None:
        raise ValueError("ego_acceleration needs ego_uid")
    _keys_of(snaps_now, snaps_prev, "snaps_prev", ego_uid)
    predicted = {uid: constant_velocity_predict(snap, dt) for uid, snap in snaps_prev.items()}
    if ego_uid is not None and ego_acceleration is not None:
        predicted[ego_uid] = constant_acceleration_predict(snaps_prev[ego_uid], ego_acceleration, dt)
    loss = compute_prediction_gap_for_pairs(snaps_now, predicted, alpha_pair=alpha_pair, gamma=gamma, ego_uid=ego_uid)
    update_lambda(state, loss, in_warmup=in_warmup, lambda_bound=lambda_bound, tighten_in_warmup=tighten_in_warmup)
    return loss


def update_lambda_from_forecast(
    state: SafetyState,
    snaps_now: Mapping[str, AgentSnapshot],
    snaps_predicted: Mapping[str, AgentSnapshot],
    *,
    alpha_pair: float | Mapping[tuple[str, str], float],
    dt: float,
    scale: float = 1.0,
    overlap_depth: bool = False,
    lambda_bound: float | None = None,
) -> LambdaDict:
    """Take the signed loss of the forecast that was used, and update the slack with it.

    Warm-up is on while the counter of the state runs, and is always the stricter target.

    Args:
        state: the slack that was enforced and its settings; changed in place.
        snaps_now: every robot now.
        snaps_predicted: the forecast of every robot for now; see `compute_signed_loss`.
        alpha_pair: braking of a pair, m/s^2: one number for all, or one per pair.
        dt: length of the step, s, > 0.
        scale: see `compute_signed_loss`.
        overlap_depth: see `compute_signed_loss`.
        lambda_bound: see `update_lambda`; a clamp gives the average guarantee up.

    Returns:
        The loss of every pair.
    """
    loss = compute_signed_loss(
        state.lambda_,
        snaps_now,
        snaps_predicted,
        alpha_pair=alpha_pair,
        dt=dt,
        scale=scale,
        overlap_depth=overlap_depth,
    )
    update_lambda(
        state,
        loss,
        in_warmup=state.warmup_steps_remaining > 0,
        lambda_bound=lambda_bound,
        tighten_in_warmup=True,
    )
    return loss


def reset_on_partner_swap(
    state: SafetyState,
    *,
    uids: Iterable[str],
    lambda_safe: float = 0.0,
    n_warmup_steps: int = DEFAULT_WARMUP_STEPS,
    ego_uid: str | None = None,
) -> None:
    """Forget what was learnt about the old partner: every slack to ``lambda_safe``, and a warm-up.

    Args:
        state: the slack and its settings; changed in place.
        uids: all robots from now on.
        lambda_safe: first slack, m/s^2.
        n_warmup_steps: control steps with the warm-up target, >= 0.
        ego_uid: only the pairs of this robot; what an ego-only filter expects.

    Raises:
        ValueError: a number is out of range, or ``ego_uid`` is not among the robots.
    """
    if not math.isfinite(lambda_safe):
        raise ValueError(f"lambda_safe must be finite, got {lambda_safe}")
    if n_warmup_steps < 0:
        raise ValueError(f"n_warmup_steps must be >= 0, got {n_warmup_steps}")
    state.lambda_ = make_lambda_dict(uids, fill=lambda_safe, ego_uid=ego_uid)
    state.warmup_steps_remaining = n_warmup_steps


def _require_rate(gamma: float) -> None:
    if not (math.isfinite(gamma) and gamma > 0.0):
        raise ValueError(f"gamma must be finite and > 0, got {gamma}")


def _keys_of(
    snaps_now: Mapping[str, AgentSnapshot],
    snaps_other: Mapping[str, AgentSnapshot],
    name: str,
    ego_uid: str | None,
) -> list[tuple[str, str]]:
    if snaps_now.keys() != snaps_other.keys():
        raise ValueError(f"{name} must have exactly the robots {sorted(snaps_now)}, got {sorted(snaps_other)}")
    if ego_uid is not None and ego_uid not in snaps_now:
        raise ValueError(f"ego_uid must be one of {sorted(snaps_now)}, got {ego_uid!r}")
    return [key for key in make_pair_keys(snaps_now) if ego_uid is None or ego_uid in key]


def _alphas_of(keys: list[tuple[str, str]], alpha_pair: float | Mapping[tuple[str, str], float]) -> FloatArray:
    if isinstance(alpha_pair, Mapping):
        missing = [key for key in keys if key not in alpha_pair]
        if missing:
            raise ValueError(f"alpha_pair has no value for the pairs {missing}")
        alphas = np.array([alpha_pair[key] for key in keys], dtype=np.float64)
    else:
        alphas = np.full(len(keys), float(alpha_pair))
    for key, alpha in zip(keys, alphas.tolist(), strict=True):
        if not (math.isfinite(alpha) and alpha > 0.0):
            raise ValueError(f"alpha_pair of {key} must be finite and > 0, got {alpha}")
    return alphas


def _h_values(
    snaps: Mapping[str, AgentSnapshot], keys: list[tuple[str, str]], alphas: FloatArray, overlap_depth: bool = False
) -> FloatArray:
    if not keys:
        return np.empty(0)
    uids = canonical_pair_order({uid for key in keys for uid in key})
    index = {uid: k for k, uid in enumerate(uids)}
    packed, radii = pack_states(uids, [snaps[uid] for uid in uids], [])
    pairs = np.array([(index[a], index[b]) for a, b in keys], dtype=np.int64)
    return barrier_values(packed, radii, pairs, alphas, overlap_depth)

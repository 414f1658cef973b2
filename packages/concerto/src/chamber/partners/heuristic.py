"""A scripted partner that walks to a fixed point of the plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber._observations import as_array, leaf
from chamber.partners._parameters import finite_floats, positive_integer
from chamber.partners.api import PartnerSpec
from chamber.partners.interface import PartnerBase
from chamber.partners.registry import register_partner

__all__ = ["ScriptedHeuristicPartner"]


@register_partner("scripted_heuristic")
class ScriptedHeuristicPartner(PartnerBase):
    """Moves by ``clip(target - position, -1, 1)`` in its first two action components; the rest are zero.

    Its position is, in this order: the rows of a batched ``state``; ``obs["comm"]["pose"][uid]["xyz"]``; the first two
    entries of its own ``state``; else the origin, which ``n_missing_positions`` counts.

    Args:
        spec: ``extra`` may hold ``uid`` (default empty), ``target_xy`` (``"0.0,0.0"``) and ``action_dim`` (``"2"``).

    Raises:
        ValueError: ``target_xy`` is not two finite floats, or ``action_dim`` is no integer of at least 2.
    """

    defaults: ClassVar[Mapping[str, str]] = {"uid": "", "target_xy": "0.0,0.0", "action_dim": "2"}

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        given = {**self.defaults, **spec.extra}
        self._uid = given["uid"]
        self._target = finite_floats("target_xy", given["target_xy"], count=2)
        self._action_dim = positive_integer("action_dim", given["action_dim"], minimum=2)
        self.n_missing_positions = 0

    def reset(self, *, seed: int | None = None) -> None:
        """Start counting missing positions anew."""
        self.n_missing_positions = 0

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float32]:
        """Give the action, shape ``(action_dim,)``, or ``(n_envs, action_dim)`` for a batch of observations."""
        positions = self._positions(obs)
        action = np.zeros((*positions.shape[:-1], self._action_dim), dtype=np.float32)
        action[..., :2] = np.clip(self._target - positions, -1.0, 1.0)
        return action

    def _positions(self, obs: Mapping[str, object]) -> NDArray[np.float64]:
        state = as_array(leaf(obs, "agent", self._uid, "state"))
        if state is not None and state.ndim == 2 and state.shape[0] > 1 and state.shape[1] >= 2:
            return state[:, :2]
        reported = as_array(leaf(obs, "comm", "pose", self._uid, "xyz"))
        for source in (reported, state):
            if source is not None and source.size >= 2 and (source.ndim == 1 or source.shape[:-1] == (1,)):
                return source.ravel()[:2]
        self.n_missing_positions += 1
        return np.zeros(2)

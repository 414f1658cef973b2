"""Everything that one episode did, and its exact text form for the event log."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.cell.config import Condition
from ripieno.errors import InputError

__all__ = ["WALL_STOP", "EpisodeTrace"]

FloatArray = NDArray[np.float64]

WALL_STOP = "wall_stop"
"""Source of a command: the ego stopped, because a wall would have cut short the motion that the stack answered."""

_WIDTHS = {
    "landmarks_m": 2,
    "ego_positions_m": 2,
    "partner_positions_m": 2,
    "nominal_commands_m_s": 2,
    "applied_commands_m_s": 2,
    "partner_commands_m_s": 2,
    "rewards": 1,
    "slack_m_s2": 1,
    "prediction_loss": 1,
    "stopping_margin_m": 1,
}
"""Numbers per row of every array of a trace."""
_MAY_BE_INFINITE_OR_NAN = {"prediction_loss", "stopping_margin_m"}


@dataclass(frozen=True, eq=False)
class EpisodeTrace:
    """One episode of ``n_steps`` steps.

    Attributes:
        partner: label of the partner in the cell.
        partner_id: identity of the partner, as the stack sees it.
        condition: with or without the stack.
        root_seed: seed of the run.
        episode_idx: number of the episode within its partner and condition.
        initial_state_seed: number of the start state, equal in both conditions and for all partners.
        landmarks_m: shape ``(2, 2)``.
        ego_positions_m: at the samples, shape ``(n_steps + 1, 2)``.
        partner_positions_m: likewise.
        nominal_commands_m_s: what the ego's policy asked for, shape ``(n_steps, 2)``.
        applied_commands_m_s: what the ego did, shape ``(n_steps, 2)``.
        partner_commands_m_s: what the partner did, shape ``(n_steps, 2)``.
        rewards: shape ``(n_steps,)``, metres.
        sources: where each applied command came from; empty without the stack, like the three arrays below.
        slack_m_s2: the stack's adaptive slack lambda, shape ``(n_steps,)``.
        prediction_loss: loss that the slack was adapted by, shape ``(n_steps,)``; NaN where there was none.
        stopping_margin_m: clearance of the stopping plan of the applied command, shape ``(n_steps,)``.
    """

    partner: str
    partner_id: str
    condition: Condition
    root_seed: int
    episode_idx: int
    initial_state_seed: int
    landmarks_m: FloatArray
    ego_positions_m: FloatArray
    partner_positions_m: FloatArray
    nominal_commands_m_s: FloatArray
    applied_commands_m_s: FloatArray
    partner_commands_m_s: FloatArray
    rewards: FloatArray
    sources: tuple[str, ...]
    slack_m_s2: FloatArray
    prediction_loss: FloatArray
    stopping_margin_m: FloatArray

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return len(self.rewards)

    def to_event(self) -> dict[str, Any]:
        """Give the trace as fields of an event; each array is text, numbers in their shortest exact form."""
        arrays = {name: " ".join(map(repr, getattr(self, name).ravel().tolist())) for name in _WIDTHS}
        return {
            "partner": self.partner,
            "partner_id": self.partner_id,
            "condition": self.condition.value,
            "root_seed": self.root_seed,
            "episode_idx": self.episode_idx,
            "initial_state_seed": self.initial_state_seed,
            "sources": " ".join(self.sources),
            **arrays,
        }

    @classmethod
    def from_event(cls, fields: Mapping[str, Any]) -> EpisodeTrace:
        """Rebuild a trace from the fields of its event, to the last bit.

        Raises:
            InputError: a field is missing or malformed.
        """
        try:
            arrays = {name: _numbers(name, fields[name], width) for name, width in _WIDTHS.items()}
            trace = cls(
                partner=fields["partner"],
                partner_id=fields["partner_id"],
                condition=Condition(fields["condition"]),
                root_seed=operator.index(fields["root_seed"]),
                episode_idx=operator.index(fields["episode_idx"]),
                initial_state_seed=operator.index(fields["initial_state_seed"]),
                sources=tuple(fields["sources"].split()),
                **arrays,
            )
            trace._require_lengths()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not an episode event: {error!r}") from error
        return trace

    def _require_lengths(self) -> None:
        n_answers = self.n_steps if self.condition is Condition.WITH_STACK else 0
        expected = dict.fromkeys(_WIDTHS, self.n_steps)
        expected |= {"landmarks_m": 2, "ego_positions_m": self.n_steps + 1, "partner_positions_m": self.n_steps + 1}
        expected |= dict.fromkeys(("sources", "slack_m_s2", "prediction_loss", "stopping_margin_m"), n_answers)
        if self.n_steps == 0:
            raise ValueError("an episode has at least one step")
        for name, length in expected.items():
            if len(getattr(self, name)) != length:
                raise ValueError(f"{name} must have {length} rows, got {len(getattr(self, name))}")


def _numbers(name: str, text: str, width: int) -> FloatArray:
    values = np.array([float(number) for number in text.split()])
    if name not in _MAY_BE_INFINITE_OR_NAN and not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite")
    return values if width == 1 else values.reshape(-1, width)

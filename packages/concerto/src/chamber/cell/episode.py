"""One episode of a cell: the ego, a partner, and possibly the safety stack between policy and environment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chamber.cell.config import Cell, Condition, PartnerEntry
from chamber.cell.ego import make_ego
from chamber.cell.planar_stack import planar_stack
from chamber.cell.trace import WALL_STOP, EpisodeTrace
from chamber.envs import MPECooperativePushEnv, PartnerIdAnnotationWrapper
from chamber.partners import PartnerSpec, load_partner
from ripieno.errors import InputError

if TYPE_CHECKING:
    from concerto.safety.stack import SafetyStack, StackStep

__all__ = ["CellRunner", "start_states"]

FloatArray = NDArray[np.float64]

EGO, PARTNER = "ego", "partner"
_MOST_TRIES_PER_START = 1000


def start_states(cell: Cell) -> tuple[int, ...]:
    """Give the numbers of the start states that every partner and condition of the cell uses.

    They are the first ``cell.episodes`` states, by number, in which the robots start far enough apart.

    Raises:
        InputError: there are not enough of them among the first thousand per episode.
    """
    env = _environment(cell)

    def far_apart() -> Iterator[int]:
        for seed in range(_MOST_TRIES_PER_START * cell.episodes):
            env.reset(seed=seed)
            if np.linalg.norm(env.position(EGO) - env.position(PARTNER)) >= cell.task.start_separation_m:
                yield seed

    seeds = tuple(islice(far_apart(), cell.episodes))
    if len(seeds) < cell.episodes:
        raise InputError(f"start_separation_m {cell.task.start_separation_m} leaves only {len(seeds)} start states")
    return seeds


class CellRunner:
    """Runs single episodes of one partner; every episode begins without memory of the last.

    Args:
        cell: what is run.
        entry: the partner.
        checkpoint: file of the ego's policy, when it is a trained one.

    Raises:
        InputError: the partner does not give velocity commands for this task, or the checkpoint is not the cell's.
    """

    def __init__(self, cell: Cell, entry: PartnerEntry, *, checkpoint: Path | None = None) -> None:
        self._cell = cell
        self._entry = entry
        self._partner = load_partner(PartnerSpec(entry.class_name, 0, None, None, entry.extra))
        self._partner_id = self._partner.spec.partner_id
        self._base = _environment(cell)
        self._policy = make_ego(cell, self._base, uid=EGO, checkpoint=checkpoint)
        self._env = PartnerIdAnnotationWrapper(self._base, partner_id=self._partner_id)
        self._stack = _stack(cell, self._base) if Condition.WITH_STACK in cell.conditions else None
        self._require_commands()

    def run(self, condition: Condition, *, episode_idx: int, initial_state_seed: int) -> EpisodeTrace:
        """Run one episode to its end."""
        stack = self._stack if condition is Condition.WITH_STACK else None
        obs, _ = self._env.reset(seed=initial_state_seed)
        self._policy.reset()
        self._partner.reset(seed=initial_state_seed)
        if stack is not None:
            stack.reset(seed=initial_state_seed)
        positions = [self._positions()]
        nominal: list[FloatArray] = []
        applied: list[FloatArray] = []
        partner: list[FloatArray] = []
        rewards: list[float] = []
        answers: list[StackStep] = []
        sources: list[str] = []
        truncated = False
        while not truncated:
            command = wanted = self._policy.act(obs)
            partner_command = self._partner.act(obs)
            if stack is not None:
                snapshots = self._base.build_agent_snapshots()
                answer = stack.step(wanted, snapshots, partner_id=obs["meta"]["partner_id"])
                command = self._base.executable_action(EGO, answer.action)
                answers.append(answer)
                sources.append(answer.source.value if command is answer.action else WALL_STOP)
            obs, reward, _, truncated, _ = self._env.step({EGO: command, PARTNER: partner_command})
            positions.append(self._positions())
            nominal.append(wanted)
            applied.append(command)
            partner.append(partner_command.astype(np.float64))
            rewards.append(float(reward))
        path = np.stack(positions)
        return EpisodeTrace(
            partner=self._entry.label,
            partner_id=self._partner_id,
            condition=condition,
            root_seed=self._cell.root_seed,
            episode_idx=episode_idx,
            initial_state_seed=initial_state_seed,
            landmarks_m=self._base.landmarks,
            ego_positions_m=path[:, 0],
            partner_positions_m=path[:, 1],
            nominal_commands_m_s=np.stack(nominal),
            applied_commands_m_s=np.stack(applied),
            partner_commands_m_s=np.stack(partner),
            rewards=np.array(rewards),
            sources=tuple(sources),
            slack_m_s2=np.array([_only_value(answer.lambda_) for answer in answers]),
            prediction_loss=np.array([_only_value(answer.prediction_loss) for answer in answers]),
            stopping_margin_m=np.array([answer.stopping_margin_m for answer in answers]),
        )

    def _require_commands(self) -> None:
        """Ask the partner once, before anything is recorded: not every registered partner is made for this task."""
        obs, _ = self._env.reset(seed=0)
        self._partner.reset(seed=0)
        try:
            self._env.step({EGO: np.zeros(2), PARTNER: self._partner.act(obs)})
        except ValueError as error:
            raise InputError(f"partner {self._entry.label!r} cannot play this task: {error}") from error

    def _positions(self) -> FloatArray:
        return np.stack([self._base.position(EGO), self._base.position(PARTNER)])


def _only_value(values: dict[tuple[str, str], float] | None) -> float:
    """The value of the one pair there is; NaN when the stack gave none."""
    if values is None:
        return float("nan")
    (value,) = values.values()
    return value


def _environment(cell: Cell) -> MPECooperativePushEnv:
    return MPECooperativePushEnv(
        agent_uids=(EGO, PARTNER),
        episode_length=cell.task.episode_length,
        root_seed=cell.root_seed,
        robot_radius=cell.task.robot_radius_m,
    )


def _stack(cell: Cell, env: MPECooperativePushEnv) -> SafetyStack:
    from concerto.safety.stopping import PartnerMotionBound

    return planar_stack(
        env,
        partner_motion=PartnerMotionBound(max_acceleration=float("inf"), max_speed=cell.safety.partner_max_speed_m_s),
        cbf_gamma=cell.safety.cbf_gamma_per_s,
    )

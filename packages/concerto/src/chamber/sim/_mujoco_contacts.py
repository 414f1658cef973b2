"""Who may touch whom in a MuJoCo model: contact groups as bit masks and explicit pairs, and how a rule is switched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chamber.errors import ChamberEnvCompatibilityError
from chamber.sim._mujoco_bindings import MjModel
from chamber.sim.scene import ContactRule, SceneSpec, arm_group, finger_group

__all__ = ["NO_GROUP", "ContactSwitch", "GroupMasks", "is_plain"]

NO_GROUP = -1
"""Group index of a geom that never touches anything."""

_MOST_GROUPS = 31
_OUT_OF_REACH = 1e9


def is_plain(rule: ContactRule) -> bool:
    """Say whether contacts of a rule take all parameters from the geoms."""
    return rule.friction is None and rule.time_constant is None and rule.impedance is None


@dataclass(frozen=True, slots=True)
class GroupMasks:
    """The contact groups of a scene as bits.

    A group of a plain rule has one bit as its ``contype``, and the bits of the groups it may touch as its
    ``conaffinity``, so exactly the pairs of a rule meet. Rules with parameters of their own are explicit pairs of
    geoms instead.

    Attributes:
        groups: all groups; a group's place here is its index.
        rules: those of the scene.
    """

    groups: tuple[str, ...]
    rules: tuple[ContactRule, ...]

    @classmethod
    def of(cls, scene: SceneSpec) -> GroupMasks:
        """Read and check the groups of a scene.

        Raises:
            ChamberEnvCompatibilityError: a rule names no group, is there twice, or lets a robot touch itself; or there
                are more groups than bits.
        """
        owners = {
            group: robot.uid for robot in scene.robots for group in (arm_group(robot.uid), finger_group(robot.uid))
        }
        named_by_geoms = {geom.group for body in scene.bodies for geom in body.geoms if geom.group is not None}
        groups = tuple(sorted(named_by_geoms | owners.keys()))
        seen: set[frozenset[str]] = set()
        for rule in scene.contacts:
            for group in (rule.first, rule.second):
                if group not in groups:
                    raise ChamberEnvCompatibilityError(
                        f"contact rule ({rule.first!r}, {rule.second!r}) names no group of the scene with {group!r}; "
                        f"there are: {', '.join(groups) or 'none'}"
                    )
            if rule.first in owners and owners[rule.first] == owners.get(rule.second):
                raise ChamberEnvCompatibilityError(
                    f"contact rule ({rule.first!r}, {rule.second!r}) would let {owners[rule.first]!r} touch itself; "
                    "the links of one robot never touch each other"
                )
            pair = frozenset({rule.first, rule.second})
            if pair in seen:
                raise ChamberEnvCompatibilityError(f"contact rule ({rule.first!r}, {rule.second!r}) is there twice")
            seen.add(pair)
        masks = cls(groups, scene.contacts)
        if len(masks.bits()) > _MOST_GROUPS:
            raise ChamberEnvCompatibilityError(
                f"at most {_MOST_GROUPS} contact groups can have rules without parameters of their own, got "
                f"{len(masks.bits())}; merge groups, or give rules a friction"
            )
        return masks

    def bits(self) -> dict[str, int]:
        """Give the bit of every group that needs one."""
        needed = {group for rule in self.rules if is_plain(rule) for group in (rule.first, rule.second)}
        return {group: 1 << place for place, group in enumerate(sorted(needed))}

    def conaffinity(self, group: str, rules: Sequence[ContactRule]) -> int:
        """Give the bits of the groups that a group may touch by these rules."""
        bits = self.bits()
        mask = 0
        for rule in rules:
            if is_plain(rule) and group in {rule.first, rule.second}:
                mask |= bits[rule.second if group == rule.first else rule.first]
        return mask

    def index(self, group: str | None) -> int:
        """Give the index of a group, `NO_GROUP` for None."""
        return NO_GROUP if group is None else self.groups.index(group)


class ContactSwitch:
    """Switches the rules of a compiled model.

    Args:
        model: it is changed by `switch`, for all copies that share it.
        masks: the groups.
        geom_groups: index of the group of each geom, shape ``(ngeom,)``.
        pair_ids: explicit pairs of geoms per rule.
    """

    def __init__(
        self,
        model: MjModel,
        *,
        masks: GroupMasks,
        geom_groups: NDArray[np.int64],
        pair_ids: Mapping[ContactRule, NDArray[np.int64]],
    ) -> None:
        self._model = model
        self._masks = masks
        self._geom_groups = geom_groups
        self._pair_ids = pair_ids
        self._enabled = dict.fromkeys(masks.rules, True)

    def switch(self, first: str, second: str, *, enabled: bool) -> None:
        """Let two groups of a rule touch, or pass through each other.

        Raises:
            KeyError: there is no such rule.
        """
        rule = next((rule for rule in self._masks.rules if {rule.first, rule.second} == {first, second}), None)
        if rule is None:
            known = ", ".join(f"({rule.first!r}, {rule.second!r})" for rule in self._masks.rules)
            raise KeyError(f"there is no contact rule ({first!r}, {second!r}); there are: {known or 'none'}")
        self._enabled[rule] = enabled
        if not is_plain(rule):
            # A contact begins where two surfaces are nearer than their margin.
            self._model.pair_margin[self._pair_ids[rule]] = 0.0 if enabled else -_OUT_OF_REACH
            return
        rules = [rule for rule, is_on in self._enabled.items() if is_on]
        for group in (first, second):
            geoms = self._geom_groups == self._masks.index(group)
            self._model.geom_conaffinity[geoms] = self._masks.conaffinity(group, rules)

"""The second Panda of a pair, under a uid of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from chamber.sim.robots import RobotModel

__all__ = ["PandaPartner"]


@dataclass(frozen=True)
class PandaPartner:
    """A Panda without a wrist camera that stands beside ``panda_wristcam``.

    Observations and actions are keyed by uid, so two equal arms need two uids; conditions with two Pandas name the pair
    ``("panda_wristcam", "panda_partner")``.
    """

    uid: ClassVar[str] = "panda_partner"

    @property
    def model(self) -> RobotModel:
        """Its body, as `chamber.sim.robots.robot_model` gives it; read from the package when it is first asked for."""
        from chamber.sim.robots import robot_model

        return robot_model(self.uid)

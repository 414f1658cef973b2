"""Who acts: one controller per robot, each a black box behind ``reset`` and ``act``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chamber.partners import PartnerSpec, load_partner
from ripieno.errors import InputError

__all__ = ["Controller", "Seat", "Team", "TurnTeam", "registered_seat"]


class Controller(Protocol):
    """Anything that acts for one robot."""

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the last episode."""
        ...

    def act(self, obs: Mapping[str, Any]) -> NDArray[np.floating[Any]]:
        """Give the action of its robot."""
        ...


@dataclass(frozen=True, slots=True)
class Seat:
    """One robot and who acts for it.

    Attributes:
        uid: the robot.
        name: what the controller is called in records.
        parameters: what it was made with, for records.
        controller: it.
    """

    uid: str
    name: str
    parameters: Mapping[str, str]
    controller: Controller


@dataclass(frozen=True, slots=True)
class Team:
    """One controller per robot of a task, ego first."""

    seats: tuple[Seat, ...]

    def reset(self, *, seed: int) -> None:
        """Begin an episode."""
        for seat in self.seats:
            seat.controller.reset(seed=seed)

    def act(self, obs: Mapping[str, Any]) -> Any:
        """Give what the environment's ``step`` takes: the action of every robot, by uid."""
        return {seat.uid: seat.controller.act(obs) for seat in self.seats}

    def measures(self) -> dict[str, float | int]:
        """Give numbers of the episode that only the team knows; it is asked once, at the end."""
        return {}

    def telling_step(self) -> int | None:
        """Give the control step of the episode that says most about it; None when the team knows of none."""
        return None

    def replaced(self, seat: Seat) -> Team:
        """Give the same team with another controller for one robot.

        Raises:
            InputError: the team has no such robot.
        """
        uids = [member.uid for member in self.seats]
        if seat.uid not in uids:
            raise InputError(f"the team has no robot {seat.uid!r}; it has {', '.join(uids)}")
        return replace(self, seats=tuple(seat if member.uid == seat.uid else member for member in self.seats))

    def description(self) -> dict[str, Any]:
        """Give names and parameters, for records."""
        return {seat.uid: {"name": seat.name, "parameters": dict(seat.parameters)} for seat in self.seats}


@dataclass(frozen=True, slots=True)
class TurnTeam(Team):
    """A team whose members act one after the other: ``obs["phase"]`` says whose turn it is.

    Attributes:
        turns: uid that acts in each phase.
    """

    turns: tuple[str, ...] = ()

    def act(self, obs: Mapping[str, Any]) -> Any:
        """Give the action of the robot whose turn it is."""
        uid = self.turns[int(obs["phase"])]
        return next(seat for seat in self.seats if seat.uid == uid).controller.act(obs)


def registered_seat(uid: str, name: str, parameters: Mapping[str, str] | None = None) -> Seat:
    """Give a robot to a partner of the registry.

    Raises:
        InputError: there is no such partner, or it refuses its parameters.
    """
    extra = {"uid": uid, **(parameters or {})}
    try:
        partner = load_partner(PartnerSpec(name, 0, None, None, extra))
    except KeyError as error:
        hint = "one of your own has to be imported first: chamber ... --import MODULE"
        raise InputError(f"{error.args[0]}; {hint}") from error
    except ValueError as error:
        raise InputError(f"partner {name!r} of {uid!r}: {error}") from error
    return Seat(uid, name, extra, partner)

"""Kinematics of the arms, the second Panda of a pair, and scripted controllers of the robot that is judged.

The nouns: a provider gives an arm's tool centre point and Jacobians; a scripted ego solves one task with them.
Importing this package needs no simulator and compiles nothing.
"""

from chamber.agents.panda_jacobian import PandaJacobianProvider
from chamber.agents.panda_partner import PandaPartner

__all__ = ["PandaJacobianProvider", "PandaPartner"]

_PANDA_PARTNER_REGISTERED: bool = True
"""Whether `PandaPartner` can be used: always, its model is part of the package."""

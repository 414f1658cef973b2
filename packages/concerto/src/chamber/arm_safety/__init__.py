"""Safety of arms: a filter that keeps one arm from driving into another, and how it is measured.

Three nouns: an `ArmModel` is what is known about an arm of a scene (kinematics, masses, drive, spheres that contain
it); `ArmSafety` decides the action of one arm beside another, once per control step; a `StepMap` says what an action
does.

* `chamber.arm_safety.safety`: the filter, and what it guarantees.
* `chamber.arm_safety.tracking`: how well predicted motion agrees with simulated motion.
* `chamber.arm_safety.elbow_drive`: a blind ego drives its elbow at another arm, with the filter and without.
* `chamber.arm_safety.co_carry_guard`: the filter for two arms that hold one bar.
"""

from chamber.arm_safety._action_semantics import StepMap, step_map, tcp_control_model
from chamber.arm_safety.arm_model import ArmModel, arm_of_scene
from chamber.arm_safety.co_carry_guard import arm_states, make_co_carry_guard
from chamber.arm_safety.safety import DEFAULT_TRACKING_ERROR_M, ArmSafety, ArmSafetyStep, ArmState

__all__ = [
    "DEFAULT_TRACKING_ERROR_M",
    "ArmModel",
    "ArmSafety",
    "ArmSafetyStep",
    "ArmState",
    "StepMap",
    "arm_of_scene",
    "arm_states",
    "make_co_carry_guard",
    "step_map",
    "tcp_control_model",
]

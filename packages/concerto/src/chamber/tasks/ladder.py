"""The tasks themselves. Importing this module registers them.

A task of tier 2 is a candidate until runs of this repository admit it.
"""

from __future__ import annotations

from chamber.tasks.registry import register_task
from chamber.tasks.spec import AdmissionStatus, TaskSpec

__all__: list[str] = []

_ARM_ACTION = "per Panda 7 joint-position increments and the gripper, Box(-1, 1, (8,)); 1 is 0.1 rad of increment"
_NO_ENVIRONMENT = "unspecified (spec-only)"


@register_task
def _push() -> TaskSpec:
    return TaskSpec(
        task_id="mpe_cooperative_push",
        version=1,
        tier=0,
        title="Cooperative push: two points cover two landmarks",
        env_factory="chamber.envs.mpe_cooperative_push.MPECooperativePushEnv",
        sim_backend="pure_python",
        n_agents=2,
        action_space_summary="per robot a 2-D velocity command, Box(-1, 1, (2,))",
        observation_summary="own position and velocity, landmarks and the other robot relative to it: 10 numbers",
        stress_channel=None,
        admission_status=AdmissionStatus.DIAGNOSTIC,
        notes="Robots `ego` and `partner`; velocities are clipped to [-1, 1]; both share the coverage reward.",
    )


@register_task
def _stage0() -> TaskSpec:
    return TaskSpec(
        task_id="stage0_smoke",
        version=1,
        tier=0,
        title="Stage 0: three embodiments on one rig",
        env_factory="chamber.benchmarks.stage0_smoke.make_stage0_env",
        sim_backend="mujoco",
        n_agents=3,
        action_space_summary="Panda 8, mobile manipulator 13, Allegro hand 16; Box(-1, 1)",
        observation_summary="per robot its joint channels and a flat state; a message packet with its age",
        stress_channel=None,
        admission_status=AdmissionStatus.DIAGNOSTIC,
        notes=(
            "Robots `panda_wristcam`, `fetch` and `allegro_hand_right` act at 20, 10 and 50 Hz. A check of the "
            "machinery: it claims nothing about cooperation."
        ),
    )


@register_task
def _pick_place_action_space() -> TaskSpec:
    return TaskSpec(
        task_id="stage1_pickplace_as",
        version=2,
        tier=1,
        title="Pick and place, control for the action space",
        env_factory="chamber.envs.stage1_pickplace.make_stage1_pickplace_env",
        sim_backend="mujoco",
        n_agents=2,
        action_space_summary="Panda 8 and a second Panda 8 or a mobile manipulator 13; Box(-1, 1)",
        observation_summary="joints of both robots, cube, goal and tool poses: 65 numbers (53 beside a Panda)",
        stress_channel=None,
        admission_status=AdmissionStatus.CONTROL,
        notes=(
            "The ego solves it alone, so it is a control and no test of cooperation. The alternative condition is "
            "`stage1_pickplace_panda_only_mappo_shared_param`."
        ),
        factory_defaults={"condition_id": "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent"},
    )


@register_task
def _pick_place_observation() -> TaskSpec:
    return TaskSpec(
        task_id="stage1_pickplace_om",
        version=2,
        tier=1,
        title="Pick and place, control for the observation modality",
        env_factory="chamber.envs.stage1_pickplace.make_stage1_pickplace_env",
        sim_backend="mujoco",
        n_agents=2,
        action_space_summary="Panda 8 and a mobile manipulator 13; Box(-1, 1)",
        observation_summary="colour and depth pictures of 128 x 128, and the channels that the condition keeps",
        stress_channel=None,
        admission_status=AdmissionStatus.CONTROL,
        notes=(
            "`stage1_pickplace_vision_only` masks joints and forces; the alternative condition is "
            "`stage1_pickplace_vision_plus_force_torque_plus_proprio`. Needs rendering."
        ),
        factory_defaults={"condition_id": "stage1_pickplace_vision_only"},
    )


@register_task
def _co_carry() -> TaskSpec:
    return TaskSpec(
        task_id="cocarry",
        version=2,
        tier=2,
        title="Co-carry: two arms carry one bar level to a goal",
        env_factory="chamber.envs.cocarry.make_cocarry_env",
        sim_backend="mujoco",
        n_agents=2,
        action_space_summary=f"{_ARM_ACTION}; the xArm6 takes 7",
        observation_summary="joints of both arms, bar pose and tilt, goal, stress",
        stress_channel="force of the ball joint that holds the bar in a hand, largest of both arms",
        admission_status=AdmissionStatus.CANDIDATE,
        notes=(
            "Ego `panda_wristcam`, partner `panda_partner` or `xarm6_robotiq`. Version 2 starts without overlap: the "
            "forearms of the crossed arms, and bar and fingers, pass through each other, so that the stress shows "
            "cooperation alone; its limits were derived again from matched episodes."
        ),
        factory_defaults={"condition_id": "cocarry_matched_panda_pair"},
    )


@register_task
def _handover_place() -> TaskSpec:
    return TaskSpec(
        task_id="handover_place",
        version=1,
        tier=2,
        title="Hand over and place under a time budget",
        env_factory="chamber.envs.handover_place.make_handover_place_env",
        sim_backend="pure_python",
        n_agents=2,
        action_space_summary="presenter: offset 2, grasp error, time skew; ego: translation 2, rotation, re-grasp flag",
        observation_summary="phase, target, tolerances, and what the presenter left",
        stress_channel="seating force",
        admission_status=AdmissionStatus.CANDIDATE,
        notes="Two steps: the partner presents a part, the ego places it. What couples them is the grasp it leaves.",
    )


@register_task
def _moving_handover() -> TaskSpec:
    return TaskSpec(
        task_id="amr_handover_dynamic",
        version=0,
        tier=3,
        title="Hand over to a robot that does not stop",
        env_factory=None,
        sim_backend=_NO_ENVIRONMENT,
        n_agents=2,
        action_space_summary="not fixed",
        observation_summary="not fixed",
        stress_channel=None,
        admission_status=AdmissionStatus.CANDIDATE,
        notes=(
            "The partners are coupled by the time of arrival, so no contact solver is needed. It fails as a test if "
            "stopping to pick is as good under a realistic cycle time."
        ),
    )


@register_task
def _co_hold() -> TaskSpec:
    return TaskSpec(
        task_id="co_hold_secure",
        version=0,
        tier=3,
        title="Hold a part still while the other robot works on it",
        env_factory=None,
        sim_backend=_NO_ENVIRONMENT,
        n_agents=2,
        action_space_summary="not fixed",
        observation_summary="not fixed",
        stress_channel="contact force of the holding hand, to be pinned",
        admission_status=AdmissionStatus.CANDIDATE,
        notes=(
            "With a moderate operating tolerance, never without clearance. It fails as a test if a passive fixture and "
            "one arm do as well."
        ),
    )


@register_task
def _co_insert() -> TaskSpec:
    return TaskSpec(
        task_id="coinsert",
        version=2,
        tier=3,
        title="Co-insert: one arm holds a socket, the other inserts a peg",
        env_factory="chamber.envs.coinsert.make_coinsert_env",
        sim_backend="mujoco",
        n_agents=2,
        action_space_summary=_ARM_ACTION,
        observation_summary="joints of both arms, peg pose, socket pose",
        stress_channel="contact force between peg and socket, and the wrench at the holder's hand",
        admission_status=AdmissionStatus.CANDIDATE,
        notes=(
            "Ego `panda_wristcam` inserts, `panda_partner` holds. Version 2 lets fingers and socket pass through each "
            "other: with that contact the fingers hit the rim before the peg is seated, and nobody can solve the task."
        ),
        factory_defaults={"condition_id": "coinsert_matched_reference"},
    )

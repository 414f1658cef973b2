"""How long does one whole step of the safety stack take, and where does the time go?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _common import pin_to_one_core, timed, write_results

from concerto.safety import AgentSnapshot, Bounds, DoubleIntegratorControlModel, SafetyStack
from concerto.safety._decide import answer, answer_layout, pack_settings
from concerto.safety.stopping import EgoBrakes
from ripieno.randomness import derive_substream

LIMIT_US = {1: 40.0}
SITUATIONS = {
    # distance of the partners in metres: far away nothing acts, near the rows and the certificate do
    "nothing acts": (8.0, 9.0),
    "rows or brakes act": (0.6, 1.0),
}


def states_beside(
    n_partners: int, nearest: float, farthest: float, rng: np.random.Generator
) -> dict[str, AgentSnapshot]:
    states = {"ego": AgentSnapshot(np.zeros(2), rng.uniform(-0.8, 0.8, 2), 0.25)}
    for i in range(n_partners):
        angle = rng.uniform(0.0, 2.0 * np.pi)
        position = rng.uniform(nearest, farthest) * np.array([np.cos(angle), np.sin(angle)])
        states[f"p{i:02d}"] = AgentSnapshot(position, rng.uniform(-0.4, 0.4, 2), 0.25)
    return states


def compiled_decision(
    stack: SafetyStack, world: dict[str, AgentSnapshot], nominal: np.ndarray
) -> Callable[[int], object]:
    """The call of the compiled decision that `SafetyStack.step` makes, on arrays that are packed already."""
    bodies = [world["ego"], *(world[uid] for uid in sorted(world) if uid != "ego")]
    n = len(bodies) - 1
    scene = np.concatenate((nominal, *((body.radius, *body.position, *body.velocity) for body in bodies)))
    brakes = EgoBrakes(
        np.eye(2), np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2)), 1.0, 1.0, is_immediate=False, holds=True
    )
    ego = pack_settings(
        gamma=5.0, tau_brake=0.1, dt=stack.dt, eta=0.01, slack_bound=0.7, jacobian=np.eye(2), drift=np.zeros(2),
        brakes=brakes, is_velocity_command=False,
    )  # fmt: skip
    numbers = np.concatenate((ego.numbers, np.ones(n), np.full(n, np.inf), np.ones(n)))
    layout = answer_layout(n, 2, 2)
    memory = np.zeros(layout.length)
    memory[layout.planned] = np.inf
    arguments = scene, ego.maps, numbers, memory, True, -0.05, np.empty(2), np.empty(layout.length)
    return lambda _: answer(*arguments)


def main() -> None:
    pin_to_one_core()
    rows: list[dict[str, object]] = []
    nominal = np.array([1.0, 0.3])
    for n_partners in (1, 5, 19):
        for situation, (nearest, farthest) in SITUATIONS.items():
            rng = derive_substream(f"benchmark.safety_stack.{n_partners}.{situation}").default_rng()
            worlds = [states_beside(n_partners, nearest, farthest, rng) for _ in range(200)]
            stack = SafetyStack(
                ego_uid="ego",
                control_models={"ego": DoubleIntegratorControlModel("ego", 2)},
                bounds=Bounds(1.0, 1.0, 10.0, 0.0, 50.0),
                dt=0.05,
            )
            sources = [stack.step(nominal, world).source.value for world in worlds]
            decisions = [compiled_decision(stack, world, nominal) for world in worlds]
            floor = timed(lambda k, decisions=decisions: decisions[k % 200](k), calls=20_000)
            result = timed(lambda k, stack=stack, worlds=worlds: stack.step(nominal, worlds[k % 200]), calls=20_000)
            acted = round(1.0 - sources.count("pass_through") / len(sources), 2)
            rows.append(
                {
                    "partners": n_partners,
                    "situation": situation,
                    "share of steps changed": acted,
                    "median (us)": result["median"],
                    "quartiles (us)": f"{result['quartile_1']} to {result['quartile_3']}",
                    "limit (us)": LIMIT_US.get(n_partners, ""),
                    "floor (us)": floor["median"],
                    "share of the floor": round(floor["median"] / result["median"], 2),
                }
            )
    write_results(
        "safety_stack_speed",
        title="Speed of one step of the safety stack",
        method="One `SafetyStack.step` on one core, Python call included: input checks, rows, projection, certificate, "
        "conformal update and telemetry, over 200 random states each. Floor: the compiled decision alone (one call "
        "from Python on arrays that are packed already); the rest is reading snapshots and building the answer.",
        columns=[
            "partners",
            "situation",
            "share of steps changed",
            "median (us)",
            "quartiles (us)",
            "limit (us)",
            "floor (us)",
            "share of the floor",
        ],
        rows=rows,
    )


if __name__ == "__main__":
    main()

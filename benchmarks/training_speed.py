"""How many frames per second does training make on the planar task, where does the time go, and what is the floor?

Run `python benchmarks/training_speed.py`; it writes `results/training_speed.json` and `results/training_speed.md`. A
rate is frames per second of process CPU time on one core, from the median time between two updates: 1,024 steps, one
update, and what the log costs. A checkpoint falls in one rollout of ten, which the median leaves out; the parts hold
it. Waiting for the disk is in neither. Runs with and without the safety stack take turns, so that both see the same
machine. The floor is measured first, see `floor_us`.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _common import pin_to_one_core, timed, write_results

from chamber.benchmarks.ego_ppo_trainer import EgoPPOTrainer
from chamber.benchmarks.training_runner import run_training
from chamber.configs import shipped_config_path
from concerto.training.config import EgoAHTConfig, read_config
from concerto.training.ego_aht import StackDriver

GOAL_FRAMES_PER_SECOND, LIMIT_STACK_SHARE = 5_000, 0.25
ROLLOUT, MINIBATCH, EPOCHS, HIDDEN, OBS, ACTION = 1024, 256, 4, 64, 10, 2
ROUNDS, ROLLOUTS, WARM_UP_ROLLOUTS = 5, 20, 3
PARTS = {"env.step": "environment", "partner.act": "partner", "trainer.act": "act", "trainer.observe": "observe",
         "trainer.update": "update", "driver.decide": "safety stack"}  # fmt: skip


# --- the floor ------------------------------------------------------------------------------------------------


def products_of_an_update() -> Callable[[int], None]:
    """All matrix products of the gradient steps of one update, and nothing else: actor and critic, float32."""
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    products: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for width, needs_input_gradient in ((ACTION, True), (1, False)):
        layers = [(OBS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, width)]
        for index, (n_in, n_out) in enumerate(layers):
            x, w, dy = matrix(MINIBATCH, n_in), matrix(n_in, n_out), matrix(MINIBATCH, n_out)
            pairs = [(x, w), (x.T, dy)]  # forward; gradient of the weights
            if index > 0 or needs_input_gradient:
                pairs.append((dy, w.T))  # gradient of the layer's input
            products += [(a, b, np.empty((a.shape[0], b.shape[1]), np.float32)) for a, b in pairs]

    def update(_: int) -> None:
        for _step in range(EPOCHS * ROLLOUT // MINIBATCH):
            for a, b, out in products:
                np.matmul(a, b, out=out)

    return update


def arrays_of_a_step() -> Callable[[int], None]:
    """The arrays that the interface demands of one step: two observations, two actions, two normal draws."""
    rng = np.random.default_rng(0)
    numbers = tuple(rng.standard_normal(OBS).tolist())

    def step(_: int) -> None:
        np.array(numbers, np.float32)
        np.array(numbers, np.float32)
        np.array((0.1, 0.2), np.float32)
        rng.standard_normal(ACTION, np.float32)

    return step


def floor_us() -> dict[str, float]:
    """Microseconds per frame that nothing with this interface and these networks can go below on this machine."""
    products = timed(products_of_an_update(), calls=200, warm_up=20)["median"] / ROLLOUT
    arrays = timed(arrays_of_a_step(), calls=50_000)["median"]
    return {"products of the update": round(products, 2), "arrays of a step": round(arrays, 2)}


# --- runs -----------------------------------------------------------------------------------------------------


def configuration(folder: str, *, seed: int, with_stack: bool) -> EgoAHTConfig:
    settings = [f"total_frames={ROLLOUTS * ROLLOUT}", f"seed={seed}", f"+safety.enabled={str(with_stack).lower()}"]
    places = [f"log_dir={folder}/logs", f"artifacts_root={folder}"]
    return read_config(shipped_config_path("mpe_cooperative_push"), [*settings, *places])


def run(*, seed: int, with_stack: bool, watch: Callable[[str, Any], Any]) -> None:
    """Train; ``watch`` is given every method of `PARTS` and gives what is called in its place."""

    def factory(cfg: EgoAHTConfig, *, env: Any, partner: Any, ego_uid: str, logger: Any = None) -> Any:
        trainer = EgoPPOTrainer.from_config(cfg, env=env, partner=partner, ego_uid=ego_uid, logger=logger)
        for name, owner in (("env", env), ("partner", partner), ("trainer", trainer)):
            for part in PARTS:
                if part.startswith(f"{name}."):
                    method = part.partition(".")[2]
                    setattr(owner, method, watch(part, getattr(owner, method)))
        return trainer

    decide = StackDriver.decide
    StackDriver.decide = watch("driver.decide", decide)
    try:
        with TemporaryDirectory() as folder:
            run_training(
                configuration(folder, seed=seed, with_stack=with_stack), trainer_factory=factory, repo_root=Path()
            )
    finally:
        StackDriver.decide = decide


def times_of_rollouts(*, seed: int, with_stack: bool) -> list[float]:
    """CPU microseconds per frame of each rollout with its update."""
    ends: list[int] = []

    def watch(part: str, method: Any) -> Any:
        if part != "trainer.update":
            return method

        def update() -> None:
            method()
            ends.append(time.process_time_ns())

        return update

    run(seed=seed, with_stack=with_stack, watch=watch)
    return [float(taken) / ROLLOUT / 1e3 for taken in np.diff(ends)[WARM_UP_ROLLOUTS:]]


def parts_us(*, with_stack: bool) -> dict[str, float]:
    """CPU microseconds per frame of each part, and of what is left: the loop, its log and its checkpoints."""
    spent: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    ends: list[int] = []

    def watch(part: str, method: Any) -> Any:
        @functools.wraps(method)
        def watched(*args: Any, **kwargs: Any) -> Any:
            started = time.process_time_ns()
            answer = method(*args, **kwargs)
            spent[part] += time.process_time_ns() - started
            calls[part] += 1
            if part == "trainer.update":
                ends.append(time.process_time_ns())
                if len(ends) == WARM_UP_ROLLOUTS:
                    spent.clear()
                    calls.clear()
            return answer

        return watched

    idle, n_idle = watch("nothing", lambda: None), 50_000  # what watching itself costs
    started = time.process_time_ns()
    for _ in range(n_idle):
        idle()
    inside = spent["nothing"] / n_idle
    whole = (time.process_time_ns() - started) / n_idle
    run(seed=0, with_stack=with_stack, watch=watch)
    n_frames = (ROLLOUTS - WARM_UP_ROLLOUTS) * ROLLOUT
    total = ends[-1] - ends[WARM_UP_ROLLOUTS - 1] - whole * calls.total()
    parts = {words: spent[part] - calls[part] * inside for part, words in PARTS.items() if calls[part]}
    parts["loop, log, checkpoints"] = total - sum(parts.values())
    return {words: round(nanoseconds / n_frames / 1e3, 1) for words, nanoseconds in parts.items()}


def main() -> None:
    pin_to_one_core()
    floor = floor_us()
    total_floor = sum(floor.values())
    times: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(ROUNDS):
        for with_stack, collected in times.items():
            collected.extend(times_of_rollouts(seed=seed, with_stack=with_stack))
    rows: list[dict[str, object]] = []
    for with_stack, collected in times.items():
        median = statistics.median(collected)
        slow, fast = 1e6 / np.percentile(collected, [75, 25])
        rows.append(
            {
                "safety stack": "on" if with_stack else "off",
                "frames/s": round(1e6 / median),
                "quartiles": f"{slow:.0f} to {fast:.0f}",
                "limit": GOAL_FRAMES_PER_SECOND if not with_stack else f"{100 * LIMIT_STACK_SHARE:.0f} % slower",
                "slower by": f"{100 * (1 - statistics.median(times[False]) / median):.0f} %" if with_stack else "",
                "us per frame": round(median, 1),
                "floor (us)": round(total_floor, 1),
                "share of the floor": round(total_floor / median, 2),
                **{f"{words} (us)": value for words, value in parts_us(with_stack=with_stack).items()},
            }
        )
    write_results(
        "training_speed",
        title="Speed of training on the planar task",
        method=(
            f"The shipped configuration: PPO, rollout {ROLLOUT}, minibatches of {MINIBATCH}, {EPOCHS} epochs, hidden "
            f"width {HIDDEN}, on one core and one torch thread. CPU time per frame between two updates, medians and "
            f"quartiles over {ROUNDS} runs of {ROLLOUTS} rollouts, of which the first {WARM_UP_ROLLOUTS} are left out. "
            "A checkpoint falls in one rollout of ten, so it is in the parts and not in the medians; waiting for the "
            "disk is in neither. 'slower by' is the loss of frames per second by the stack. The parts are from a run "
            "of their own, in "
            "which watching them slows all of them down a little; the update is spread over the frames of its rollout. "
            "Floor: all matrix products of the update and nothing "
            f"else ({floor['products of the update']} us per frame), and the arrays that the interface demands of a "
            f"step, two observations, two actions and two normal draws ({floor['arrays of a step']} us)."
        ),
        columns=list(dict.fromkeys(column for row in reversed(rows) for column in row)),
        rows=rows,
        floor_us=floor,
    )


if __name__ == "__main__":
    main()

"""What learning costs per step: acting, observing, updating, beside eager PyTorch and the matrix products alone.

The planar task's widths (10, 64, 2), a rollout of 1,024 steps, minibatches of 256, four epochs.
"""

from __future__ import annotations

import copy
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from _common import pin_to_one_core, timed, write_results
from gymnasium import spaces

from chamber.benchmarks.ego_ppo_trainer import EgoPPOTrainer
from chamber.learning.minibatches import minibatch_sizes
from chamber.learning.networks import GaussianPolicy, ValueNetwork
from chamber.partners.api import PartnerSpec
from chamber.partners.registry import load_partner
from concerto.training.config import EgoAHTConfig

OBS, HIDDEN, ACTION = 10, 64, 2
STEPS, BATCH, EPOCHS = 1024, 256, 4
METHOD = (
    "Medians on one core, one thread. *Eager* is the same algorithm with autograd, `torch.optim.Adam`, and a network "
    "call per action. *Matrix products* are those of the update and nothing else: the floor of this "
    "library. Microseconds per frame are the update's time over 1,024."
)


def trainer() -> EgoPPOTrainer:
    """The ego of the planar task."""
    cfg = EgoAHTConfig.model_validate({"env": {"task": "mpe_cooperative_push"}, "runtime": {"device": "cpu"}})
    extra = {"uid": "partner", "target_xy": "0.0,0.0", "action_dim": "2"}
    return EgoPPOTrainer(
        cfg=cfg,
        ego_uid="ego",
        ego_obs_space=spaces.Box(-np.inf, np.inf, (OBS,)),
        ego_act_space=spaces.Box(-1, 1, (ACTION,)),
        partner=load_partner(PartnerSpec("scripted_heuristic", 0, None, None, extra)),
    )


def eager_update(actor: GaussianPolicy, critic: ValueNetwork, data: dict[str, torch.Tensor]) -> None:
    """The documented update as it is usually written."""
    optimisers = (
        torch.optim.Adam(actor.parameters(), lr=3e-4, eps=1e-5),
        torch.optim.Adam(critic.parameters(), lr=3e-4),
    )
    for _ in range(EPOCHS):
        for mb in torch.randperm(STEPS).split(BATCH):
            density = torch.distributions.Normal(*actor(data["obs"][mb]))
            ratio = (density.log_prob(data["actions"][mb]) - data["log_probs"][mb]).exp().prod(dim=-1)
            advantages = data["advantages"][mb]
            surrogate = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
            optimisers[0].zero_grad()
            (-surrogate - 0.01 * density.entropy().sum(dim=-1).mean()).backward()
            torch.nn.utils.clip_grad_norm_(actor.parameters(), 10.0)
            optimisers[0].step()
            optimisers[1].zero_grad()
            (critic(data["obs"][mb]).squeeze(-1) - data["returns"][mb]).square().mean().backward()
            optimisers[1].step()


class MatrixProducts:
    """The products of an update, on arrays that are there already."""

    def __init__(self) -> None:
        self.products: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self.flops = 0
        for n_out in (ACTION, 1):
            for a, b in ((OBS, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, n_out)):
                x, w, d = torch.randn(BATCH, a), torch.randn(b, a), torch.randn(BATCH, b)
                pairs = [(x, w.t()), (x.t(), d)]
                if a == HIDDEN:  # nothing flows back into the observation
                    pairs.append((d, w))
                self.products += [(left, right, torch.empty(len(left), right.shape[1])) for left, right in pairs]
        self.n_minibatches = EPOCHS * len(minibatch_sizes(STEPS, BATCH))
        self.flops = self.n_minibatches * sum(2 * left.numel() * right.shape[1] for left, right, _ in self.products)

    def __call__(self, _k: int) -> None:
        """Compute all of them, for every minibatch."""
        for _ in range(self.n_minibatches):
            for left, right, out in self.products:
                torch.mm(left, right, out=out)


def main() -> None:
    """Measure and write."""
    pin_to_one_core()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    ego = trainer()
    observations = [{"agent": {"ego": {"state": row}}} for row in rng.normal(size=(STEPS + 1, OBS)).astype(np.float32)]

    def live(k: int) -> None:
        ego.act(observations[k % STEPS])
        ego.observe(observations[k % STEPS + 1], -1.0, k % 50 == 49, truncated=k % 50 == 49)

    def update(_k: int) -> None:
        ego.load_training_state(rollout)
        ego.update()

    for k in range(STEPS):
        live(k)
    rollout = ego.training_state()
    update(0)
    rows: list[dict[str, object]] = [
        {"what": "act", "unit": "us per frame", **timed(lambda k: ego.act(observations[k % STEPS]), calls=5000)},
    ]
    both = timed(live, calls=5000)
    rows.append({"what": "act and observe", "unit": "us per frame", **both})
    network, critic = (copy.deepcopy(part) for part in (ego._policy.policy, ego._critic.network))

    def eager_act(k: int) -> None:
        with torch.no_grad():
            state = torch.from_numpy(observations[k % STEPS]["agent"]["ego"]["state"][None])
            density = torch.distributions.Normal(*network(state))
            density.log_prob(density.sample())
            critic(state)

    rows.append({"what": "act, eager", "unit": "us per frame", **timed(eager_act, calls=2000)})
    rows.append({"what": "update", "unit": "ms per 1,024", **timed(update, calls=60, warm_up=5, unit=1e6)})
    data = {
        "obs": torch.randn(STEPS, OBS),
        "actions": 0.4 * torch.randn(STEPS, ACTION),
        "advantages": torch.randn(STEPS),
        "returns": torch.randn(STEPS),
    }
    with torch.no_grad():
        data["log_probs"] = torch.distributions.Normal(*network(data["obs"])).log_prob(data["actions"])
    eager = timed(lambda _k: eager_update(network, critic, data), calls=20, warm_up=3, unit=1e6)
    rows.append({"what": "update, eager", "unit": "ms per 1,024", **eager})
    products = MatrixProducts()
    floor = timed(products, calls=60, warm_up=5, unit=1e6)
    rows.append({"what": "update, matrix products", "unit": "ms per 1,024", **floor})
    for row in rows:
        if row["unit"] == "ms per 1,024":
            row["us per frame"] = round(float(str(row["median"])) * 1000 / STEPS, 2)
    rows[-1]["GFLOP/s"] = round(products.flops / float(floor["median"]) / 1e6, 1)
    write_results(
        "ppo_speed",
        title="What learning costs per step",
        method=METHOD,
        columns=("what", "unit", "median", "quartile_1", "quartile_3", "us per frame", "GFLOP/s"),
        rows=rows,
        torch=torch.__version__,
        mega_flops_of_products=round(products.flops / 1e6),
    )


if __name__ == "__main__":
    main()

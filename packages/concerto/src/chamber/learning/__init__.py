"""Learning a policy: two networks, a rollout, and an update, each in its own module.

The nouns: a `GaussianPolicy` and a `ValueNetwork` are the networks; a `PolicyLearner` and a `ValueLearner` change
them; a `RolloutBuffer` holds what was lived through; `update_epochs` learns from it. A finished policy is read with
[`load_policy`][chamber.learning.policy.load_policy]. Nothing here knows a task, a partner or a config file.

Needs PyTorch: ``pip install 'ripieno-concerto[train]'``. All names load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chamber.learning.acting import ActingKernel
    from chamber.learning.advantages import compute_gae, normalize_advantages
    from chamber.learning.networks import GaussianPolicy, ValueNetwork
    from chamber.learning.policy import TrainedPolicy, load_policy
    from chamber.learning.policy_learner import PolicyLearner
    from chamber.learning.ppo import update_epochs
    from chamber.learning.rollout_buffer import RolloutBuffer
    from chamber.learning.value_learner import ValueLearner

__all__ = [
    "ActingKernel",
    "GaussianPolicy",
    "PolicyLearner",
    "RolloutBuffer",
    "TrainedPolicy",
    "ValueLearner",
    "ValueNetwork",
    "compute_gae",
    "load_policy",
    "normalize_advantages",
    "update_epochs",
]

_HOME_OF_LAZY_NAME = {
    "ActingKernel": "acting",
    "GaussianPolicy": "networks",
    "PolicyLearner": "policy_learner",
    "RolloutBuffer": "rollout_buffer",
    "TrainedPolicy": "policy",
    "ValueLearner": "value_learner",
    "ValueNetwork": "networks",
    "compute_gae": "advantages",
    "load_policy": "policy",
    "normalize_advantages": "advantages",
    "update_epochs": "ppo",
}


def __getattr__(name: str) -> object:
    if name in _HOME_OF_LAZY_NAME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF_LAZY_NAME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

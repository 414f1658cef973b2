"""The tasks of Chamber: what the suite contains, and how to build an environment by name.

    >>> from chamber import tasks
    >>> tasks.get("mpe_cooperative_push").tier
    0
    >>> env = tasks.make("mpe_cooperative_push", root_seed=3)
    >>> obs, info = env.reset(seed=0)

Importing it needs no simulator; making an environment may.
"""

from chamber.tasks import ladder as _ladder  # registers the tasks
from chamber.tasks.registry import SUITE_NAME, SUITE_VERSION, get, list_registered, make, manifest, register_task
from chamber.tasks.spec import HETEROGENEITY_AXES, AdmissionStatus, AxisValidity, TaskSpec

del _ladder

__all__ = [
    "HETEROGENEITY_AXES",
    "SUITE_NAME",
    "SUITE_VERSION",
    "AdmissionStatus",
    "AxisValidity",
    "TaskSpec",
    "get",
    "list_registered",
    "make",
    "manifest",
    "register_task",
]

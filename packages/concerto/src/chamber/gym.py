"""Every playable task under a name of Gymnasium, ``chamber/<task>-v<version>``.

    >>> import gymnasium
    >>> env = gymnasium.make("chamber.gym:chamber/mpe_cooperative_push-v1", root_seed=3)
    >>> obs, info = env.reset(seed=0)

The part before the colon imports this module, which registers the names. Keyword arguments go on to
`chamber.tasks.make`.
"""

from __future__ import annotations

try:
    import gymnasium
except ImportError as error:
    raise ImportError(
        'chamber.gym needs Gymnasium; install it with: pip install "ripieno-concerto[chamber]"'
    ) from error

from chamber import tasks

__all__: list[str] = []

for _task in tasks.manifest()["tasks"]:
    if _task["env_factory"] is not None:
        gymnasium.register(
            id=f"chamber/{_task['task_id']}-v{_task['version']}",
            entry_point="chamber.tasks:make",
            kwargs={"task_id": _task["task_id"], "version": _task["version"]},
        )

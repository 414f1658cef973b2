"""Stand-in task loader."""

import json

from tau2.data_model.tasks import Task
from tau2.domains.retail.utils import RETAIL_DIR


def get_tasks(
    task_set_name: str,
    task_split_name: str | None = None,
    task_ids: list[str] | None = None,
    num_tasks: int | None = None,
) -> list[Task]:
    if task_set_name != "retail":
        raise ValueError(task_set_name)
    tasks = [Task.model_validate(task) for task in json.loads((RETAIL_DIR / "tasks.json").read_text())]
    if task_split_name is not None:
        split = json.loads((RETAIL_DIR / "split_tasks.json").read_text())[task_split_name]
        tasks = [task for task in tasks if task.id in split]
    return tasks[:num_tasks]

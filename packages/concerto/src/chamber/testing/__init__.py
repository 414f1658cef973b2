"""Judge anybody's task by the code that judges ours.

`check_task` raises `ConformanceError` with the first clause that does not hold and says how to mend it; `task_checks`
gives the same checks as a list for `run_all`, which tries all of them and reports rows:

    >>> from chamber.envs import MPECooperativePushEnv
    >>> rows = run_all(task_checks(MPECooperativePushEnv))
    >>> [row.check for row in rows if not row.passed]
    []
"""

from chamber.testing.tasks import check_task, task_checks
from concerto.testing.conformance import Check, CheckRow, ConformanceError, run_all

__all__ = ["Check", "CheckRow", "ConformanceError", "check_task", "run_all", "task_checks"]

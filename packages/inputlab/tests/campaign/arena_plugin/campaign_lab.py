"""Small campaigns in the lab arena and in the fixture arena; shared by the tests of campaigns and of privacy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from agentinputlab.cli._app import agentinputlab
from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan
from workers.official_arenas.campaign.run import CampaignResult, run_campaign

PLUGIN = Path(__file__).parent
TREATMENT = "plan.plan_and_solve.ps_prompt"


def lab_plan(
    folder: Path, *, treatments: Sequence[Any] = (TREATMENT,), tasks: int = 2, **behaviour: Any
) -> CampaignPlan:
    """A plan for the lab arena; what the arena does comes in the arguments of the agent."""
    slot = {"name": "lab", "agent": {"args": {"calls": str(folder / "calls.txt"), **behaviour}}}
    return parse_plan(
        {
            "arena": "lab.retail",
            "split": "train",
            "tasks": tasks,
            "treatments": list(treatments),
            "slots": [slot],
            "durable": False,
        }
    )


def fixture_plan(*, tasks: int = 2, treatments: Sequence[Any] = (TREATMENT,), **fields: Any) -> CampaignPlan:
    return parse_plan(
        {
            "arena": "fixture",
            "split": "train",
            "tasks": tasks,
            "treatments": list(treatments),
            "durable": False,
            **fields,
        }
    )


def run(plan: CampaignPlan, out: Path, **options: Any) -> CampaignResult:
    return run_campaign(plan, out, command=["a command"], **options)


def calls(folder: Path) -> Counter[str]:
    """How often each slot asked its model."""
    path = folder / "calls.txt"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def statuses(result: CampaignResult) -> dict[str, str]:
    return {row["task_id"]: row["status"] for row in result.rows}


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def state_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file with its inode, time of change and bytes: equal states mean that nothing was written."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(root))] = (status.st_ino, status.st_mtime_ns, path.read_bytes())
    return found


def copy_of(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def invoke(*arguments: object) -> Result:
    """The command line in this process."""
    return CliRunner().invoke(agentinputlab, [str(argument) for argument in arguments], prog_name="agentinputlab")


def environment(**changes: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(PLUGIN), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, **changes}


def command_line(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "agentinputlab", *map(str, arguments)],
        capture_output=True,
        check=False,
        env=environment(**options.pop("variables", {})),
        timeout=120,
        **options,
    )


def write_plan(path: Path, plan: CampaignPlan | Mapping[str, Any]) -> Path:
    record = plan.record() if isinstance(plan, CampaignPlan) else plan
    path.write_text(json.dumps(record))
    return path

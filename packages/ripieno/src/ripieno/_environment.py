"""What a run ran on: code state, package versions, machine. Never the user's paths or the host's name."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

GIT_TIMEOUT_S = 10.0


@cache
def package_versions() -> dict[str, str]:
    """Give the versions of Python, of our installed packages and of what they directly require."""
    ours = [
        distribution
        for distribution in metadata.distributions()
        if (distribution.metadata["Name"] or "").startswith("ripieno")
    ]
    names = {distribution.metadata["Name"] for distribution in ours}
    for distribution in ours:
        names.update(re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in distribution.requires or ())
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed
    return versions


@cache
def machine() -> dict[str, Any]:
    """Give operating system, processor and its features (trajectories differ with the vector units)."""
    cpuinfo = _cpuinfo()
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": cpuinfo.get("model name", platform.processor()),
        "cpu_count": os.cpu_count() or 0,
        "cpu_features": sorted(cpuinfo.get("flags", cpuinfo.get("Features", "")).split()),
    }


def _cpuinfo() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}  # not Linux: the features stay unknown
    first_processor = text.split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first_processor.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def git_state(directory: Path) -> dict[str, Any] | None:
    """Give the commit checked out around a directory and whether tracked files differ from it.

    ``None`` when there is no repository, no commit or no git.
    """
    commit = _git(directory, "rev-parse", "HEAD")
    changes = commit and _git(directory, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"sha": commit.strip(), "dirty": bool(changes.strip())}


def _git(directory: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            [program, "--no-optional-locks", "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None

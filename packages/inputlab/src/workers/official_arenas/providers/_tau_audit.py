"""Is a checkout the tau2-bench that the arena is pinned to? Every byte that matters is compared with the commit."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ripieno.canonical import strict_loads
from ripieno.errors import InputError, IntegrityError
from workers.official_arenas.protocol import OfficialArenaError, content_hash, read_bound_bytes
from workers.official_arenas.providers._tau_config import (
    ENVIRONMENT_MODEL_POLICY,
    JUDGE_COVERAGE_GUARD,
    SCORER_REVISION,
    SOURCE_REVISION,
    SPLIT_SIZES,
)

__all__ = ["AUDITED_FILES", "SourceAudit", "audit_retail_source"]

_DATA = "data/tau2/domains/retail"
_CODE = "src/tau2"
AUDITED_FILES = (
    f"{_DATA}/db.json",
    f"{_DATA}/policy.md",
    f"{_DATA}/split_tasks.json",
    f"{_DATA}/tasks.json",
    f"{_CODE}/domains/retail/environment.py",
    f"{_CODE}/domains/retail/tools.py",
    f"{_CODE}/domains/retail/data_model.py",
    f"{_CODE}/runner/build.py",
    f"{_CODE}/evaluator/evaluator.py",
    f"{_CODE}/evaluator/evaluator_nl_assertions.py",
    f"{_CODE}/data_model/simulation.py",
)
"""The eleven files that decide tasks, tools and scores."""
_MAX_FILE_BYTES = 64 * 2**20
_GIT_TIMEOUT_SECONDS = 60
_REWARD_BASES = {("DB", "NL_ASSERTION"): 112, ("DB",): 2}


@dataclass(frozen=True, slots=True)
class SourceAudit:
    """What was found.

    Attributes:
        file_sha256: audited file -> SHA-256 of the bytes that were compared.
        task_ids: all ids, in the order of the task file.
    """

    file_sha256: Mapping[str, str]
    task_ids: tuple[str, ...]


def audit_retail_source(
    checkout: Path, *, revision: str = SOURCE_REVISION, scorer_revision: str = SCORER_REVISION
) -> SourceAudit:
    """Compare a checkout with its pinned commit.

    HEAD must be the pin, each of `AUDITED_FILES` must have the bytes that the commit records for it (its git blob),
    the two evaluator files must give the pinned scorer revision, and tasks, split and reward bases must be as known.
    Dependencies of tau2 and files outside the list are not looked at.

    Raises:
        OfficialArenaError: something differs; the message names it.
    """
    head = _git(checkout, "rev-parse", "HEAD").strip()
    if head != revision:
        raise OfficialArenaError(f"tau2 checkout is at {head[:40]}, pinned is {revision}")
    blobs = _blobs(checkout, revision)
    contents: dict[str, bytes] = {}
    for name in AUDITED_FILES:
        contents[name] = _read(checkout / name)
        # The commit id is a SHA-1 over these ids, so they are what the pin pins.
        header = f"blob {len(contents[name])}\0".encode()
        if hashlib.sha1(header + contents[name], usedforsecurity=False).hexdigest() != blobs.get(name):
            raise OfficialArenaError(f"tau2 file {name} differs from the pinned commit")
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    found = content_hash(
        {
            "native": hashes[f"{_CODE}/evaluator/evaluator.py"],
            "nl": hashes[f"{_CODE}/evaluator/evaluator_nl_assertions.py"],
            "judge_coverage_guard": JUDGE_COVERAGE_GUARD,
            "environment_model_policy": ENVIRONMENT_MODEL_POLICY,
        }
    )
    if found != scorer_revision:
        raise OfficialArenaError("tau2 evaluator files differ from the pinned scorer revision")
    ids = _audit_tasks(contents[f"{_DATA}/tasks.json"], contents[f"{_DATA}/split_tasks.json"])
    return SourceAudit(hashes, ids)


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, no shell
            command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise OfficialArenaError("git could not be asked about the tau2 checkout") from error
    if done.returncode:
        raise OfficialArenaError("tau2 checkout must be a git repository with its pinned commit")
    return done.stdout


def _blobs(checkout: Path, revision: str) -> dict[str, str]:
    listing = _git(checkout, "ls-tree", "-r", "-z", "--full-tree", revision, "--", *AUDITED_FILES)
    pattern = re.compile(r"100(?:644|755) blob ([0-9a-f]{40})\t(.+)", re.DOTALL)
    rows = [pattern.fullmatch(line) for line in listing.split("\0") if line]
    return {row[2]: row[1] for row in rows if row}


def _read(path: Path) -> bytes:
    try:
        return read_bound_bytes(path, max_bytes=_MAX_FILE_BYTES)
    except (OSError, IntegrityError, InputError) as error:
        raise OfficialArenaError(f"tau2 file {path.name} must be a readable regular file") from error


def _audit_tasks(tasks_data: bytes, split_data: bytes) -> tuple[str, ...]:
    try:
        tasks, split = strict_loads(tasks_data), strict_loads(split_data)
        ids = tuple(str(task["id"]) for task in tasks)
        bases = Counter(_reward_basis(task) for task in tasks)
        parts = {name: [str(task_id) for task_id in split[name]] for name in SPLIT_SIZES}
    except (InputError, KeyError, TypeError) as error:
        raise OfficialArenaError("tau2 retail tasks or split have another shape") from error
    if len(ids) != sum(SPLIT_SIZES.values()) or len(set(ids)) != len(ids):
        raise OfficialArenaError(f"tau2 retail must have {sum(SPLIT_SIZES.values())} unique task ids")
    sizes = {name: len(part) for name, part in parts.items()}
    listed = [task_id for part in parts.values() for task_id in part]
    if sizes != dict(SPLIT_SIZES) or sorted(listed) != sorted(ids):
        raise OfficialArenaError("tau2 retail split must be 74 train and 40 test tasks, disjoint and covering all")
    if dict(bases) != _REWARD_BASES:
        raise OfficialArenaError("tau2 retail reward bases must be 112 times DB and NL_ASSERTION, twice DB")
    return ids


def _reward_basis(task: Mapping[str, Any]) -> tuple[str, ...]:
    criteria = cast("Mapping[str, Any]", task["evaluation_criteria"])
    return tuple(sorted(str(item) for item in criteria["reward_basis"]))

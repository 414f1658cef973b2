"""Runs interventions: checked, within budget, watched; and the identities that make runs comparable.

Three nouns: an `InterventionRunner` turns an intervention, a state and a context into a `RunRecord`; `run_cache_key`
names the run; a `BalanceAuditor` says whether two arms may be compared.
"""

from agentinputlab.runner.balance import BalanceAuditor, BalanceReport
from agentinputlab.runner.cache import RUN_CACHE_SCHEMA, context_dependency_fingerprints, run_cache_key
from agentinputlab.runner.intervention import CompositeInterventionRunner, InterventionRunner
from agentinputlab.runner.records import CompositeRunRecord, InterventionStatus, RunRecord
from agentinputlab.runner.worker_clients import FunctionWorkerClient, JsonLineWorkerClient

__all__ = [
    "RUN_CACHE_SCHEMA",
    "BalanceAuditor",
    "BalanceReport",
    "CompositeInterventionRunner",
    "CompositeRunRecord",
    "FunctionWorkerClient",
    "InterventionRunner",
    "InterventionStatus",
    "JsonLineWorkerClient",
    "RunRecord",
    "context_dependency_fingerprints",
    "run_cache_key",
]

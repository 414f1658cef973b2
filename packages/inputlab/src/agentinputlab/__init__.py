"""Input lab: does changing an agent's input help? Strictly paired first attempts."""

from importlib.metadata import version

from agentinputlab.contracts import (
    ContextBlock,
    ExecutionBudget,
    FrozenAgentState,
    InputPatch,
    InterventionContext,
    Message,
    PatchOp,
    PatchOperation,
    SemanticFamily,
)

__all__ = [
    "ContextBlock",
    "ExecutionBudget",
    "FrozenAgentState",
    "InputPatch",
    "InterventionContext",
    "Message",
    "PatchOp",
    "PatchOperation",
    "SemanticFamily",
    "__version__",
]

__version__ = version("ripieno-inputlab")

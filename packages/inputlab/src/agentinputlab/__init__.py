"""Input lab: does changing an agent's input help? Strictly paired first attempts."""

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

__version__: str


def __getattr__(name: str) -> str:
    """Look the version up on first use: it is slow, and a worker started as a file may have no metadata to ask."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("ripieno-inputlab")

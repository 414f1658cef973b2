"""The exceptions of Input lab. Everything it raises on purpose is an `AgentInputLabError`."""

__all__ = [
    "AgentInputLabError",
    "AlgorithmOutputError",
    "AlgorithmUnavailableError",
    "ArmExecutionError",
    "ArtifactError",
    "BalanceError",
    "BudgetExceededError",
    "CapabilityError",
    "ExternalDependencyError",
    "IntentViolationError",
    "RegistryError",
    "StateConflictError",
    "ValidationError",
]


class AgentInputLabError(Exception):
    """Base of all errors of Input lab; its text is one sentence for the person at the keyboard."""


class ValidationError(AgentInputLabError, ValueError):
    """A value is not what the contract says; the text names the field, the value and the expectation."""


class ArmExecutionError(ValidationError):
    """One arm could not be run; the other arm is not touched by it."""


class AlgorithmOutputError(ArmExecutionError):
    """An intervention, or the model behind it, gave something that its contract does not allow."""


class StateConflictError(AgentInputLabError):
    """A patch was made for another state than the one it is applied to."""


class CapabilityError(AgentInputLabError):
    """A backend cannot do what was asked of it."""


class AlgorithmUnavailableError(AgentInputLabError):
    """A registered release cannot run here; the text says why."""


class ExternalDependencyError(AlgorithmUnavailableError):
    """Something outside the package (worker, checkout, weights, endpoint) is missing or failed."""


class ArtifactError(AgentInputLabError):
    """An artifact is absent or its bytes are not the pinned ones."""


class RegistryError(AgentInputLabError):
    """A registry document is wrong, or an id is not in it."""


class BalanceError(AgentInputLabError):
    """The arms of a comparison differ in something that was not declared as treatment."""


class BudgetExceededError(AgentInputLabError):
    """A run wanted, or used, more than its budget."""


class IntentViolationError(AgentInputLabError):
    """A patch lost a required entity or constraint, or introduced a forbidden assumption."""

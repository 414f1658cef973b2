"""What can be watched of a run besides its log: recorded episodes.

The log of a training run is `concerto.training.logging`; what lies here reads an environment and never changes it.
"""

from chamber.observability.rollout_recorder import RolloutRecorder

__all__ = ["RolloutRecorder"]

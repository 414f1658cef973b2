"""What a training run is, and what it says: its identity, and one JSON object per line in its log.

`compute_run_metadata` names the run after what decides it. `bind_run_logger` opens the log. `log_scalars` and
`log_eval` write the two events whose form readers rely on. The log is the record; Weights & Biases is a copy of it that
can fail at any time without the run noticing.
"""

from concerto.training.logging._identity import GIT_SHA_UNKNOWN, RunContext, compute_run_metadata
from concerto.training.logging._lines import (
    LogNamespace,
    RunLogger,
    bind_run_logger,
    json_line,
    log_eval,
    log_scalars,
    set_aside,
    wall_time,
)
from concerto.training.logging._wandb import WandbSettings, WandbSink, make_wandb_run_sink

__all__ = [
    "GIT_SHA_UNKNOWN",
    "LogNamespace",
    "RunContext",
    "RunLogger",
    "WandbSettings",
    "WandbSink",
    "bind_run_logger",
    "compute_run_metadata",
    "json_line",
    "log_eval",
    "log_scalars",
    "make_wandb_run_sink",
    "set_aside",
    "wall_time",
]

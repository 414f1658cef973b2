"""The configuration of a training run: a YAML file, checked once, frozen, with a fingerprint.

Four nouns: a *config* (`EgoAHTConfig`, made of the other models), its *fingerprint* (what makes two runs the same
cell), its *warnings* (legal, but something goes to waste), and a *problem* (one line that says what is wrong with a
file or an override). The models need no optional package; reading a file needs ``ripieno-concerto[train]``.
"""

from concerto.training.config._loading import load_config, read_config
from concerto.training.config._models import (
    EgoAHTConfig,
    EnvConfig,
    ExploratoryConfig,
    HAPPOHyperparams,
    PartnerConfig,
    RolloutRecorderConfig,
    RuntimeConfig,
    SafetyConfig,
    ShapingConfig,
    WandbConfig,
    config_fingerprint,
    validated_copy,
)
from concerto.training.config._problems import config_problem
from concerto.training.config._warnings import configuration_warnings, environment_warnings

__all__ = [
    "EgoAHTConfig",
    "EnvConfig",
    "ExploratoryConfig",
    "HAPPOHyperparams",
    "PartnerConfig",
    "RolloutRecorderConfig",
    "RuntimeConfig",
    "SafetyConfig",
    "ShapingConfig",
    "WandbConfig",
    "config_fingerprint",
    "config_problem",
    "configuration_warnings",
    "environment_warnings",
    "load_config",
    "read_config",
    "validated_copy",
]

"""Tasks and the wrappers that vary one thing each.

An observation is a nested dictionary, ``obs["agent"][uid][channel]``; an action is a dictionary keyed by robot
uid. Needs Gymnasium: ``pip install "ripieno-concerto[chamber]"``. Tasks with arms need MuJoCo too, when they are built.

The names of pick-and-place load on first use, so that a list or a help text stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

try:
    import gymnasium as _gymnasium
except ImportError as error:
    raise ImportError(
        'chamber.envs needs Gymnasium; install it with: pip install "ripieno-concerto[chamber]"'
    ) from error

from chamber.envs.action_repeat import PerAgentActionRepeatWrapper
from chamber.envs.comm_shaping import CommShapingWrapper
from chamber.envs.errors import ChamberEnvCompatibilityError
from chamber.envs.mpe_cooperative_push import MPECooperativePushEnv
from chamber.envs.partner_meta import PartnerIdAnnotationWrapper
from chamber.envs.stage0_state_synth import Stage0StateSynthesizer
from chamber.envs.texture_filter import TextureFilterObsWrapper

if TYPE_CHECKING:
    from chamber.envs.stage1_obs_filter import Stage1ASStateSynthesizer, Stage1OMChannelFilter
    from chamber.envs.stage1_pickplace import (
        ConditionConfig,
        build_control_models_for_condition,
        make_stage1_pickplace_env,
        resolve_condition,
    )

del _gymnasium

__all__ = [
    "ChamberEnvCompatibilityError",
    "CommShapingWrapper",
    "ConditionConfig",
    "MPECooperativePushEnv",
    "PartnerIdAnnotationWrapper",
    "PerAgentActionRepeatWrapper",
    "Stage0StateSynthesizer",
    "Stage1ASStateSynthesizer",
    "Stage1OMChannelFilter",
    "TextureFilterObsWrapper",
    "build_control_models_for_condition",
    "make_stage1_pickplace_env",
    "resolve_condition",
]

_HOME_OF_LAZY_NAME = {
    "ConditionConfig": "stage1_pickplace",
    "Stage1ASStateSynthesizer": "stage1_obs_filter",
    "Stage1OMChannelFilter": "stage1_obs_filter",
    "build_control_models_for_condition": "stage1_pickplace",
    "make_stage1_pickplace_env": "stage1_pickplace",
    "resolve_condition": "stage1_pickplace",
}


def __getattr__(name: str) -> object:
    if name in _HOME_OF_LAZY_NAME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF_LAZY_NAME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

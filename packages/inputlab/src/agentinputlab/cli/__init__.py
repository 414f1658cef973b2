"""The ``agentinputlab`` command: a table of commands, and each command in a module that loads when it is called."""

"""Methods that split a task into parts, or plan it, before the agent acts."""

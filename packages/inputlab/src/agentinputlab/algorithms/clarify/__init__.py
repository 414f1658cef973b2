"""Methods that decide whether to ask the user back, and what to ask."""

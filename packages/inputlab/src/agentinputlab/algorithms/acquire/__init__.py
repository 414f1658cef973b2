"""Methods that bring documents into the context."""

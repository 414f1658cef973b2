"""From measured signals to phases."""

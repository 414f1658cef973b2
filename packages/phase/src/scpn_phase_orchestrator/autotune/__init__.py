"""From data to a proposed spec."""

"""Training of an ego robot beside frozen partners."""

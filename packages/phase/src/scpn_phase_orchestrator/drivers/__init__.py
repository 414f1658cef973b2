"""Phases of an external drive as functions of time or step."""

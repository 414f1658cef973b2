"""Slow memory: exposure to coherence changes coupling, lag and growth."""

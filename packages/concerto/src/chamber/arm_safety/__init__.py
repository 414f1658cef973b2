"""Arm safety."""

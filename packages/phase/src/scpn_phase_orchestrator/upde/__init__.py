"""Engines that advance phases, and the measures of their order."""

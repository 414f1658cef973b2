"""The command ``chamber``."""

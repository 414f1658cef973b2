"""Runs: stepping a spec, recording it, replaying it, and the commands for it."""

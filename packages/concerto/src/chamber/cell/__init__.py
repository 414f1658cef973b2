"""A preregistered cell: what is run is fixed before, what happened can be checked after.

A :class:`Cell` is read from YAML, :func:`run_cell` runs it into a run folder, and :func:`read_cell_run` gives back,
from the event log alone, everything that the page and the tables are made of.
"""

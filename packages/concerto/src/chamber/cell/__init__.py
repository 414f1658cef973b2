"""A preregistered cell: what is run is fixed before, what happened can be checked after.

A :class:`~chamber.cell.config.Cell` is read from YAML, :func:`~chamber.cell.runner.run_cell` runs it into a run
folder, and :func:`~chamber.cell.record.read_cell_record` gives back, from the event log alone, everything that the page
and the tables are made of.
"""

"""``python -m ripieno`` is the ``ripieno`` command."""

from ripieno.cli import main

main()

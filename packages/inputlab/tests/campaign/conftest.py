"""The lab arena, installed the way an arena of another package is: by its entry point."""

import sys
from pathlib import Path

PLUGIN = Path(__file__).parent / "arena_plugin"
LEDGER_PLUGIN = Path(__file__).parents[1] / "ledgers" / "arena_plugin"  # kill_shim
for path in (PLUGIN, LEDGER_PLUGIN):
    sys.path.insert(0, str(path))

from workers.official_arenas.providers import installed_providers  # noqa: E402

installed_providers.cache_clear()

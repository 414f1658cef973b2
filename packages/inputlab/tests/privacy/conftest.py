"""The lab arena, installed the way an arena of another package is: by its entry point."""

import sys
from pathlib import Path

PLUGIN = Path(__file__).parents[1] / "campaign" / "arena_plugin"
sys.path.insert(0, str(PLUGIN))

from workers.official_arenas.providers import installed_providers  # noqa: E402

installed_providers.cache_clear()

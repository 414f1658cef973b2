"""Test modules of this folder share `chamber_command` by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

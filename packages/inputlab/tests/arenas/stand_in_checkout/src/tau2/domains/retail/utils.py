"""Stand-in paths."""

import os
from pathlib import Path

DATA_DIR = Path(os.environ.get("TAU2_DATA_DIR", Path(__file__).parents[4] / "data"))
RETAIL_DIR = DATA_DIR / "tau2" / "domains" / "retail"
RETAIL_DB_PATH = RETAIL_DIR / "db.json"

"""Sync and backfill runs, the Prefect flows around them, and the command line."""

import sys
from importlib import import_module
from pathlib import Path

# Prefect and `python -m` import modules with the current folder first on the path. That folder may have packages with
# the same names, so ours, next to this package, are imported first.
_HOME = str(Path(__file__).parents[1])
sys.path.insert(0, _HOME)
for _name in ("models", "connectors", "deployments"):
    import_module(_name)
sys.path.remove(_HOME)

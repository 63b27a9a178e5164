"""Sync and backfill runs, the Prefect flows around them, and the command line."""

import sys
from importlib import import_module
from pathlib import Path

# Prefect imports a flow, and `python -m` any module, with the current folder first on the path. That folder may have
# packages of the same names; ours are beside this one.
_HOME = str(Path(__file__).parents[1])
sys.path.insert(0, _HOME)
for _name in ("models", "connectors", "deployments"):
    import_module(_name)
sys.path.remove(_HOME)

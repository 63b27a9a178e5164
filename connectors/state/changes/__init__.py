"""Numbered files of SQL, each of which changes the schema of an older state; see `connectors/state/database.py`."""

"""Rebuild, compact, forget, retention, and the repair of times."""

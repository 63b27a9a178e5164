"""How old a partition may become before it is stale."""

from datetime import timedelta

STALE_AFTER = timedelta(hours=36)
"""A nightly run may fail once, and what it scans is still fresh when the next one ends."""

"""Hypothesis settings: a few fixed examples, or `STATEFUL_EXAMPLES` random and longer ones."""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = int(os.environ.get("STATEFUL_EXAMPLES", "0"))

# No deadline: even a small merge takes a tenth of a second, and an example takes seconds.
SETTINGS = settings(
    max_examples=_EXAMPLES or 4,
    stateful_step_count=40 if _EXAMPLES else 20,
    derandomize=not _EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)

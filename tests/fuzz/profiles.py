"""Hypothesis settings: a few fixed examples, or `FUZZ_EXAMPLES` random ones."""

import os
from datetime import timedelta

from hypothesis import HealthCheck, settings

_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))

# No example takes a second: one that reaches this deadline hangs.
_HANGS = timedelta(seconds=30)


def looking(short: int, *, share: float = 1.0) -> settings:
    """Return settings with `short` examples, or with `share` of FUZZ_EXAMPLES if it is set."""
    return settings(
        max_examples=max(1, int(_EXAMPLES * share)) if _EXAMPLES else short,
        derandomize=not _EXAMPLES,
        database=None,
        deadline=_HANGS,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )

"""How long to look: short and the same every time, or `FUZZ_EXAMPLES` times as it happens."""

import os
from datetime import timedelta

from hypothesis import HealthCheck, settings

_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))

# Nothing here takes a second: what takes so long that this is met hangs.
_HANGS = timedelta(seconds=30)


def looking(short: int, *, share: float = 1.0) -> settings:
    """So many examples in the short profile, and `share` of FUZZ_EXAMPLES in the long one."""
    return settings(
        max_examples=max(1, int(_EXAMPLES * share)) if _EXAMPLES else short,
        derandomize=not _EXAMPLES,
        database=None,
        deadline=_HANGS,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )

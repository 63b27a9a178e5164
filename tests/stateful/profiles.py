"""How long to look: the same few stories every time, or `STATEFUL_EXAMPLES` others, and longer ones."""

import os

from hypothesis import HealthCheck, Phase, Verbosity, settings

_EXAMPLES = int(os.environ.get("STATEFUL_EXAMPLES", "0"))

# A merge takes a tenth of a second, whatever it merges: a story is told in seconds, and no deadline fits it.
LOOKING = settings(
    max_examples=_EXAMPLES or 4,
    stateful_step_count=40 if _EXAMPLES else 20,
    derandomize=not _EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def finding(examples: int) -> settings:
    """Look until something is found, in the same stories every time, and do not look for the shortest."""
    return settings(
        LOOKING,
        max_examples=examples,
        stateful_step_count=20,
        derandomize=True,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )

"""The command line as a process of its own: `gramhouse`, or `python -m flows.cli`."""

import os
import sys

from flows.cli.fast_import import importing
from flows.cli.output.streams import keep_usable

# DuckDB imports pandas, where it is installed, to see whether a value is one of its, and pyarrow numpy: a second.
# httpx imports a command line of its own, with whatever draws it, and does without where there is none.
_LEFT_OUT = ("pandas", "numpy", "httpx._main")


def run() -> None:
    """Run what was typed, and exit with its code."""
    keep_usable()
    # What Arrow's own allocator has freed it keeps: 60 MB of a first sync.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for name in _LEFT_OUT:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    with importing():
        from flows.cli.app import main

    main()


if __name__ == "__main__":
    run()

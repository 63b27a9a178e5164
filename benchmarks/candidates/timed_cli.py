"""The gramhouse command line with timers around its merges; the last line on stderr is their total as JSON.

    python -m benchmarks.candidates.timed_cli backfill --account ID ... --json

A run merges while it fetches, so the cost of merging cannot be derived from the time of the whole process.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from pkgutil import resolve_name

from flows.cli.__main__ import run
from flows.process import prepare_process


class Timer:
    """Adds up the time spent in a function."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def wrap(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return the function with this timer around it."""

        @wraps(function)
        def timed(*args: object, **kwargs: object) -> object:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - began
                self.calls += 1

        return timed

    def install(self, place: str, name: str) -> None:
        """Time a function of a module or class, also in every module that has imported it."""
        owner = resolve_name(place)
        function = getattr(owner, name)
        timed = self.wrap(function)
        for namespace in (owner, *sys.modules.values()):
            for attribute, value in list(getattr(namespace, "__dict__", {}).items()):
                if value is function:
                    setattr(namespace, attribute, timed)


def main() -> None:
    """Run the command and print the time of merges and publishing."""
    merge, publish = Timer(), Timer()
    # The command line prevents the import of numpy and pandas first.
    prepare_process()
    # With the commit of the merge.
    merge.install("flows.engine.warehouse:Files", "merge_next")
    publish.install("connectors.warehouse.publish.publish", "publish")
    try:
        run()
    finally:
        timings = {
            "merge_seconds": merge.seconds,
            "merges": merge.calls,
            "publish_seconds": publish.seconds,
        }
        print("\n" + json.dumps(timings), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

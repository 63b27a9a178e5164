"""gramhouse with a watch on its merges: the same command line, whose last line says how long they took in all.

    python -m benchmarks.timed backfill --account ID ... --json

A run merges while it fetches, so that no time of a whole process says what merging cost.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module

# Where merging, its commit included, has been; the first that is there is watched.
_MERGES = ("connectors.warehouse.warehouse:Warehouse._merge", "connectors.warehouse.merge.merge:merge")
_PUBLISHES = ("connectors.warehouse.snapshot.publish:publish",)


class Watch:
    """Adds up the seconds that a function took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def around(self, work: Callable[..., object]) -> Callable[..., object]:
        """Return the function, watched."""

        @wraps(work)
        def watched(*args: object, **kwargs: object) -> object:
            began = time.perf_counter()
            try:
                return work(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - began
                self.calls += 1

        return watched

    def put_on(self, indexes: tuple[str, ...]) -> None:
        """Watch the first of these functions that exists, by whatever name modules have it."""
        for index in indexes:
            room, _, path = index.partition(":")
            *owners, name = path.split(".")
            holder: object = import_module(room)
            for owner in owners:
                holder = getattr(holder, owner, None)
            if (work := getattr(holder, name, None)) is not None:
                watched = self.around(work)
                for module in (holder, *sys.modules.values()):
                    for known, value in list(getattr(module, "__dict__", {}).items()):
                        if value is work:
                            setattr(module, known, watched)
                return
        message = f"none of these is there any more: {', '.join(indexes)}"
        raise LookupError(message)


def main() -> None:
    """Run what was typed, and say how long the merges and the publishing took."""
    from flows.cli.__main__ import run  # noqa: PLC0415 - as the command itself begins

    import_module("connectors.warehouse.warehouse")
    merge, publish = Watch(), Watch()
    merge.put_on(_MERGES)
    publish.put_on(_PUBLISHES)
    try:
        run()
    finally:
        watched = {
            "merge_seconds": merge.seconds,
            "merges": merge.calls,
            "publish_seconds": publish.seconds,
        }
        print("\n" + json.dumps(watched), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

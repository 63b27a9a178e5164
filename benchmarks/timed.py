"""gramhouse with a watch on its folds: the same command line, whose last line says how long they took in all.

    python -m benchmarks.timed backfill --account ID ... --json

A run folds while it fetches, so that no time of a whole process says what folding cost.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module

# Where folding, its commit included, has been; the first that is there is watched.
_FOLDS = ("connectors.warehouse.writer:Warehouse._fold", "connectors.warehouse.fold:fold")
_PUBLISHES = ("connectors.warehouse.publish:publish",)


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

    def put_on(self, places: tuple[str, ...]) -> None:
        """Watch the first of these functions that exists, by whatever name modules have it."""
        for place in places:
            room, _, path = place.partition(":")
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
        message = f"none of these is there any more: {', '.join(places)}"
        raise LookupError(message)


def main() -> None:
    """Run what was typed, and say how long the folds and the publishing took."""
    from flows.cli.__main__ import run  # noqa: PLC0415 - as the command itself begins

    import_module("connectors.warehouse.writer")
    fold, publish = Watch(), Watch()
    fold.put_on(_FOLDS)
    publish.put_on(_PUBLISHES)
    try:
        run()
    finally:
        watched = {
            "fold_seconds": fold.seconds,
            "folds": fold.calls,
            "publish_seconds": publish.seconds,
        }
        print("\n" + json.dumps(watched), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

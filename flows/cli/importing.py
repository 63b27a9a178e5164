"""Importing much at once, as a command does before its work begins."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import without looking for garbage: modules leave none, and looking took a ninth of a sync's start.

    Afterwards what was imported is no longer looked through: it stays as long as the process does. At its end it is, or
    DuckDB 2 would say on standard error that it leaks.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)
        gc.enable()

"""Importing much at once, as a command does before its work begins."""

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import without looking for garbage: modules leave none, and looking took a ninth of a sync's start.

    Afterwards what was imported is no longer looked through, not even at the process's end: freeing each class of it
    took another fifth of a short sync's CPU, and the system frees it all the same.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(_unfreeze)
        gc.enable()


def _unfreeze() -> None:
    """Let DuckDB 2 be freed at the end, or it would report leaks on standard error."""
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and not str(duckdb.__version__).startswith("1."):
        gc.unfreeze()

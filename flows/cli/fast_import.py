"""Faster imports of many modules, without garbage collection."""

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection in the block: imports leave no garbage, and it took a ninth of a sync's start.

    Imported objects are also excluded from later collections, including the one at the end of the process: freeing each
    class took another fifth of a short sync's CPU time, and the system frees the memory anyway.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(_unfreeze)
        gc.enable()


def _unfreeze() -> None:
    """Make the final collection free DuckDB 2, which would otherwise report leaks on standard error."""
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and not str(duckdb.__version__).startswith("1."):
        gc.unfreeze()

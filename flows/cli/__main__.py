"""The entry point of the command line: `gramhouse`, or `python -m flows.cli`.

It imports little: until `run`, Ctrl-C is a traceback.
"""

import gc
import os
import signal
import sys

from flows.cli.output.streams import keep_usable

# Optional modules whose import is prevented, because it takes a second: DuckDB imports pandas, if it is installed, to
# check types of values, pyarrow numpy, and httpx its own command line.
_LEFT_OUT = frozenset({"pandas", "numpy", "httpx._main"})

# The new objects after which Python looks for cycles. With its default, 700, that takes a twentieth of a sync.
_OBJECTS = 10_000

# glibc's parameter for the size in bytes from which an allocation has its own mapping, and the size that is set.
_MMAP_THRESHOLD, _LARGE = -3, 1024 * 1024


class _WithoutOptionalModules:
    """Finds no optional module. None in `sys.modules` prevents an import too, but pyarrow takes it for a module."""

    def find_spec(self, fullname: str, path: object, target: object = None, /) -> None:  # noqa: ARG002 - its signature
        if fullname in _LEFT_OUT:
            raise ModuleNotFoundError(fullname, name=fullname)


def _return_large_allocations() -> None:
    """Return every large allocation to the system when it is freed: 40 MB in a first sync.

    By default glibc raises the threshold up to 32 MB, and keeps what is smaller. The user's own has precedence.
    """
    if "MALLOC_MMAP_THRESHOLD_" in os.environ or sys.platform != "linux":
        return
    import ctypes

    # Other C libraries have no such function.
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE)


def prepare_process() -> None:
    """Prevent imports of optional modules and frequent searches for cycles, and return freed memory to the system.

    Call it before importing pyarrow.
    """
    # Arrow's own allocator does not return freed memory to the system, 60 MB in a first sync.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Pydantic would read the metadata of all installed packages, to find its plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _return_large_allocations()
    gc.set_threshold(_OBJECTS)
    sys.meta_path.insert(0, _WithoutOptionalModules())


def run() -> None:
    """Run the command line, and exit with its code."""
    # Ctrl-C ends the process, as other signals do. A shell's background command ignores it.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    keep_usable()
    prepare_process()
    from flows.cli.app import main

    try:
        main()
    finally:
        # Otherwise Python looks for cycles among all objects before it ends, which takes 0.2 s after a sync.
        gc.freeze()


if __name__ == "__main__":
    run()

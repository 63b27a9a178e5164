"""What a process that runs gramhouse alone leaves out, so that it starts sooner and needs less memory.

It imports little, because the command line imports it first.
"""

import gc
import os
import sys

# Optional modules whose import is prevented, because it takes a second: DuckDB imports pandas, if it is installed, to
# check types of values, pyarrow numpy, and httpx its own command line.
_LEFT_OUT = frozenset({"pandas", "numpy", "httpx._main"})

# The new objects after which Python looks for cycles. With its default, 700, that takes a twentieth of a sync.
_OBJECTS = 10_000

# Parameters of glibc's mallopt, and their values. By default the size in bytes from which an allocation has its own
# mapping rises up to 32 MB, and what is smaller is kept: 40 MB in a first sync. Threads have up to 16 arenas, each of
# which keeps what it freed: 30 MB.
_MMAP_THRESHOLD, _ARENA_MAX = (-3, 1024 * 1024), (-8, 2)


class _WithoutOptionalModules:
    """Finds no optional module. None in `sys.modules` prevents an import too, but pyarrow takes it for a module."""

    def find_spec(self, fullname: str, path: object, target: object = None, /) -> None:  # noqa: ARG002 - its signature
        if fullname in _LEFT_OUT:
            raise ModuleNotFoundError(fullname, name=fullname)


def prepare_process() -> None:
    """Prevent imports of optional modules and frequent searches for cycles, and return freed memory to the system.

    Call it before importing pyarrow, or else what is freed stays with pyarrow.
    """
    # Arrow's own allocator does not return freed memory to the system, 60 MB in a first sync.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Pydantic would read the metadata of all installed packages, to find its plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - not needed elsewhere

        # Other C libraries have no such function.
        if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
            mallopt(*_MMAP_THRESHOLD)
            mallopt(*_ARENA_MAX)
    gc.set_threshold(_OBJECTS)
    sys.meta_path.insert(0, _WithoutOptionalModules())

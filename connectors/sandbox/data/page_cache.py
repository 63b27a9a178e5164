"""A cache of the most recently requested pages, with a limit in bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

# The memory for a key, an entry and a bytes object, in addition to the body.
_OVERHEAD = 400


class PageCache:
    """A least-recently-used cache; a capacity of 0 keeps nothing."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()
        self.held = 0

    def get(self, key: Hashable) -> bytes | None:
        """Return a cached page, or None."""
        page = self._pages.get(key)
        if page is not None:
            self._pages.move_to_end(key)
        return page

    def put(self, key: Hashable, page: bytes) -> None:
        """Add a page, and evict the least recently used ones until all fit."""
        known = self._pages.pop(key, None)
        if known is not None:
            self.held -= len(known) + _OVERHEAD
        self._pages[key] = page
        self.held += len(page) + _OVERHEAD
        while self.held > self._capacity and self._pages:
            _, oldest = self._pages.popitem(last=False)
            self.held -= len(oldest) + _OVERHEAD

    def clear(self) -> None:
        """Remove all pages."""
        self._pages.clear()
        self.held = 0

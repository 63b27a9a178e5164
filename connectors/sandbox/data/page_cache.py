"""Rendered pages, the most recently asked for, never more than so many bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

# What a key, an entry and a bytes object weigh beside the body itself.
_OVERHEAD = 400


class PageCache:
    """Least recently used pages go first. A capacity of 0 keeps nothing."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()
        self.held = 0

    def get(self, key: Hashable) -> bytes | None:
        """Return a page that is still here."""
        page = self._pages.get(key)
        if page is not None:
            self._pages.move_to_end(key)
        return page

    def put(self, key: Hashable, page: bytes) -> None:
        """Keep a page and let the oldest go until all fit."""
        known = self._pages.pop(key, None)
        if known is not None:
            self.held -= len(known) + _OVERHEAD
        self._pages[key] = page
        self.held += len(page) + _OVERHEAD
        while self.held > self._capacity and self._pages:
            _, oldest = self._pages.popitem(last=False)
            self.held -= len(oldest) + _OVERHEAD

    def clear(self) -> None:
        """Let every page go."""
        self._pages.clear()
        self.held = 0

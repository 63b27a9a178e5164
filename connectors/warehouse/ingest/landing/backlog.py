"""The amount of landed data that is not merged; decides when to merge and when to pause landing."""

from collections import deque

# The size in bytes of a session's first merge, smaller than others so that the merging thread does not idle at first.
# Many small merges cost more than a few large ones: if the server is fast, even a second small merge is a loss.
_FIRST = 2 * 1024 * 1024


class Backlog:
    """The sizes of landed page commits that are not merged, in the order of landing. Not thread-safe; no IO."""

    def __init__(self, merge_bytes: int) -> None:
        """Begin with an empty backlog; a merge is worthwhile from `merge_bytes` of pages on."""
        self._merge_bytes = merge_bytes
        self._waiting: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._enough = min(_FIRST, merge_bytes)

    def add(self, last: int, size: int) -> None:
        """Add page commits that landed together: `last` is the last one's number, `size` the bytes of all pages."""
        self._waiting.append((last, size))
        self._bytes += size

    def forget(self, last: int) -> None:
        """Remove the page commits up to this number, because they are merged."""
        before = self._bytes
        while self._waiting and self._waiting[0][0] <= last:
            self._bytes -= self._waiting.popleft()[1]
        # A smaller merge, as at the beginning of a run, does not count as the first one.
        if before - self._bytes >= self._enough:
            self._enough = self._merge_bytes

    @property
    def merge_is_due(self) -> bool:
        """Whether there is enough for a merge."""
        return self._bytes >= self._enough

    @property
    def landing_must_wait(self) -> bool:
        """Whether there is a full batch in addition to the one being merged; landing then waits for the merge."""
        return self._bytes >= self._enough + self._merge_bytes

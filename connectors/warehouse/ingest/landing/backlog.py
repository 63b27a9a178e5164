"""The amount of landed data that is not merged; decides when to merge and when to pause landing."""

from collections import deque

# As much as a session's first merge takes (bytes), or a core would have nothing to do until there is more. Many small
# merges cost more than few large ones: from a server that is near, a second small one is a loss already.
_FIRST = 2 * 1024 * 1024


class Backlog:
    """What has landed, in the order of landing, until it is merged; for one thread alone. No IO."""

    def __init__(self, merge_bytes: int) -> None:
        """Begin with nothing; about `merge_bytes` of pages are worth a merge."""
        self._merge_bytes = merge_bytes
        self._waiting: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._enough = min(_FIRST, merge_bytes)

    def add(self, last: int, size: int) -> None:
        """Count what landed together: the number of the last landing, and the bytes of all pages."""
        self._waiting.append((last, size))
        self._bytes += size

    def forget(self, last: int) -> None:
        """Forget what landed up to this number: it is merged."""
        before = self._bytes
        while self._waiting and self._waiting[0][0] <= last:
            self._bytes -= self._waiting.popleft()[1]
        # What is less, as at the beginning of a run, is no first merge.
        if before - self._bytes >= self._enough:
            self._enough = self._merge_bytes

    @property
    def is_worth_a_merge(self) -> bool:
        """Whether enough waits for a merge."""
        return self._bytes >= self._enough

    @property
    def is_plenty(self) -> bool:
        """Whether a full batch waits besides the one being merged; then landing waits for that merge."""
        return self._bytes >= self._enough + self._merge_bytes

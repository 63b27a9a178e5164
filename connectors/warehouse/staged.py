"""How much has landed and is not folded, and what follows from it: when to fold, and when to land no more."""

from collections import deque

# As much as a session's first fold takes (bytes): what has been fetched by then would otherwise wait for more, with a
# core that has nothing to do.
_FIRST = 2 * 1024 * 1024


class Staged:
    """What has landed, in the order of landing, until it is folded; for one thread alone. No IO."""

    def __init__(self, fold_bytes: int) -> None:
        """Begin with nothing; about `fold_bytes` of pages are worth a fold."""
        self._fold_bytes = fold_bytes
        self._waiting: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._folded_bytes = 0

    def add(self, last: int, size: int) -> None:
        """Count what landed together: the number of the last landing, and the bytes of all pages."""
        self._waiting.append((last, size))
        self._bytes += size

    def forget(self, last: int) -> None:
        """Forget what landed up to this number: it is folded."""
        while self._waiting and self._waiting[0][0] <= last:
            _, size = self._waiting.popleft()
            self._bytes -= size
            self._folded_bytes += size

    @property
    def is_worth_a_fold(self) -> bool:
        """Whether as much waits as was folded before, or as is worth a fold at all.

        Small folds cost more an item, so they are for the beginning.
        """
        return self._bytes >= min(max(_FIRST, self._folded_bytes), self._fold_bytes)

    @property
    def is_plenty(self) -> bool:
        """Whether twice as much waits as a fold takes: whoever lands more waits for the fold that is under way."""
        return self._bytes >= 2 * self._fold_bytes

"""What has landed and is not merged: decides when to merge and when to pause landing."""

from collections import deque
from collections.abc import Sequence

from connectors.warehouse.merge.landed import OUTCOME_BYTES
from models.page_commit import PageCommit

# The size in bytes of a session's first merge, smaller than others so that the merging thread does not idle at first.
# Many small merges cost more than a few large ones: if the server is fast, even a second small merge is a loss.
_FIRST = 2 * 1024 * 1024


class Backlog:
    """The sizes of landed page commits that are not merged, in the order of landing. Not thread-safe; no IO."""

    def __init__(self, merge_bytes: int) -> None:
        """Begin with an empty backlog; a merge is worthwhile from `merge_bytes` on."""
        self._merge_bytes = merge_bytes
        self._sizes: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._enough = min(_FIRST, merge_bytes)

    def add(self, last: int, commits: Sequence[PageCommit]) -> None:
        """Add page commits that landed together, up to the landing number `last`."""
        pages = sum(len(commit.page.body) for commit in commits if commit.page is not None)
        size = pages + OUTCOME_BYTES * sum(len(commit.outcomes) for commit in commits)
        self._sizes.append((last, size))
        self._bytes += size

    def forget(self, last: int) -> None:
        """Remove the page commits up to this number, because they are merged."""
        before = self._bytes
        while self._sizes and self._sizes[0][0] <= last:
            self._bytes -= self._sizes.popleft()[1]
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

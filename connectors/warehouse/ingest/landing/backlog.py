"""What has landed and is not merged: decides when to merge and when to pause landing, and has the last checkpoints."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from connectors.warehouse.ingest.landing.batches import MOST_RECORDS, records_in
from models.checkpoint import Checkpoint, RunKind
from models.page_commit import PageCommit
from models.partition import Partition

# The size in bytes of a session's first merge, smaller than others so that the merging thread does not idle at first.
# Many small merges cost more than a few large ones: if the server is fast, even a second small merge is a loss.
_FIRST = 2 * 1024 * 1024


class Backlog:
    """Landed page commits that are not merged, in the order of landing. Not thread-safe; no IO."""

    def __init__(self, merge_bytes: int) -> None:
        """Begin with an empty backlog; a merge is worthwhile from `merge_bytes` of pages on, or many commits."""
        self._merge_bytes = merge_bytes
        self._sizes: deque[tuple[int, int, int]] = deque()
        self._bytes = self._records = 0
        self._enough = min(_FIRST, merge_bytes)
        self._checkpoints: dict[tuple[Partition, RunKind], tuple[int, Checkpoint]] = {}

    def add(self, after: int, commits: Sequence[PageCommit]) -> None:
        """Add page commits that landed together; they are numbered from `after` + 1."""
        size = sum(len(commit.page.body) for commit in commits if commit.page is not None)
        records = sum(map(records_in, commits))
        self._sizes.append((after + len(commits), size, records))
        self._bytes += size
        self._records += records
        for seq, commit in enumerate(commits, after + 1):
            if (checkpoint := commit.checkpoint) is not None:
                self._checkpoints[checkpoint.partition, checkpoint.run_kind] = seq, checkpoint

    def forget(self, last: int) -> None:
        """Remove the page commits up to this number, because they are merged."""
        before = self._bytes
        while self._sizes and self._sizes[0][0] <= last:
            _, size, records = self._sizes.popleft()
            self._bytes -= size
            self._records -= records
        # A smaller merge, as at the beginning of a run, does not count as the first one.
        if before - self._bytes >= self._enough:
            self._enough = self._merge_bytes
        self._checkpoints = {key: found for key, found in self._checkpoints.items() if found[0] > last}

    def checkpoints(self, account_ids: Collection[str], run_kind: RunKind) -> Mapping[Partition, Checkpoint]:
        """Return the last checkpoint of each of these accounts' partitions that has one in the backlog."""
        wanted = set(account_ids)
        return {
            partition: checkpoint
            for (partition, its_run_kind), (_, checkpoint) in self._checkpoints.items()
            if its_run_kind == run_kind and partition.account_id in wanted
        }

    @property
    def merge_is_due(self) -> bool:
        """Whether there is enough for a merge."""
        return self._bytes >= self._enough or self._records >= MOST_RECORDS

    @property
    def landing_must_wait(self) -> bool:
        """Whether there is a full batch in addition to the one being merged; landing then waits for the merge."""
        return self._bytes >= self._enough + self._merge_bytes or self._records >= 2 * MOST_RECORDS

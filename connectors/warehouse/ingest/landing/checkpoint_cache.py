"""Checkpoints of landed pages that are not merged, and therefore not in a table yet."""

from collections.abc import Collection, Iterable, Mapping

from models.checkpoint import Checkpoint, RunKind
from models.page_commit import PageCommit
from models.partition import Partition


class CheckpointCache:
    """The last landed checkpoint of each partition and run kind, until it is merged. Not thread-safe."""

    def __init__(self) -> None:
        self._last: dict[tuple[Partition, RunKind], tuple[int, Checkpoint]] = {}

    def add(self, landings: Iterable[PageCommit], *, after: int) -> None:
        """Add the checkpoints of page commits, which are numbered from `after` + 1."""
        for seq, landing in enumerate(landings, after + 1):
            if (checkpoint := landing.checkpoint) is not None:
                self._last[checkpoint.partition, checkpoint.run_kind] = seq, checkpoint

    def forget(self, last: int) -> None:
        """Remove checkpoints that landed up to this number, because they are in the tables now."""
        self._last = {key: (seq, checkpoint) for key, (seq, checkpoint) in self._last.items() if seq > last}

    def of(self, resource: str, account_ids: Collection[str], run_kind: RunKind) -> Mapping[Partition, Checkpoint]:
        """Return the cached checkpoints of these accounts' partitions."""
        wanted = set(account_ids)
        return {
            partition: checkpoint
            for (partition, its_run_kind), (_, checkpoint) in self._last.items()
            if its_run_kind == run_kind and partition.resource == resource and partition.account_id in wanted
        }

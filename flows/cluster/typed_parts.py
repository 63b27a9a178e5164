"""Moves the items of a log entry's pages to a typed part, without the texts that the warehouse has."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connectors.warehouse.ingest.split import NotAPage, hash_of, raw_items
from connectors.warehouse.ingest.typed_part import PageItems, encode_items
from connectors.warehouse.runs.stored_hashes import HASH
from connectors.warehouse.schema.field_registry import own_names
from models.checkpoint import ScanState
from models.page_commit import PageCommit
from models.page_items import ids_of
from models.partition import Partition
from models.schema.fields import OwnNames, Registry
from models.schema.mapping import Mapping as MediaMapping


def hashes_in(joined: bytes) -> frozenset[bytes]:
    """Return hashes that were joined."""
    return frozenset(joined[at : at + HASH] for at in range(0, len(joined), HASH))


@dataclass(slots=True)
class TypedPartWriter:
    """Makes the typed parts of one attempt at a batch, in the order of its entries.

    `stored`: the joined hashes of the stored items of a partition. An item is left out of the part only while nothing
    else was sent for its id: then its stored row is still the one with this hash when the loader merges the part.
    """

    mapping: MediaMapping
    registry: Registry
    stored: Mapping[Partition, bytes]
    _hashes: dict[Partition, Collection[bytes]] = field(default_factory=dict)
    _sent: dict[Partition, set[str]] = field(default_factory=dict)
    _own: OwnNames = field(init=False)

    def __post_init__(self) -> None:
        """Read the reserved names."""
        self._own = own_names(self.mapping)

    def move_items(self, commits: tuple[PageCommit, ...]) -> tuple[tuple[PageCommit, ...], bytes | None]:
        """Return the commits without the bodies of media pages, and the part with their items, None if there are none.

        A page that cannot be split keeps its body.
        """
        pages, rest = [], []
        for index, commit in enumerate(commits):
            page = commit.page
            if page is None or page.partition.resource != "media" or not page.scan_id:
                rest.append(commit)
                continue
            try:
                raw = raw_items(page.body.encode())
            except NotAPage:
                rest.append(commit)
                continue
            hashes = list(map(hash_of, raw))
            sent = self._sent_of(page.partition, page.body, raw, hashes)
            pages.append(PageItems(index, page.received_at, sent, hashes))
            rest.append(replace(commit, page=replace(page, body="")))
            if commit.checkpoint is not None and commit.checkpoint.state is not ScanState.SCANNING:
                # Frees memory. If the partition is scanned again in this batch, they are read again.
                self._hashes.pop(page.partition, None)
        if not pages:
            return commits, None
        part, self.registry = encode_items(pages, self.registry, self.mapping, self._own)
        return tuple(rest), part

    def _sent_of(
        self, partition: Partition, body: str, raw: Sequence[bytes], hashes: Sequence[bytes]
    ) -> Sequence[bytes]:
        if partition not in self.stored:
            return raw
        known = self._hashes.get(partition)
        if known is None:
            known = self._hashes[partition] = hashes_in(self.stored[partition])
        sent = self._sent.setdefault(partition, set())
        wanted = []
        for media_id, one, digest in zip(ids_of(body, self.mapping), raw, hashes, strict=True):
            if digest in known and media_id not in sent:
                wanted.append(b"")
            else:
                sent.add(media_id)
                wanted.append(one)
        return wanted

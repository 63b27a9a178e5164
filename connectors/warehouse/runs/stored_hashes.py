"""The hashes of stored items, for workers: they do not send items whose bytes the warehouse has."""

from collections.abc import Collection, Iterator

from connectors.warehouse.storage.connection import Connection
from models.partition import Partition, media

# Bytes of a hash.
HASH = 16

_HASHES = f"""
SELECT account_id, surface, list(payload_hash) AS hashes FROM (
    SELECT account_id, surface, payload_hash
    FROM core.media SEMI JOIN (SELECT unnest(?::VARCHAR[]) AS account_id) USING (account_id)
    WHERE octet_length(payload_hash) = {HASH}
    LIMIT ?
)
GROUP BY account_id, surface
"""  # noqa: S608 - constants


def joined_hashes(connection: Connection, account_ids: Collection[str], *, most: int) -> list[tuple[Partition, bytes]]:
    """Return the hashes of the stored items of these accounts by partition, joined; at most `most` hashes."""
    return list(_joined(connection, account_ids, most))


def _joined(connection: Connection, account_ids: Collection[str], most: int) -> Iterator[tuple[Partition, bytes]]:
    found = connection.db.execute(_HASHES, [list(account_ids), most]).to_arrow_table()
    for batch in found.to_batches():
        accounts, surfaces = batch["account_id"].to_pylist(), batch["surface"].to_pylist()
        for account_id, surface, hashes in zip(accounts, surfaces, batch["hashes"], strict=True):
            # Values of one length are contiguous in the array's buffer.
            values = hashes.values
            joined = values.buffers()[2].slice(HASH * values.offset, HASH * len(values))
            yield media(account_id, surface), joined.to_pybytes()

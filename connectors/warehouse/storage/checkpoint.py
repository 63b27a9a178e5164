"""Checkpoints of the warehouse file."""

from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.durable import logs

# The most bytes of the file and its WAL for which a fast checkpoint is better than a small file.
_SMALL_BYTES = 8 * 1024 * 1024


def checkpoint(connection: Connection) -> None:
    """Write the contents of the WAL to the warehouse file. Call it outside of a transaction. Raises duckdb.Error.

    In a small file texts are not compressed with FSST: trying it takes half of the time of a checkpoint.
    """
    file, db = connection.path, connection.db
    is_small = sum(each.stat().st_size for each in (file, *logs(file)) if each.exists()) <= _SMALL_BYTES
    db.execute(f"SET disabled_compression_methods = '{'fsst' if is_small else ''}'")
    db.execute("CHECKPOINT")
    # Large inserts are compressed when they are committed, before the next checkpoint.
    db.execute("RESET disabled_compression_methods")

"""What the warehouse's file says about itself: which state and raw store belong to it, and how its items were read."""

from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.sql import quoted
from models.files import Identity
from models.item import CONTENT_RULE
from models.mapping import READING_TYPES, MediaMapping


@dataclass(frozen=True, slots=True)
class WarehouseRow:
    """The row of core.warehouse; its columns are described in schema/0001.sql."""

    schema_number: int
    merged_seq: int
    raw_seq: int
    id: str
    token: str
    token_before: str | None
    mapping_text: str | None
    content_rule: int | None

    @property
    def mapping(self) -> MediaMapping | None:
        """Return the mapping in force, with which all items were read; None before the first opening."""
        return None if self.mapping_text is None else MediaMapping.from_json(self.mapping_text)

    @property
    def identity(self) -> Identity:
        """Return what the state's file is compared with."""
        return Identity(self.token, self.merged_seq, self.token_before)


def read_warehouse(db: DuckDBPyConnection) -> WarehouseRow:
    """Return what the warehouse says about itself, in the open transaction."""
    [row] = db.execute("FROM core.warehouse").fetchall()
    return WarehouseRow(*row)


def write_token(db: DuckDBPyConnection, token: str, *, before: str | None) -> None:
    """Store the token of this opening, and the one before while the state may still have it."""
    db.execute("UPDATE core.warehouse SET token = ?, token_before = ?", [token, before])


def drop_inferred(db: DuckDBPyConnection) -> None:
    """Drop the columns of core.media that are not its own, which alone have comments, in the open transaction."""
    inferred = "FROM duckdb_columns() SELECT column_name WHERE schema_name = 'core' AND table_name = 'media'"
    for (name,) in db.execute(f"{inferred} AND comment IS NULL").fetchall():
        db.execute(f"ALTER TABLE core.media DROP COLUMN {quoted(name)}")


def adopt_mapping(db: DuckDBPyConnection, mapping: MediaMapping) -> bool:
    """Put the mapping in force if no items were read with another one; return whether it changed.

    Views name each mapped column, so core.media has them before the first item. Fields of items that were forgotten
    are registered no more: a mapped column may have their name.
    """
    before = read_warehouse(db).mapping
    if before == mapping or db.execute("FROM core.media LIMIT 1").fetchall():
        return False
    drop_inferred(db)
    db.execute("DELETE FROM core.fields WHERE len(kinds) > 0")
    for column in mapping.columns:
        kind = READING_TYPES[column.reading]
        db.execute(f"ALTER TABLE core.media ADD COLUMN IF NOT EXISTS {quoted(column.column)} {kind}")
    db.execute("UPDATE core.warehouse SET mapping = ?, content_rule = ?", [mapping.to_json(), CONTENT_RULE])
    return before is not None

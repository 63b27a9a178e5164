"""What the warehouse's file says about itself: which state and raw store belong to it, and how its items were read."""

from duckdb import DuckDBPyConnection

from models.identity import Identity
from models.item import CONTENT_RULE
from models.mapping import Mapping


def read_identity(db: DuckDBPyConnection) -> Identity:
    """Return what the state's file is compared with."""
    [row] = db.execute("SELECT token, merged_seq, token_before FROM core.warehouse").fetchall()
    return Identity(*row)


def write_token(db: DuckDBPyConnection, token: str, *, before: str | None) -> None:
    """Store the token of this opening, and the one before while the state may still have it."""
    db.execute("UPDATE core.warehouse SET token = ?, token_before = ?", [token, before])


def read_id(db: DuckDBPyConnection) -> str:
    """Return the warehouse's id."""
    [(found,)] = db.execute("SELECT id FROM core.warehouse").fetchall()
    return str(found)


def read_merged(db: DuckDBPyConnection) -> int:
    """Return the landing up to which everything is merged."""
    [(merged_seq,)] = db.execute("SELECT merged_seq FROM core.warehouse").fetchall()
    return int(merged_seq)


def read_raw_seq(db: DuckDBPyConnection) -> int:
    """Return the number of the last part of the raw store; 0 before any."""
    [(raw_seq,)] = db.execute("SELECT raw_seq FROM core.warehouse").fetchall()
    return int(raw_seq)


def read_mapping(db: DuckDBPyConnection) -> Mapping | None:
    """Return the mapping in force, with which all items were read; None before the first opening."""
    [(text,)] = db.execute("SELECT mapping FROM core.warehouse").fetchall()
    return None if text is None else Mapping.from_json(text)


def is_content_rule_old(db: DuckDBPyConnection) -> bool:
    """Return whether the hashes of content were computed by the rule of another release."""
    [(rule,)] = db.execute("SELECT content_rule FROM core.warehouse").fetchall()
    return rule not in (None, CONTENT_RULE)


def adopt_mapping(db: DuckDBPyConnection, mapping: Mapping) -> bool:
    """Put the mapping in force if no items were read with another one; return whether it changed."""
    before = read_mapping(db)
    if before == mapping or db.execute("FROM core.media LIMIT 1").fetchall():
        return False
    db.execute("UPDATE core.warehouse SET mapping = ?, content_rule = ?", [mapping.to_json(), CONTENT_RULE])
    return before is not None

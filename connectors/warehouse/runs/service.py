"""The service that a warehouse belongs to; prevents filling it from another one by mistake."""

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.errors import OtherService

# A warehouse is new until its first pages are merged.
_IS_NEW = """
SELECT NOT EXISTS (
    SELECT 1 FROM ops.service UNION ALL SELECT 1 FROM core.accounts UNION ALL SELECT 1 FROM core.media
    UNION ALL SELECT 1 FROM core.completed_scans
)
"""

_BIND_NEW = """
INSERT INTO ops.service
SELECT r.base_url FROM pages AS p JOIN core.runs AS r USING (run_id)
WHERE r.base_url IS NOT NULL ORDER BY p.seq LIMIT 1
"""


def bound_to(connection: Connection) -> str | None:
    """Return the address of the service that filled the warehouse; None if it is not recorded yet."""
    found = connection.db.execute("SELECT base_url FROM ops.service").fetchone()
    return None if found is None else str(found[0])


def check_service(connection: Connection, base_url: str) -> None:
    """Raise OtherService, which names both addresses, if the warehouse was filled from another service.

    Addresses are normalized by `connectors.source.base_url.normalized`.
    """
    if (refusal := service_refusal(bound_to(connection), base_url)) is not None:
        raise OtherService(refusal)


def service_refusal(bound: str | None, base_url: str) -> str | None:
    """Return why a warehouse that is bound to an address is not filled from another one; None if it is the same."""
    if bound in {None, base_url}:
        return None
    return (
        f"This warehouse was filled from {bound}, but the configured address is {base_url}. Fix: set"
        " GRAMHOUSE_BASE_URL back,"
        " use another warehouse, or accept the new address with `gramhouse sync --rebind`."
    )


def bind_service(connection: Connection, base_url: str) -> None:
    """Bind the warehouse to an address. Drops cursors and cooldowns if it was bound to another one."""
    bound = bound_to(connection)
    if bound == base_url:
        return
    db = connection.db
    db.execute("DELETE FROM ops.service")
    db.execute("INSERT INTO ops.service (base_url) VALUES (?)", [base_url])
    if bound is not None:
        db.execute("UPDATE ops.checkpoints SET state = 'abandoned', cursor = NULL WHERE state = 'scanning'")
        db.execute("DELETE FROM ops.cooldowns")


def bind_new_warehouse(db: DuckDBPyConnection) -> None:
    """Bind a warehouse without merged data to the service that the pages of a merge came from."""
    if value(db, _IS_NEW):
        db.execute(_BIND_NEW)

"""The service that a warehouse belongs to; prevents filling it from another one by mistake."""

from duckdb import DuckDBPyConnection
from sqlalchemy import delete, insert, select, update

from connectors.warehouse.storage.compiled import ops_checkpoints, ops_cooldowns, ops_service, run
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.errors import OtherService
from models.checkpoint import ScanState

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
    found = run(connection, select(ops_service.c.base_url)).fetchone()
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
    run(connection, delete(ops_service))
    run(connection, insert(ops_service).values(base_url=base_url))
    if bound is not None:
        scanning = update(ops_checkpoints).where(ops_checkpoints.c.state == ScanState.SCANNING)
        run(connection, scanning.values(state=ScanState.ABANDONED, cursor=None))
        run(connection, delete(ops_cooldowns))


def bind_new_warehouse(db: DuckDBPyConnection) -> None:
    """Bind a warehouse without merged data to the service that the pages of a merge came from."""
    if value(db, _IS_NEW):
        db.execute(_BIND_NEW)

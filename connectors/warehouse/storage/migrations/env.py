"""Alembic's entry point: uses the connection that it is passed, in the open transaction.

DuckDB cannot alter a table that the same transaction has updated. So a revision that fills columns does it in a
function `fill`, which is called with the connection once all revisions have altered their tables.
"""

from collections.abc import Callable

from alembic import context
from alembic.runtime.migration import MigrationInfo
from alembic.script import Script
from sqlalchemy import Connection

from connectors.warehouse.storage.migrations.revisions import SCHEMA

_connection = context.config.attributes["connection"]
_fills: list[Callable[[Connection], None]] = []


def _applied(ctx: object, step: MigrationInfo, heads: object, run_args: object) -> None:  # noqa: ARG001
    modules = [revision.module for revision in step.up_revisions if isinstance(revision, Script)]
    _fills.extend(module.fill for module in modules if hasattr(module, "fill"))


context.configure(
    connection=_connection,
    on_version_apply=_applied,
    version_table_schema=SCHEMA,
    # No table in the warehouse has a key.
    version_table_pk=False,
)
with context.begin_transaction():
    context.run_migrations()
    for fill in _fills:
        fill(_connection)

"""Alembic's entry point: uses the connection that it is passed, in the open transaction."""

from alembic import context

from connectors.warehouse.storage.migrations.revisions import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema=SCHEMA,
    # No table in the warehouse has a key.
    version_table_pk=False,
)
with context.begin_transaction():
    context.run_migrations()

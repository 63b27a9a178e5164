"""Declarations of all tables and columns, each with a comment.

Two files are declared here. `WAREHOUSE` is the writer's; `SNAPSHOT` is the analysts', with views over a copy of the
former. No table has a key or an index: in DuckDB they cost far more than they gain, so the merge ensures uniqueness.
"""

from models.tables.snapshot import SNAPSHOT
from models.tables.warehouse import (
    WAREHOUSE,
    core_accounts,
    core_children,
    core_fields,
    core_media,
    core_outcomes,
    core_quarantine,
    core_run_counts,
    core_runs,
    core_superseded,
    core_warnings,
    ops_checkpoints,
    ops_cooldowns,
    ops_mapping,
    ops_missing_accounts,
    ops_raw_parts,
    ops_service,
    ops_warehouse,
)

__all__ = [
    "SNAPSHOT",
    "WAREHOUSE",
    "core_accounts",
    "core_children",
    "core_fields",
    "core_media",
    "core_outcomes",
    "core_quarantine",
    "core_run_counts",
    "core_runs",
    "core_superseded",
    "core_warnings",
    "ops_checkpoints",
    "ops_cooldowns",
    "ops_mapping",
    "ops_missing_accounts",
    "ops_raw_parts",
    "ops_service",
    "ops_warehouse",
    "own_columns",
]


def own_columns(resource: str) -> set[str]:
    """Return the declared column names of `media` or a child table, which columns of fields must not use."""
    tables = [*WAREHOUSE.values(), *SNAPSHOT.values()]
    return {name for table in tables if resource in (table.name, table.versions_of) for name in table.column_names}

"""Declarations of the warehouse's tables and columns, each with a comment.

The analysts' file has a copy of them, with the views of `models/views`. No table has a key or an index: in DuckDB they
cost far more than they gain, so the merge ensures uniqueness.
"""

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
]

from collections.abc import Mapping

import pytest

from models.tables import SNAPSHOT, WAREHOUSE, core_media
from models.tables.columns import INSTANT
from models.tables.table import Table

BOTH = pytest.mark.parametrize("rig", [WAREHOUSE, SNAPSHOT], ids=["warehouse", "snapshot"])


@BOTH
def test_every_table_and_column_has_a_comment(rig: Mapping[str, Table]) -> None:
    for table in rig.values():
        assert table.comment, table
        for column in table.columns:
            assert column.comment, column
            assert column.comment[-1] == ".", column


@BOTH
def test_every_timestamp_has_a_time_zone(rig: Mapping[str, Table]) -> None:
    instants = [c for t in rig.values() for c in t.columns if c.name.endswith(("_at", "_from", "_to", "since"))]
    assert instants
    assert all(column.type == INSTANT for column in instants)


def test_a_column_of_the_snapshot_has_the_type_it_has_in_the_warehouse() -> None:
    for table in SNAPSHOT.values():
        if f"core.{table.name}" not in WAREHOUSE:
            assert table.name in ("media_history", "published", "gaps")
            continue
        core = WAREHOUSE[f"core.{table.name}"]
        in_warehouse = {column.name: column for column in core.columns}
        shared = [column for column in table.columns if column.name in in_warehouse]
        assert shared
        for column in shared:
            assert column.type == in_warehouse[column.name].type, column
            assert column.nullable == in_warehouse[column.name].nullable, column


def test_analysts_find_the_columns_they_were_promised() -> None:
    asked = {
        "accounts": "account_id ig_username public_id status token_expired_since first_seen_at last_seen_at removed_at",
        "account_status_history": "account_id status valid_from valid_to",
        "media": "account_id surface media_id ig_username media_type caption permalink media_url published_at"
        " like_count comments_count first_seen_at last_seen_at changed_at removed_at removal",
        "media_history": "account_id surface media_id valid_from valid_to media_type caption permalink published_at",
        "fields": "path column_name type first_seen_at last_type_change_at items",
        "quarantine": "reason payload run_id correlation_id seen_at",
        "run_outcomes": "outcome pages items error_code correlation_id resume_after started_at ended_at",
    }
    for name, columns in asked.items():
        assert set(columns.split()) <= set(SNAPSHOT[name].column_names)
    assert "payload_hash" not in SNAPSHOT["media"].column_names
    assert "payload_hash" in core_media.column_names

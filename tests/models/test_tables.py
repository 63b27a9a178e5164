import pytest
from sqlalchemy import MetaData

from models.tables import SNAPSHOT, WAREHOUSE, core_media

BOTH = pytest.mark.parametrize("rig", [WAREHOUSE, SNAPSHOT], ids=["warehouse", "snapshot"])


@BOTH
def test_every_table_and_column_has_a_comment(rig: MetaData) -> None:
    for table in rig.sorted_tables:
        assert table.comment, table
        for column in table.columns:
            assert column.comment, column
            assert column.comment[-1] == ".", column


@BOTH
def test_no_table_has_a_key_or_an_index(rig: MetaData) -> None:
    for table in rig.sorted_tables:
        assert not table.indexes
        assert not list(table.primary_key)
        assert not table.foreign_keys
        assert not any(column.unique or column.index for column in table.columns)


@BOTH
def test_every_timestamp_has_a_time_zone(rig: MetaData) -> None:
    instants = [c for t in rig.sorted_tables for c in t.columns if c.name.endswith(("_at", "_from", "_to", "since"))]
    assert instants
    assert all(getattr(column.type, "timezone", False) for column in instants)


def test_a_column_of_the_snapshot_has_the_type_it_has_in_the_warehouse() -> None:
    for table in SNAPSHOT.sorted_tables:
        if f"core.{table.name}" not in WAREHOUSE.tables:
            assert table.name in ("media_history", "published", "gaps")
            continue
        core = WAREHOUSE.tables[f"core.{table.name}"]
        shared = [column for column in table.columns if column.name in core.c]
        assert shared
        for column in shared:
            assert repr(column.type) == repr(core.c[column.name].type), column
            assert column.nullable == core.c[column.name].nullable, column


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
        assert set(columns.split()) <= set(SNAPSHOT.tables[name].c.keys())
    assert "payload_hash" not in SNAPSHOT.tables["media"].c
    assert "payload_hash" in core_media.c

import pytest

from models.views import MEDIA, own_columns, views
from tests.warehouse.rig import opened


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The comments of the columns of a new warehouse, by table."""
    query = "SELECT table_name, map(list(column_name), list(comment)) FROM duckdb_columns() WHERE schema_name = 'core'"
    with opened(tmp_path_factory.mktemp("warehouse")) as rig:
        return dict(rig.db.execute(f"{query} GROUP BY 1").fetchall())


def test_columns_of_fields_use_no_name_of_a_declared_column(tables: dict[str, dict[str, str]]) -> None:
    assert tables["media"].keys() | tables["media_versions"].keys() <= own_columns(MEDIA)


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
        assert set(columns.split()) <= views()[name].columns.keys()
    assert "payload_hash" not in views()["media"].columns

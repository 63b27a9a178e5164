import re

import pytest

from connectors.warehouse.storage.declared import TABLES
from models.views import View, own_columns, views

VIEWS = pytest.mark.parametrize("view", views().values(), ids=views())


@VIEWS
def test_a_view_is_one_query_and_has_descriptions(view: View) -> None:
    for comment in (view.comment, *view.columns.values()):
        assert comment.endswith(".")
    assert view.columns
    assert "--" not in view.comment + view.select
    assert ";" not in view.select
    assert view.select.startswith(("SELECT", "WITH"))


@VIEWS
def test_a_column_that_a_view_copies_from_a_table_is_described_alike(view: View) -> None:
    table = TABLES.get(f"core.{view.name}")
    declared = {} if table is None else table.comments
    copied = set(re.findall(r"^    (?:\w+\.)?(\w+),?$", view.select, re.MULTILINE)) & declared.keys()
    assert copied or table is None
    assert {name: view.columns[name] for name in copied} == {name: declared[name] for name in copied}


def test_a_view_is_created_after_the_views_that_it_reads() -> None:
    names = list(views())
    assert names.index("media") < names.index("post_performance") < names.index("best_hour")
    for view in views().values():
        assert all(names.index(read) < names.index(view.name) for read in view.reads if read in views())


@pytest.mark.parametrize(
    ("resource", "tables"), [("media", ["media", "media_superseded"]), ("media_children", ["media_children"])]
)
def test_columns_of_fields_use_no_name_of_a_declared_column(resource: str, tables: list[str]) -> None:
    declared = {name for table in tables for name in TABLES[f"core.{table}"].types}
    assert declared <= own_columns(resource)


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

"""Items in unusual shapes: every row lands, and every value is in a typed column."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.schema.mapping_built_in import BUILT_IN
from tests.e2e.expected import expected_media, media_id
from tests.e2e.processes import KEY, Operator, OperatorHere, SandboxProcess
from tests.e2e.sync.registered import Registry, assert_every_value_has_its_column, json_types_met, registry, rows_of
from tests.model import reading
from tests.model.reading import Item

pytestmark = pytest.mark.e2e

Key = tuple[str, str, str]
Serve = Callable[..., SandboxProcess]
Work = Callable[..., tuple[Operator, SandboxProcess]]

# For each shape, the columns that all items have, and those that some have.
FILLED = {
    "graph": ({"media_type", "permalink", "media_url", "published_at", "like_count", "comments_count"}, {"caption"}),
    "drift": ({"media_type", "permalink", "media_url"}, {"caption", "published_at", "like_count", "comments_count"}),
}


@pytest.fixture
def work(serve: Serve, tmp_path: Path) -> Work:
    def begin(shape: str, *, page_size: int = 5, **options: int) -> tuple[Operator, SandboxProcess]:
        service = serve(shape=shape, seed=11, **options)
        env = {
            "GRAMHOUSE_BASE_URL": service.url,
            "GRAMHOUSE_API_KEY": KEY,
            "GRAMHOUSE_PAGE_SIZE": str(page_size),
        }
        return OperatorHere(tmp_path / "rig", env), service

    return begin


def paired(operator: Operator, truth: dict[Key, Item]) -> list[tuple[Item, dict[str, Any]]]:
    rows = {(row["account_id"], row["surface"], row["media_id"]): row for row in rows_of(operator, "FROM media")}
    assert rows.keys() == truth.keys()
    return [(item, rows[key]) for key, item in truth.items()]


def assert_children(operator: Operator, truth: dict[Key, Item], path: str, table: str, fields: Registry) -> int:
    rows = {
        (row["account_id"], row["surface"], row["media_id"], row["position"]): row
        for row in rows_of(operator, f'FROM "{table}"')
    }
    children = {
        (*key, index): child
        for key, item in truth.items()
        for index, child in enumerate(reading.at(item, path) or ())
        if isinstance(child, dict)
    }
    assert rows.keys() == children.keys()
    pairs = [(child, rows[key]) for key, child in children.items()]
    assert_every_value_has_its_column(table, pairs, fields, json_types_met(table, children.values()))
    if table == "media_children":
        for key, child in children.items():
            for column in BUILT_IN.child_columns:
                assert rows[key][column.column] == reading.canonical(child, column)
    return len(children)


@pytest.mark.parametrize("shape", list(FILLED))
def test_all_rows_and_values_are_kept(shape: str, work: Work) -> None:
    operator, service = work(shape, accounts=6, posts=40, stories=4)
    report = operator.sync()
    assert report["state"] == "complete"
    truth = expected_media(service)
    assert len(truth) > 150
    pairs = paired(operator, truth)
    always, sometimes = FILLED[shape]
    for column in BUILT_IN.columns:
        values = [reading.canonical(item, column) for item, _ in pairs]
        assert [row[column.column] for _, row in pairs] == values
        assert column.column not in always or None not in values
        assert column.column not in sometimes or {type(value) for value in values} > {type(None)}
    fields = registry(operator)
    own = assert_every_value_has_its_column("media", pairs, fields, json_types_met("media", truth.values()))
    assert operator.ask("SELECT count(*) FROM quarantine") == [(0,)]
    began, ended = operator.ask("SELECT started_at, ended_at FROM runs")[0]
    outside = "SELECT path FROM fields WHERE NOT first_seen_at BETWEEN $1 AND $2 OR last_type_change_at > $2"
    assert operator.ask(f"{outside} OR last_type_change_at <= first_seen_at", [began, ended]) == []
    lists = {path: field for (of, path), field in fields.items() if of == "media" and field.type == "ROWS"}
    for path, field in lists.items():
        assert assert_children(operator, truth, path, field.column or "", fields) > 0
    assert lists.keys() == {"/children/data", *(["/productTags"] if shape == "drift" else [])}
    wanted = {
        "graph": {"/owner/id": "owner__id", "/is_comment_enabled": "is_comment_enabled"},
        "drift": {
            "/insights/per_day/first": "insights__per_day__first",
            "/location/geo/lng": "location__geo__lng",
            "/fullSize/aspectRatio": "full_size__aspect_ratio",
        },
    }[shape]
    assert {path: fields["media", path].column for path in wanted} == wanted
    assert wanted.keys() <= own


def test_names_can_be_written_without_quotes_and_paths_lead_to_the_payload(work: Work) -> None:
    operator, service = work("drift", accounts=4, posts=40, stories=1)
    operator.sync()
    truth = expected_media(service)
    fields = registry(operator)
    names = [
        field.column
        for (of, _), field in fields.items()
        if of == "media" and field.column is not None and field.type != "ROWS"
    ]
    discovered = set(names) - {column.column for column in BUILT_IN.columns} - {"media_id"}
    assert len(discovered) > 80
    # Candidate paths of a canonical column share its name; every other name belongs to one path.
    assert all(names.count(name) == 1 for name in discovered)
    listed = ", ".join(f"{name}, m.{name} AS {name}_again" for name in sorted(discovered))
    rows = rows_of(operator, f"SELECT {listed} FROM media AS m WHERE removed_at IS NULL")
    assert len(rows) == len(truth)
    assert all(name == name.lower() and name.replace("_", "a").isalnum() and len(name) <= 63 for name in discovered)
    declared = {row[0] for row in operator.ask("SELECT column_name FROM duckdb_columns() WHERE table_name = 'media'")}
    assert discovered <= declared
    carried: dict[str, int] = defaultdict(int)
    for item in truth.values():
        for path, _, _ in reading.leaves(item):
            carried[path] += 1
    paths = list(carried)
    counts = ", ".join("count(*) FILTER (json_type(payload, ?) <> 'NULL')" for _ in paths)
    (found,) = operator.ask(f"SELECT {counts} FROM raw_media", paths)
    assert dict(zip(paths, found, strict=True)) == carried


def test_widening_a_type_also_widens_stored_values(work: Work) -> None:
    operator, service = work("drift", accounts=5, posts=40, stories=0)
    operator.sync()
    before = registry(operator)["media", "/boost/level"]
    assert (before.type, before.changed) == ("BIGINT", False)
    service.day(1)
    operator.sync()
    after = registry(operator)["media", "/boost/level"]
    assert (after.column, after.type, after.changed) == (before.column, "VARCHAR", True)
    changed, second = operator.ask(
        "SELECT (SELECT last_type_change_at FROM fields WHERE resource = 'media' AND path = '/boost/level'),"
        " max(started_at) FROM runs"
    )[0]
    assert changed > second
    truth = expected_media(service)
    stored = {(row["account_id"], row["surface"], row["media_id"]): row for row in rows_of(operator, "FROM media")}
    there = {key: row for key, row in stored.items() if row["removed_at"] is None and key[0] not in service.expired()}
    assert there.keys() >= truth.keys()
    levels = {reading.text_of(reading.at(item, "/boost/level")) for item in truth.values()}
    assert {"1", "level 1", None} <= levels
    for key, item in truth.items():
        assert there[key]["boost__level"] == reading.text_of(reading.at(item, "/boost/level"))
        assert media_id(item) == key[2]

"""The tables of a time are what the snapshot of that day showed; fields with names of our own SQL change nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse.queries.export import export
from flows.reporting.page import write_page
from models.mapping import BUILT_IN, to_keys
from models.views import MEDIA, own_columns, views
from tests.warehouse.days import BEN, POSTS, STORIES, Days, Item, account, ask, at, opened_days


def post(number: int, likes: int, caption: str = "first", **more: object) -> Item:
    counts = {"like_count": likes, "view_count": 10 * likes}
    return {"id": str(number), **counts, "caption": caption, "media_type": "IMAGE", **more}


def scan_nights(days: Days, folder: Path, first: Item, then: Item) -> dict[float, Path]:
    """Scan once a day, and publish after each; return the snapshots by hour.

    Items have the fields `first` besides, and when one is edited `then`.
    """
    anna, ben, expired = account(name="anja"), account(BEN, name="ben"), account(name="anja", status="token_expired")
    nights: list[tuple[list[Item], list[Item], list[Item]]] = [
        ([account(), ben], [post(1, 5), post(2, 6, "x")], [{"id": "s"}]),
        ([anna, ben], [post(1, 7), post(2, 6, "y")], []),
        ([expired], [post(1, 7)], [{"id": "s2"}]),
        ([anna], [post(1, 4, "edited"), post(3, 1, tags=["a"])], [{"id": "s2"}]),
        ([anna, ben], [post(2, 8, "y"), {"id": "3"}], []),
    ]
    saved = {}
    for night, (accounts, posts, stories) in enumerate(nights):
        hour = 24.0 * night
        days.run(f"night-{night}", hour)
        days.catalogue(hour, accounts)
        more = [then if one.get("caption") == "edited" else first for one in posts]
        listed = [{**each, **one, "children": [{"id": "c", **each}]} for one, each in zip(posts, more, strict=True)]
        days.scan(POSTS, hour + 1, listed)
        days.scan(STORIES, hour + 2, [{**first, **one} for one in stories])
        saved[hour + 3] = days.publish(folder / f"{night}.duckdb", hour=hour + 3)
    saved[99] = days.publish(folder / "last.duckdb", hour=99)
    return saved


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    folder = tmp_path_factory.mktemp("nights")
    with opened_days(folder) as days:
        return scan_nights(days, folder, {}, {})


@pytest.mark.parametrize("night", range(5))
def test_a_time_shows_the_items_and_accounts_that_its_snapshot_showed(saved: dict[float, Path], night: int) -> None:
    hour, last = 24.0 * night + 3, saved[99]
    # What a scan missed, and a later one confirmed as removed, was not listed any more.
    query = f"SELECT media_id FROM item_events WHERE event = 'removed' AND changed_at <= '{at(hour)}'"
    gone = {media_id for (media_id,) in ask(last, query)} if night < 4 else set()
    columns = "surface, media_id, ig_username, kind, caption, like_count, view_count, first_seen_at, content_changed_at"
    of_now = columns.replace("ig_username", "'anja' AS ig_username")
    shown = ask(saved[hour], f"SELECT {of_now} FROM media WHERE removed_at IS NULL ORDER BY ALL")
    assert ask(last, f"SELECT {columns} FROM media_at('{at(hour)}') ORDER BY ALL") == [
        row for row in shown if row[1] not in gone
    ]
    columns = "account_id, ig_username, public_id, status, token_expired_since, first_seen_at"
    listed = "removed_at IS NULL AND missing_since IS NULL"
    accounts = ask(saved[hour], f"SELECT {columns} FROM accounts WHERE {listed} ORDER BY ALL")
    assert ask(last, f"SELECT {columns} FROM accounts_at('{at(hour)}') ORDER BY ALL") == accounts


ROOT = Path(__file__).parents[3]
FOLDERS = ("models", "connectors/warehouse", "flows")

# `x AS name`, `name AS (`, `lambda name:`; uppercase words are types, as in CAST(x AS BIGINT).
NAMED = re.compile(r'\bAS "?([a-z_]\w*)|\b([a-z_]\w*) AS \(|\blambda ([a-z_]\w*):')

READ = {
    key for column in (*BUILT_IN.columns, *BUILT_IN.child_columns) for path in column.paths for key in to_keys(path)
}
READ |= {key for path in (*BUILT_IN.media_id, *BUILT_IN.children) for key in to_keys(path)}

# What of the views depends on the fields of items, the file or the clock.
OTHERWISE = {
    "fields": ["*"], "published": ["*"], "changes": ["columns"], "item_events": ["changes"],
    "media_superseded": ["columns"], "media_history": ["columns"], "freshness": ["stale_for", "age_seconds"],
}  # fmt: skip


def helper_names() -> list[str]:
    """All names of this kind in our SQL, without those of fields that the built-in mapping reads."""
    files = [file for folder in FOLDERS for kind in ("sql", "py") for file in (ROOT / folder).rglob(f"*.{kind}")]
    found = {"".join(names) for file in files for names in NAMED.findall(file.read_text(encoding="utf-8"))}
    return sorted(found - READ)


def made(folder: Path, first: Item, then: Item) -> dict[str, Any]:
    """Make a warehouse whose items have these fields, and a snapshot; return what it shows besides them."""
    with opened_days(folder) as days:
        scan_nights(days, folder, first, then)
        hidden = days.publish(hide=("caption", "ig_username:hash"))
        found = {"hidden": ask(hidden, "SELECT media_id, metric, value FROM media_metrics ORDER BY ALL")}
        snapshot = days.publish(may_show=True)
    for name, view in views().items():
        if columns := [one for one in view.columns if not {one, "*"} & {*OTHERWISE.get(name, ())}]:
            found[name] = ask(snapshot, f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL")
    return {**found, "report": write_page(snapshot, folder / "report.html").html}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is shown of the same items without these fields."""
    return made(tmp_path_factory.mktemp("plain"), {}, {})


@pytest.mark.long
# Every second name, so that all fit in the columns of a table.
@pytest.mark.parametrize(("first", "values"), [(0, ("a", "b")), (1, ("a", "b")), (0, ([1], [2, 3])), (1, ([1], [2]))])
def test_fields_with_the_names_of_our_sql_change_nothing_else(
    first: int, values: tuple[Any, Any], expected: dict[str, Any], tmp_path: Path
) -> None:
    names = helper_names()[first::2]
    assert made(tmp_path, *(dict.fromkeys(names, value) for value in values)) == expected
    snapshot = tmp_path / "analytics.duckdb"
    columns = sorted({name for name, *_ in ask(snapshot, "DESCRIBE media")} & {*names} - own_columns(MEDIA))
    assert {*columns} >= {"day", "gh_row", "one"} & {*names}
    chosen = ", ".join(f'"{name}"' for name in columns)
    # A list is JSON text.
    value = values[1] if isinstance(values[1], str) else str(values[1]).replace(" ", "")
    assert ask(snapshot, f"SELECT DISTINCT {chosen} FROM media WHERE surface = 'posts' AND media_id = '1'") == [
        (value,) * len(columns)
    ]
    export(snapshot, tmp_path / "export")

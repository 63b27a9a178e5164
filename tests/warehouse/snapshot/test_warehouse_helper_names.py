"""Fields of items that have the names by which our own SQL calls its tables, columns and windows."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse.queries.export import export
from connectors.warehouse.queries.reader import open_snapshot
from flows.reporting.page.write import write_page
from models.mapping import BUILT_IN, to_keys
from models.partition import media
from models.views import MEDIA, own_columns, views
from tests.operator import run_here, use_empty_folder
from tests.warehouse.days import BEN, POSTS, STORIES, Days, Item, account, ask, opened_days

ROOT = Path(__file__).parents[3]
FOLDERS = ("models", "connectors/warehouse", "flows")

# `x AS name`, `name AS (`, `lambda name:`; uppercase words are types, as in CAST(x AS BIGINT).
NAMED = re.compile(r'\bAS "?([a-z_]\w*)|\b([a-z_]\w*) AS \(|\blambda ([a-z_]\w*):')

READ = {
    key for column in (*BUILT_IN.columns, *BUILT_IN.child_columns) for path in column.paths for key in to_keys(path)
}
READ |= {key for path in (*BUILT_IN.media_id, *BUILT_IN.children) for key in to_keys(path)}

# What of the views depends on the fields of items, the file or the clock; a view without columns is left out.
OTHERWISE: dict[str, tuple[str, ...]] = {
    "fields": (),
    "published": (),
    "changes": ("columns",),
    "item_events": ("changes",),
    "media_superseded": ("columns",),
    "media_history": ("columns",),
    "freshness": ("stale_for", "age_seconds"),
}

COMMANDS = (("changes", "--json"), ("accounts", "--json"), ("describe", "--json"))


def helper_names() -> list[str]:
    """All names of this kind in our SQL, without those of fields that the built-in mapping reads."""
    files = [file for folder in FOLDERS for kind in ("sql", "py") for file in (ROOT / folder).rglob(f"*.{kind}")]
    found = {"".join(names) for file in files for names in NAMED.findall(file.read_text(encoding="utf-8"))}
    return sorted(found - READ)


def test_the_names_are_found() -> None:
    assert {"gh_row", "gh_column", "one", "day", "n"} <= {*helper_names()}


def halves() -> list[list[str]]:
    """The names in parts that fit in the columns of a table."""
    names = helper_names()
    return [names[::2], names[1::2]]


def fill(days: Days, more: Sequence[Item]) -> None:
    """Two versions of each item, one of which is removed, and listed again; `more` are the fields of each version."""

    def post(number: int, version: int) -> Item:
        counts = {"like_count": 90 + 10 * number + version, "comments_count": version}
        children = [{"id": "a", **more[version]}, {"id": "b"}]
        of_item = {"caption": f"caption {version}", "timestamp": f"2026-03-0{number}T02:00:00Z", "children": children}
        return {"id": str(number), **counts, **of_item, **more[version]}

    days.run("run-1", 0)
    days.catalogue(0, [account(), account(BEN, name="ben")])
    days.scan(POSTS, 0, [post(n, 0) for n in range(1, 6)])
    days.scan(STORIES, 0, [post(1, 0)])
    days.scan(media(BEN, "posts"), 0, [post(7, 0)])
    days.scan(POSTS, 240, [post(n, 1) for n in range(1, 6)])
    days.scan_twice(POSTS, 264, [post(n, 1) for n in range(1, 5)])
    days.scan(POSTS, 312, [post(5, 1), *(post(n, 1) for n in range(1, 4)), {"id": "4", **more[1]}])


def shown(snapshot: Path) -> dict[str, Any]:
    """The columns of each view that do not depend on the fields of items."""
    columns = {
        name: [column for column in view.columns if column not in OTHERWISE.get(name, ())]
        for name, view in views().items()
        if OTHERWISE.get(name) != ()
    }
    return {
        name: ask(snapshot, f"SELECT {', '.join(of_view)} FROM {name} ORDER BY ALL")
        for name, of_view in columns.items()
    }


def rows_of(snapshot: Path) -> list[dict[str, Any]]:
    with open_snapshot(snapshot) as opened:
        return opened.query("FROM media WHERE surface = 'posts' AND media_id = '1'").records()


def made(folder: Path, *more: Item) -> dict[str, Any]:
    """Make a warehouse whose items have these fields, and a snapshot; return what it shows."""
    with opened_days(folder) as days:
        fill(days, more)
        found: dict[str, Any] = {}
        hidden = days.publish(hide=("caption", "ig_username:hash"))
        found["hidden"] = ask(hidden, "SELECT media_id, metric, value FROM media_metrics ORDER BY ALL")
        snapshot = days.publish(may_show=True)
        found["merged"] = shown(snapshot)
        found["report"] = write_page(snapshot, folder / "report.html").html
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is shown of the same items without these fields."""
    return made(tmp_path_factory.mktemp("plain"), {}, {})


@pytest.mark.long
@pytest.mark.parametrize("values", [("a", "b"), ([1], [2, 3])], ids=["texts", "lists"])
@pytest.mark.parametrize("names", halves(), ids=["first half", "second half"])
def test_fields_with_the_names_of_our_sql_change_nothing_else(
    names: Sequence[str],
    values: tuple[Any, Any],
    expected: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = (dict.fromkeys(names, value) for value in values)
    assert made(tmp_path, before, after) == expected

    snapshot = tmp_path / "analytics.duckdb"
    use_empty_folder(tmp_path, monkeypatch)
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(snapshot))
    for command in (*COMMANDS, ("explain", "1", "--json")):
        code, _, error = run_here(*command)
        assert (command, code, error) == (command, 0, "")
    [stored] = rows_of(snapshot)
    columns = stored.keys() & {*names} - own_columns(MEDIA)
    assert columns >= {"day", "gh_row", "one"} & {*names}
    # A list is JSON text.
    shown_after = {name: value if isinstance(value, str) else "[2,3]" for name, value in after.items()}
    assert {name: stored[name] for name in columns} == {name: shown_after[name] for name in columns}
    export(snapshot, tmp_path / "export")

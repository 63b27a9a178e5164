"""Fields of items that have the names by which our own SQL calls its tables, columns and windows."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse.maintenance.compact import rewrite_file
from connectors.warehouse.maintenance.forget import erase
from connectors.warehouse.maintenance.pending import Account, Erasure
from connectors.warehouse.snapshot.export import export
from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.connection import connect
from flows.reporting.page.write import write
from models.mapping import BUILT_IN
from models.partition import media
from models.pointer import to_keys
from models.schema.fields import MEDIA
from models.views import own_columns, views
from tests.cli_runner import Cli, use_empty_folder
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, Item, Rig, account, ask, at

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
    "freshness": ("stale_for", "age_seconds"),
}

COMMANDS = (("changes", "--json"), ("accounts", "--json"), ("describe", "--json"))


def helper_names() -> list[str]:
    """All names of this kind in our SQL, without those of fields that the built-in mapping reads."""
    files = [file for folder in FOLDERS for kind in ("sql", "py") for file in (ROOT / folder).rglob(f"*.{kind}")]
    found = {"".join(names) for file in files for names in NAMED.findall(file.read_text(encoding="utf-8"))}
    return sorted(found - READ)


def test_the_names_are_found() -> None:
    assert {"_new", "_counts", "gh_row", "one", "day", "rank", "x"} <= {*helper_names()}


def halves() -> list[list[str]]:
    """The names in parts that fit in the columns of a table."""
    names = helper_names()
    return [names[::2], names[1::2]]


def fill(rig: Rig, more: Sequence[Item]) -> None:
    """Two versions of each item, one of which is removed, and listed again; `more` are the fields of each version."""

    def post(number: int, version: int) -> Item:
        counts = {"like_count": 90 + 10 * number + version, "comments_count": version}
        children = [{"id": "a", **more[version]}, {"id": "b"}]
        of_item = {"caption": f"caption {version}", "timestamp": f"2026-03-0{number}T02:00:00Z", "children": children}
        return {"id": str(number), **counts, **of_item, **more[version]}

    rig.run("run-1", 0)
    rig.catalogue("c1", 0, [account(), account(BEN, name="ben")])
    rig.scan(POSTS, "p1", 0, [post(n, 0) for n in range(1, 6)])
    rig.scan(STORIES, "s1", 0, [post(1, 0)])
    rig.scan(media(BEN, "posts"), "b1", 0, [post(7, 0)])
    rig.scan(POSTS, "p2", 240, [post(n, 1) for n in range(1, 6)])
    rig.scan_twice(POSTS, "p3", 264, [post(n, 1) for n in range(1, 5)])
    rig.scan(POSTS, "p4", 312, [post(5, 1), *(post(n, 1) for n in range(1, 4)), {"id": "4", **more[1]}])


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
    """Make a warehouse whose items have these fields, and a snapshot; return what it shows, also after a rebuild."""
    path, snapshot = folder / "warehouse.duckdb", folder / "analytics.duckdb"
    with connect(path) as connection:
        rig = Rig(connection)
        fill(rig, more)
        rig.publish(snapshot)
        found: dict[str, Any] = {"merged": shown(snapshot)}
        found["report"] = write(snapshot, folder / "report.html").html
        rig.publish(snapshot, hide=("caption", "ig_username:hash"))
        found["hidden"] = ask(snapshot, "SELECT media_id, metric, value FROM media_metrics ORDER BY ALL")
        rig.rebuild()
        rig.publish(snapshot)
        found["rebuilt"] = shown(snapshot)
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
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, after = (dict.fromkeys(names, value) for value in values)
    assert made(tmp_path, before, after) == expected

    path, snapshot = tmp_path / "warehouse.duckdb", tmp_path / "analytics.duckdb"
    use_empty_folder(tmp_path, monkeypatch)
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(snapshot))
    cli = Cli(monkeypatch, capsys)
    for command in (*COMMANDS, ("explain", "1", "--json")):
        code, _, error = cli(*command)
        assert (command, code, error) == (command, 0, "")
    [stored] = rows_of(snapshot)
    columns = stored.keys() & {*names} - own_columns(MEDIA)
    assert columns >= {"day", "gh_row", "one", "rank"} & {*names}
    assert {name: stored[name] for name in columns} == {name: after[name] for name in columns}
    export(snapshot, tmp_path / "export", at=at(501))
    rewrite_file(path)
    with connect(path) as connection:
        erase(connection, Erasure((Account(BEN),)), now=at(601), on_counted=lambda _: None)
        Rig(connection).publish(snapshot)
    assert ask(snapshot, "SELECT DISTINCT account_id FROM media") == [(ANNA,)]

"""What each run found, and the tables of a time; fields with names of our own SQL change nothing."""

import re
from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse.queries.export import export
from flows.reporting.page import write_page
from models.feeds import CATALOGUE
from models.mapping import BUILT_IN, to_keys
from models.views import MEDIA, own_columns, views
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, Item, Rig, account, ask, at, opened

CHANGES = 'SELECT run_id, media_id, change, "columns" FROM changes ORDER BY run_seq, media_id, changed_at, change'
CHILD = {"children": [{"id": "c"}]}
ONE, TWO = {"id": "1", "caption": "one", "like_count": 1}, {"id": "2", "caption": "two", "like_count": 1, **CHILD}


def test_each_item_has_a_row_for_each_run_that_found_something_new(rig: Rig) -> None:
    three = {"id": "3"}
    rig.run("run-0", 0, {}, (POSTS, 0, [ONE, TWO, three]))
    # Content and counts at once; counts alone; children alone, together with a field that is new.
    changed = [ONE | {"caption": "1", "like_count": 2}, TWO | {"like_count": 2}, three | CHILD]
    rig.run("run-1", 0, {}, (POSTS, 24, changed))
    # Several changes of an item in one run, the last of which takes one back.
    changed = [ONE | {"caption": "2", "extra": "x"}, TWO, three | CHILD]
    again = [ONE | {"caption": "3"}, TWO | {"like_count": 3}, three | CHILD]
    rig.run("run-2", 0, {}, (POSTS, 48, changed), (POSTS, 49, again))
    assert ask(rig.publish(), CHANGES) == [
        ("run-0", "1", "new", None), ("run-0", "2", "new", None), ("run-0", "3", "new", None),
        ("run-1", "1", "changed", ["caption"]), ("run-1", "2", "counted", None),
        ("run-1", "3", "changed", ["children"]),
        ("run-2", "1", "changed", ["caption", "extra"]), ("run-2", "2", "counted", None),
    ]  # fmt: skip


def test_removals_are_kept_when_an_item_returns(rig: Rig) -> None:
    story = {"id": "s", "published_at": at(-20).isoformat()}
    rig.run("run-0", 0, {}, (POSTS, 0, [ONE, TWO]), (STORIES, 1, [story]), (POSTS, 2, [TWO]), (POSTS, 24, [TWO]))
    # The post returns with other content, the story as it was; then both are gone again.
    rig.run("run-1", 0, {}, (STORIES, 25, []), (POSTS, 26, [ONE | {"caption": "1"}, TWO]))
    rig.run("run-2", 0, {}, (STORIES, 27, [story]), (POSTS, 28, [TWO]), (POSTS, 48, [TWO]), (STORIES, 49, []))
    snapshot = rig.publish()
    assert ask(snapshot, f"FROM ({CHANGES}) WHERE media_id <> '2'") == [
        ("run-0", "1", "new", None), ("run-0", "1", "removed", None), ("run-0", "s", "new", None),
        ("run-1", "1", "changed", ["caption"]), ("run-1", "1", "returned", None), ("run-1", "s", "expired", None),
        ("run-2", "1", "removed", None), ("run-2", "s", "returned", None), ("run-2", "s", "expired", None),
    ]  # fmt: skip
    numbers = ask(snapshot, "SELECT run_id, added, changed, removed, expired, returned FROM runs ORDER BY seq")
    assert numbers == [("run-0", 3, 0, 1, 0, 0), ("run-1", 0, 1, 0, 1, 1), ("run-2", 0, 0, 1, 1, 1)]
    times = "SELECT change, changed_at FROM changes WHERE media_id = '1' AND starts_with(change, 're') ORDER BY ALL"
    assert ask(snapshot, times) == [("removed", at(2)), ("removed", at(28)), ("returned", at(26))]


ACCOUNTS = """
SELECT run_id, change, old_ig_username, new_ig_username FROM account_changes
WHERE run_id <> 'run-0' OR change <> 'new' ORDER BY run_seq, changed_at, change DESC
"""


def test_accounts_are_renamed_and_back_and_removed_and_listed_again(rig: Rig) -> None:
    other = account(BEN, name="other")
    renamed = account(name="anna2", status="token_expired")
    rig.run("run-0", 0, {}, (CATALOGUE, 0, [account(), other]), (CATALOGUE, 1, [renamed, other]))
    rig.run("run-1", 0, {}, (CATALOGUE, 2, [account(), other]), (CATALOGUE, 3, [other]), (CATALOGUE, 16, [other]))
    rig.run("run-2", 0, {}, (CATALOGUE, 17, [account(status="token_expired"), other]))
    assert ask(rig.publish(), ACCOUNTS) == [
        ("run-0", "token_expired", None, None), ("run-0", "renamed", "anna", "anna2"),
        ("run-1", "renamed", "anna2", "anna"), ("run-1", "active", None, None), ("run-1", "removed", None, None),
        ("run-2", "token_expired", None, None), ("run-2", "returned", None, None),
    ]  # fmt: skip
    names = (
        "SELECT DISTINCT old_ig_username, new_ig_username, ig_username FROM account_changes WHERE change = 'renamed'"
    )
    assert ask(rig.publish(hide=["ig_username"]), names) == [(ANNA, ANNA, ANNA)]
    hashed = "SELECT a.old_ig_username = b.new_ig_username AND length(a.old_ig_username) = 32 FROM account_changes"
    same = f"{hashed} AS a JOIN account_changes AS b ON a.new_ig_username = b.old_ig_username"
    assert ask(rig.publish(hide=["username:hash"], may_show=True), same) == [(True,), (True,)]


def post(number: int, likes: int, caption: str = "first", **more: object) -> Item:
    counts = {"like_count": likes, "view_count": 10 * likes}
    return {"id": str(number), **counts, "caption": caption, "media_type": "IMAGE", **more}


def scan_nights(rig: Rig, folder: Path, first: Item, then: Item) -> dict[float, Path]:
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
        rig.run(f"night-{night}", hour)
        rig.scan(CATALOGUE, hour, accounts)
        more = [then if one.get("caption") == "edited" else first for one in posts]
        listed = [{**each, **one, "children": [{"id": "c", **each}]} for one, each in zip(posts, more, strict=True)]
        rig.scan(POSTS, hour + 1, listed)
        rig.scan(STORIES, hour + 2, [{**first, **one} for one in stories])
        saved[hour + 3] = rig.publish(folder / f"{night}.duckdb", hour=hour + 3)
    saved[99] = rig.publish(folder / "last.duckdb", hour=99)
    return saved


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    folder = tmp_path_factory.mktemp("nights")
    with opened(folder) as rig:
        return scan_nights(rig, folder, {}, {})


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


@pytest.mark.parametrize("other", ["1.2k", 0.5])
def test_a_time_shows_counts_of_a_field_that_also_has_other_values(rig: Rig, other: object) -> None:
    rig.scan(CATALOGUE, 0, [account()])
    for day, seen in enumerate((5, 9, other, 20)):
        rig.scan(POSTS, 24 * day, [{"id": "1", "view_count": seen}])
    last = rig.publish(hour=99)
    shown = [ask(last, f"SELECT view_count FROM media_at('{at(24 * day + 1)}')")[0][0] for day in range(4)]
    assert [str(one).removesuffix(".0") for one in shown] == ["5", "9", str(other), "20"]
    history = ask(last, "SELECT view_count FROM media_history ORDER BY valid_from")
    assert [one and str(one) for (one,) in history] == [None, str(other), None]


def test_a_time_without_seconds_is_in_lists_and_in_versions(rig: Rig) -> None:
    rig.scan(CATALOGUE, 0, [account()])
    for day, caption in enumerate("ab"):
        told = {"edited": "2026-01-02T10:15Z", "notes": [{"said": "2026-01-02T10:15+01:00"}], "words": ["x", "y"]}
        rig.scan(POSTS, 24 * day, [{"id": "1", "caption": caption, **told}])
    last = rig.publish(hour=99)
    asked = "SELECT DISTINCT strftime({0} AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M') FROM {1}"
    assert ask(last, asked.format("edited", "media_history")) == [("2026-01-02 10:15",)]
    assert ask(last, asked.format("said", "media_notes")) == [("2026-01-02 09:15",)]
    assert ask(last, "SELECT value FROM media_words ORDER BY position") == [("x",), ("y",)]


ROOT = Path(__file__).parents[3]
FOLDERS = ("models", "connectors/warehouse", "flows")

# `x AS name`, `name AS (`, `lambda name:`; uppercase words are types, as in CAST(x AS BIGINT).
NAMED = re.compile(r'\bAS "?([a-z_]\w*)|\b([a-z_]\w*) AS \(|\blambda ([a-z_]\w*):')

PATHS = chain(*(column.paths for column in (*BUILT_IN.columns, *BUILT_IN.child_columns)))
READ = {key for path in (*PATHS, *BUILT_IN.media_id, *BUILT_IN.children) for key in to_keys(path)}

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
    with opened(folder) as rig:
        scan_nights(rig, folder, first, then)
        hidden = rig.publish(hide=("caption", "ig_username:hash"))
        found = {"hidden": ask(hidden, "SELECT media_id, metric, value FROM media_metrics ORDER BY ALL")}
        snapshot = rig.publish(may_show=True)
    for name, view in views().items():
        if columns := [one for one in view.columns if not {one, "*"} & {*OTHERWISE.get(name, ())}]:
            found[name] = ask(snapshot, f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL")
    return {**found, "report": write_page(snapshot, folder / "report.html").html}


@pytest.mark.long
def test_names_of_our_sql_change_nothing_else(tmp_path_factory: pytest.TempPathFactory) -> None:
    expected, names = made(tmp_path_factory.mktemp("plain"), {}, {}), helper_names()
    # Every second name, so that all fit in the columns of a table; as texts, and as lists, which are JSON text.
    for chosen, (first, then) in product((names[::2], names[1::2]), (("a", "b"), ([1], [2, 3]))):
        folder = tmp_path_factory.mktemp("named")
        assert made(folder, dict.fromkeys(chosen, first), dict.fromkeys(chosen, then)) == expected
        snapshot = folder / "analytics.duckdb"
        columns = sorted({name for name, *_ in ask(snapshot, "DESCRIBE media")} & {*chosen} - own_columns(MEDIA))
        assert {*columns} >= {"day", "gh_row", "one"} & {*chosen}
        values = ", ".join(f'"{name}"' for name in columns)
        shown = then if isinstance(then, str) else "[2,3]"
        assert ask(snapshot, f"SELECT DISTINCT {values} FROM media WHERE surface = 'posts' AND media_id = '1'") == [
            (shown,) * len(columns)
        ]
        export(snapshot, folder / "export")

"""The HTML report of real runs: its contents, and that the same snapshot produces the same page."""

import re
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse.queries.reader import open_snapshot
from flows.reporting.page.page import Page, make_page
from tests.report.html_page import parsed
from tests.report.snapshots import FIRST, rewritten

SECTIONS = ["attention", "causes", "freshness", "runs"]
ANALYSIS = ["engagement", "growth", "top", "hours", "cadence", "removed", "stories"]


@cache
def page(snapshot: Path, **chosen: Any) -> Page:  # noqa: ANN401 - options of make
    with open_snapshot(snapshot) as opened:
        return make_page(opened, **chosen, release="0.0.0")


def answer(snapshot: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(snapshot, read_only=True) as db:
        db.execute("SET TimeZone = 'UTC'")
        return db.execute(query).fetchall()


def table(html: str, caption: str) -> list[list[str]]:
    """Return the rows of the table with this caption, as text."""
    found = re.search(rf"<caption>{re.escape(caption)}.*?</caption>.*?<tbody>(.*?)</tbody>", html, re.DOTALL)
    assert found, caption
    rows = re.findall(r"<tr.*?>(.*?)</tr>", found[1], re.DOTALL)
    return [
        [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in rows
    ]


def sections(html: str) -> list[str]:
    return re.findall(r'<section id="(\w+)">', html)


def test_sections_for_operators_come_first_and_the_page_is_complete(snapshot: Path) -> None:
    report = page(snapshot)
    found = parsed(report.html)
    assert sections(report.html) == [*SECTIONS, *ANALYSIS]
    # The requests of a run take a few milliseconds.
    assert report.published_at.replace(microsecond=0) == FIRST + timedelta(days=2, minutes=15)
    assert "2026-03-03 02:15" in "".join(found.text)
    targets = {target for target in found.attributes("href") if target.startswith("#")}
    assert {target[1:] for target in targets} <= set(found.attributes("id"))
    assert len(report.html.encode()) < 300_000


def test_one_snapshot_makes_one_page(snapshot: Path, tmp_path: Path) -> None:
    # In another file with the rows in another order, and later.
    other = rewritten(snapshot, tmp_path / "other.duckdb", lambda _: None)
    assert page(snapshot).html == page(other).html


def test_the_page_sends_no_requests_and_runs_no_scripts(snapshot: Path) -> None:
    found = parsed(page(snapshot).html)
    names = {name for name, _ in found.tags}
    assert not names & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "form",
        "base",
        "image",
        "use",
        "foreignobject",
    }
    attributes = {name for _, given in found.tags for name in given}
    assert not {
        name for name in attributes if name.startswith("on") or name in {"src", "srcset", "style", "xlink:href"}
    }
    [policy] = [given["content"] for name, given in found.tags if name == "meta" and given.get("http-equiv")]
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")
    assert "url(" not in re.sub(r"url\(#\w+\)", "", page(snapshot).html)
    assert "@import" not in page(snapshot).html


def test_it_names_problems_that_need_a_person(snapshot: Path) -> None:
    report = page(snapshot)
    [(tokens,)] = answer(snapshot, "SELECT count(*) FROM expired_accounts")
    incomplete = answer(
        snapshot,
        "SELECT ig_username, correlation_id FROM run_outcomes JOIN accounts USING (account_id)"
        " WHERE outcome = 'denied' ORDER BY ALL",
    )
    assert tokens > 0
    assert len(incomplete) == 2
    assert len(table(report.html, "Accounts whose token expired")) == tokens
    rows = table(report.html, "2 scans not complete")
    assert sorted((row[0], row[-1]) for row in rows) == incomplete
    assert {row[2] for row in rows} == {"denied api_forbidden"}
    assert report.attention == report.html.count('<span class="tag action">') >= 2
    assert report.html.count("Full list: <code>gramhouse status</code>") == 1
    listed = "".join(parsed(report.html).text)
    assert f"{tokens} access token" in listed
    assert "2 scans denied (api_forbidden, correlation id " in listed
    [cause] = table(report.html, "Failures of the last 30 runs by cause")
    assert cause[0].startswith("denied api_forbidden")
    assert "Fix:" in cause[0]
    assert cause[1:3] == ["2", "2"]
    for _, trace in incomplete:
        assert trace in cause[-1]


def test_nothing_to_do_is_reported(snapshot: Path, tmp_path: Path) -> None:
    def calm(db: duckdb.DuckDBPyConnection) -> None:
        db.execute("UPDATE accounts SET status = 'active', token_expired_since = NULL")
        db.execute("UPDATE run_outcomes SET outcome = 'complete', error_code = NULL")
        db.execute("UPDATE completed_scans SET complete_at = (SELECT snapshot_at FROM published)")
        db.execute(
            "INSERT INTO completed_scans BY NAME SELECT 'media' AS resource, account_id, s AS surface,"
            " (SELECT snapshot_at FROM published) AS complete_at FROM accounts,"
            " (VALUES ('posts'), ('stories')) AS t(s) WHERE NOT EXISTS (FROM completed_scans AS w"
            " WHERE w.account_id = accounts.account_id AND w.surface = s)"
        )
        db.execute("DELETE FROM run_warnings")

    report = page(rewritten(snapshot, tmp_path / "calm.duckdb", calm))
    assert report.attention == 0
    assert "No action required." in report.html
    assert "No scan of the last 30 runs failed" in report.html
    assert ">100%</b>" in report.html


def test_accounts_that_were_never_scanned_are_not_fresh(snapshot: Path, tmp_path: Path) -> None:
    def never(db: duckdb.DuckDBPyConnection) -> None:
        db.execute("UPDATE accounts SET status = 'active', first_seen_at = snapshot_at FROM published")
        db.execute("DELETE FROM completed_scans")

    html = page(rewritten(snapshot, tmp_path / "never.duckdb", never)).html
    assert '<a href="#freshness" class="tile "><b>0%</b>' in html
    assert re.search(r"<p>0 of \d+ scans .* are fresh", html)
    assert {tuple(row[2:4]) for row in table(html, "The ten oldest")} == {("never", "never scanned")}


def test_runs_are_counted_as_they_were(snapshot: Path) -> None:
    rows = table(page(snapshot).html, "The last 30 runs")
    runs = answer(snapshot, "SELECT state, pages, added, changed FROM runs ORDER BY seq DESC")
    assert [(row[2], int(row[4].replace(",", "")), int(row[6].replace(",", ""))) for row in rows] == [
        run[:3] for run in runs
    ]
    assert rows[0][2] == "partial"
    assert "2 denied" in rows[0][11]


@pytest.mark.parametrize(
    ("kind", "selection", "synced"),
    [
        ("sync", None, {"posts", "stories"}),
        ("sync", "stories and posts", {"posts", "stories"}),
        ("sync", "stories", {"stories"}),
        ("sync", "posts", {"posts"}),
        ("backfill", "paper.market (stories, posts)", set()),
    ],
)
def test_only_a_sync_of_a_surface_shows_that_nothing_happened(
    snapshot: Path, tmp_path: Path, kind: str, selection: str | None, synced: set[str]
) -> None:
    day = "DATE '2026-03-02'"

    def nothing_found(db: duckdb.DuckDBPyConnection) -> None:
        db.execute(f"UPDATE runs SET kind = ?, selection = ? WHERE ended_at::DATE = {day}", [kind, selection])
        db.execute(f"DELETE FROM media_metrics WHERE observed_at::DATE = {day}")
        db.execute(f"DELETE FROM media WHERE published_at::DATE = {day}")
        db.execute(f"DELETE FROM stories_by_day WHERE day = {day}")
        db.execute(f"UPDATE media SET removed_at = NULL, removal = NULL WHERE removed_at::DATE = {day}")

    html = page(rewritten(snapshot, tmp_path / "quiet.duckdb", nothing_found), weeks=1).html
    [engagement] = [row for row in table(html, "Engagement by day") if "2026-03-02" in row[0]]
    assert engagement[1:] == ([*"000"] if "posts" in synced else ["no run", "no run", "0"])
    [stories] = [row for row in table(html, "Stories by day of publication") if "2026-03-02" in row[0]]
    assert stories[1:] == 4 * (["0"] if "stories" in synced else ["no run"])
    [removals] = re.findall(r'<svg [^>]*aria-label="Items found removed by day".*?</svg>', html, re.DOTALL)
    [tooltip] = re.findall(r"<title>Mon 2026-03-02\n?(.*?)</title>", removals, re.DOTALL)
    missing = [f"{surface}: no run" for surface in ("posts", "stories") if surface not in synced]
    assert tooltip == ("\n".join(missing) if synced else "no run")


@pytest.mark.parametrize("weeks", [1, 4])
def test_engagement_by_day_equals_the_view(snapshot: Path, tmp_path: Path, weeks: int) -> None:
    def some_in_future(db: duckdb.DuckDBPyConnection) -> None:
        db.execute("UPDATE media SET published_at = published_at + INTERVAL 10 YEARS WHERE media_id LIKE '%7'")

    snapshot = rewritten(snapshot, tmp_path / "future.duckdb", some_in_future)
    expected = answer(
        snapshot,
        "SELECT account_id, day, likes_gained, comments_gained FROM engagement_by_day"
        " WHERE likes_gained IS NOT NULL OR comments_gained IS NOT NULL ORDER BY ALL",
    )
    assert len(expected) > 10
    with open_snapshot(snapshot) as opened:
        make_page(opened, weeks=weeks, release="0.0.0")
        found = opened.query("SELECT account_id, day, likes, comments FROM gained ORDER BY ALL").rows
    assert found == expected


def test_the_growth_of_posts_equals_the_view(snapshot: Path, tmp_path: Path) -> None:
    asked = "SELECT account_id, ig_username FROM post_performance ORDER BY account_id LIMIT 1"
    [(account_id, name)] = answer(snapshot, asked)

    def hide_likes(db: duckdb.DuckDBPyConnection) -> None:
        db.execute("CREATE TEMP TABLE grown AS SELECT snapshot_at - INTERVAL 220 HOURS AS published_at FROM published")
        db.execute(
            "INSERT INTO media BY NAME SELECT ? AS account_id, ? AS ig_username, 'posts' AS surface, 'new' AS media_id,"
            " published_at, published_at + INTERVAL 216 HOURS AS last_seen_at, 300 AS like_count FROM grown",
            [account_id, name],
        )
        for hours, likes in ((5, 100), (20, None), (30, 150), (216, 300)):
            db.execute(
                "INSERT INTO media_metrics BY NAME SELECT ? AS account_id, 'posts' AS surface, 'new' AS media_id,"
                " 'like_count' AS metric, ? AS value, published_at + to_hours(?) AS observed_at FROM grown",
                [account_id, likes, hours],
            )

    snapshot = rewritten(snapshot, tmp_path / "grown.duckdb", hide_likes)
    expected = answer(
        snapshot,
        "SELECT strftime(published_at, '%Y-%m-%d %H:%M'), coalesce(value_24h::VARCHAR, ''),"
        " coalesce(value_7d::VARCHAR, '')"
        f" FROM post_growth WHERE metric = 'like_count' AND account_id = '{account_id}'",
    )
    rows = table(page(snapshot, accounts=(account_id,)).html, "Best posts of the last 28 days")
    found = {(row[3], *row[6:]) for row in rows}
    assert ("2026-02-21 22:15", "", "150") in found
    assert found <= set(expected)


def test_top_posts_are_relative_to_their_account(snapshot: Path) -> None:
    rows = table(page(snapshot).html, "Posts with the most likes relative")
    times = [float(row[3]) for row in rows]
    assert times == sorted(times, reverse=True)
    [(most,)] = answer(snapshot, "SELECT max(relative_likes) FROM post_performance WHERE median_likes >= 10")
    assert times[0] == round(most, 1)
    names = [row[0] for row in rows]
    assert max(map(names.count, names)) <= 3


def test_removed_posts_and_stories_are_listed(snapshot: Path, tmp_path: Path) -> None:
    def remove(db: duckdb.DuckDBPyConnection) -> None:
        db.execute("UPDATE media SET removed_at = last_seen_at, removal = 'removed' WHERE media_id LIKE '%7'")

    snapshot = rewritten(snapshot, tmp_path / "removed.duckdb", remove)
    html = page(snapshot).html
    [(removed,)] = answer(snapshot, "SELECT count(*) FROM media WHERE removal = 'removed'")
    assert removed
    assert len(table(html, "Most recently removed items")) == min(removed, 20)
    days = [row for row in table(html, "Stories by day of publication") if "no run" not in row]
    message = {row[0][4:]: [int(cell) for cell in row[1:]] for row in days}
    for day, *fates in answer(
        snapshot,
        "SELECT day, sum(live)::INT, sum(expired)::INT, sum(unconfirmed)::INT, sum(removed)::INT"
        " FROM stories_by_day GROUP BY day",
    ):
        assert message[str(day)] == fates


def test_a_correlation_id_that_several_scans_have_is_shown_once(snapshot: Path, tmp_path: Path) -> None:
    def share(db: duckdb.DuckDBPyConnection) -> None:
        db.execute("UPDATE run_outcomes SET correlation_id = 'SHARED' WHERE outcome = 'denied'")

    shared = rewritten(snapshot, tmp_path / "shared.duckdb", share)
    [cause] = table(page(shared).html, "Failures of the last 30 runs by cause")
    assert cause[-1] == "SHARED"


def test_every_chart_has_its_numbers_as_a_table(snapshot: Path) -> None:
    html = page(snapshot).html
    figures = re.findall(r"<figure>(.*?)</figure>", html, re.DOTALL)
    # Charts with the same axis share one table.
    without = [re.findall(r"<h3>(.*?)</h3>", found)[0] for found in figures if "<table>" not in found]
    shared = ["Outcomes by run", "Pages", "Duration", "Likes gained by day", "Comments gained by day"]
    assert without == [*shared, "Posts published by day", "How recent posts grew"]
    for caption in ("The last 30 runs", "Engagement by day", "Best posts of the last 28 days"):
        assert table(html, caption)


def test_one_account_alone(snapshot: Path) -> None:
    names = [name for (name,) in answer(snapshot, "SELECT ig_username FROM accounts ORDER BY ALL")]
    chosen = answer(snapshot, "SELECT ig_username, account_id FROM posting_cadence ORDER BY posts_28d DESC LIMIT 2")
    for key in (*chosen[0], f"@{chosen[0][0]}", chosen[0][1].upper()):
        html = page(snapshot, accounts=(key,)).html
        assert chosen[0][0] in html
        assert [name for name in names if f">{name}<" in html] == [chosen[0][0]]
    [(posts,)] = answer(
        snapshot,
        f"SELECT count(*) FROM media WHERE surface = 'posts' AND removed_at IS NULL AND ig_username = '{chosen[0][0]}'",
    )
    assert f"{posts} posts" in page(snapshot, accounts=(chosen[0][0],)).html


def test_surfaces_can_be_chosen(snapshot: Path) -> None:
    stories = page(snapshot, surfaces=("stories",)).html
    assert sections(stories) == [*SECTIONS, "removed", "stories"]
    assert "<td>posts</td>" not in stories
    assert "Only stories." in stories
    assert sections(page(snapshot, surfaces=("posts",)).html) == [*SECTIONS, *ANALYSIS[:-1]]


def test_an_empty_snapshot_makes_a_page(snapshot: Path, tmp_path: Path) -> None:
    def emptied(db: duckdb.DuckDBPyConnection) -> None:
        for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            if name != "published":
                db.execute(f'DELETE FROM "{name}"')

    report = page(rewritten(snapshot, tmp_path / "empty.duckdb", emptied))
    assert sections(report.html) == [*SECTIONS, *ANALYSIS]
    assert parsed(report.html).tags
    assert "No run yet." in report.html


def test_missing_values_do_not_break_the_page(snapshot: Path, tmp_path: Path) -> None:
    def hollow(db: duckdb.DuckDBPyConnection) -> None:
        db.execute("UPDATE media SET caption = NULL, permalink = NULL, like_count = NULL, published_at = NULL")
        db.execute("UPDATE runs SET ended_at = NULL, pages = NULL, items = NULL, added = NULL, changed = NULL")
        db.execute("UPDATE run_outcomes SET error_code = NULL, correlation_id = NULL, pages = NULL, items = NULL")
        db.execute("DELETE FROM completed_scans")

    report = page(rewritten(snapshot, tmp_path / "hollow.duckdb", hollow))
    assert sections(report.html) == [*SECTIONS, *ANALYSIS]
    assert "<td>never</td>" in report.html


def test_the_heat_map_has_the_hours_of_best_hour(snapshot: Path) -> None:
    html = page(snapshot).html
    drawn = re.findall(r'<td class="(h\d few|h\d|none)"', html)
    [(hours, few)] = answer(snapshot, "SELECT count(*), count(*) FILTER (posts < 5) FROM best_hour")
    found = (len(drawn), len(drawn) - drawn.count("none"), sum(each.endswith("few") for each in drawn))
    assert found == (7 * 24, hours, few)

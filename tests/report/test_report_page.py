"""What a reader of the HTML report sees."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse.queries.reader import open_snapshot
from flows.reporting.page import Page, make_page
from tests.report import html_page
from tests.snapshots import FIRST, rewritten

POSTS = ["engagement", "growth", "top-posts"]


@cache
def page(snapshot: Path, **chosen: Any) -> Page:  # noqa: ANN401 - options of make_page
    with open_snapshot(snapshot) as opened:
        return make_page(opened, **chosen)


@pytest.fixture
def changed(snapshot: Path, tmp_path: Path) -> Callable[[str], Page]:
    """Return a page of the snapshot after these statements."""
    return lambda sql: page(rewritten(snapshot, tmp_path / "changed.duckdb", lambda db: db.execute(sql)))


def answer(snapshot: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(snapshot, read_only=True) as db:
        return db.execute("SET TimeZone = 'UTC'").execute(query).fetchall()


def table(html: str, caption: str) -> list[list[str]]:
    """Return the rows of the table with this caption, as text."""
    found = re.search(rf"<caption>{re.escape(caption)}.*?</caption>.*?<tbody>(.*?)</tbody>", html, re.DOTALL)
    assert found, caption
    rows = re.findall(r"<tr>(.*?)</tr>", found[1], re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in cells]


def sections(html: str) -> list[str]:
    return re.findall(r'<section id="([\w-]+)"', html)


def test_what_requires_action_is_first_and_red_and_freshness_last(snapshot: Path) -> None:
    made = page(snapshot)
    assert sections(made.html) == ["attention", *POSTS, "changes", "freshness"]
    assert made.attention == 1
    [(tokens,)] = answer(snapshot, "SELECT count(*) FROM expired_accounts")
    text = html_page.Page(made.html).text
    assert f"{tokens} access tokens expired" in text
    assert "2 scans denied (api_forbidden, correlation id " in text
    denied = answer(
        snapshot,
        "SELECT ig_username, correlation_id FROM run_outcomes JOIN accounts USING (account_id)"
        " WHERE outcome = 'denied' ORDER BY ALL",
    )
    rows = table(made.html, "Scans that are not fresh")
    assert sorted((row[0], row[6]) for row in rows) == denied
    assert {tuple(row[2:6:2]) for row in rows} == {("fresh", "denied")}
    assert len(table(made.html, "Accounts whose token expired")) == tokens
    assert "<details open><summary><h2>Freshness" in made.html
    # The requests of a run take a few milliseconds.
    assert made.published_at.replace(microsecond=0) == FIRST + timedelta(days=2, minutes=15)


def test_a_healthy_snapshot_says_so_and_folds_its_freshness(changed: Callable[[str], Page]) -> None:
    made = changed("""
        UPDATE accounts SET status = 'active', token_expired_since = NULL;
        UPDATE run_outcomes SET outcome = 'complete', error_code = NULL;
        DELETE FROM completed_scans;
        INSERT INTO completed_scans BY NAME SELECT 'media' AS resource, account_id, surface, snapshot_at AS complete_at
            FROM accounts, published, (VALUES ('posts'), ('stories')) AS t(surface);
        DELETE FROM run_warnings""")
    assert (made.attention, "<h2>No action required</h2>" in made.html) == (0, True)
    assert "<b>100%</b>" in made.html
    assert "<details><summary><h2>Freshness" in made.html


def test_one_snapshot_makes_one_page_without_requests_and_scripts(snapshot: Path, tmp_path: Path) -> None:
    # In another file with the rows in another order, and later.
    html = page(snapshot).html
    assert html == page(rewritten(snapshot, tmp_path / "other.duckdb", lambda _: None)).html
    found = html_page.Page(html)
    forbidden = {"script", "link", "img", "iframe", "object", "embed", "form", "base", "image", "use", "foreignobject"}
    assert not forbidden & {name for name, _ in found.tags}
    names = {name for _, given in found.tags for name in given}
    assert not {name for name in names if name.startswith("on") or name in {"src", "srcset", "style", "xlink:href"}}
    [policy] = [given["content"] for name, given in found.tags if name == "meta" and given.get("http-equiv")]
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")
    assert "url(" not in re.sub(r"url\(#\w+\)", "", html)
    assert "@import" not in html
    targets = {target[1:] for target in found.attributes("href") if target.startswith("#")}
    assert targets <= set(found.attributes("id"))
    assert len(html.encode()) < 150_000


@pytest.mark.parametrize(
    ("unseen", "observed"),
    [
        ("false", {"posts", "stories"}),
        ("surface = 'posts'", {"stories"}),
        ("account_id <> (SELECT min(account_id) FROM run_outcomes WHERE account_id <> '')", set()),
    ],
    ids=["whole", "stories", "one account"],
)
def test_a_day_that_was_not_observed_is_a_gap_and_not_zero(
    changed: Callable[[str], Page], unseen: str, observed: set[str]
) -> None:
    html = changed(f"""
        DELETE FROM run_outcomes WHERE ended_at::DATE = '2026-03-02' AND {unseen};
        DELETE FROM media_metrics WHERE observed_at::DATE = '2026-03-02';
        DELETE FROM media WHERE published_at::DATE = '2026-03-02';
        DELETE FROM stories_by_day WHERE day = '2026-03-02'""").html
    [engagement] = [row for row in table(html, "Engagement by day") if "2026-03-02" in row[0]]
    assert engagement[1:] == ([*"000"] if "posts" in observed else ["not observed", "not observed", "0"])
    [stories] = [row for row in table(html, "Stories by day of publication") if "2026-03-02" in row[0]]
    assert stories[1:] == 4 * (["0"] if "stories" in observed else ["not observed"])


def test_numbers_are_those_of_the_views(snapshot: Path) -> None:
    html = page(snapshot).html
    days = answer(
        snapshot,
        "SELECT strftime(day, '%a %Y-%m-%d'), sum(likes_gained)::INT, sum(comments_gained)::INT,"
        " sum(posts_published)::INT FROM engagement_by_day"
        " WHERE day BETWEEN '2026-03-01' AND '2026-03-03' GROUP BY day ORDER BY day DESC",
    )
    found = [[row[0], *(int(each.replace(",", "")) for each in row[1:])] for row in table(html, "Engagement by day")]
    assert found == [list(day) for day in days]
    [(most,)] = answer(
        snapshot,
        "SELECT max(relative_likes) FROM post_performance AS p JOIN media USING (account_id, media_id)"
        " WHERE median_likes >= 10 AND removed_at IS NULL AND p.published_at >= '2026-02-04'",
    )
    top = table(html, "Posts with the most likes relative")
    times = [float(row[2]) for row in top]
    assert (times[0], times) == (round(most, 1), sorted(times, reverse=True))
    names = [row[0] for row in top]
    assert max(map(names.count, names)) <= 3
    runs = answer(snapshot, "SELECT state, pages, added FROM runs ORDER BY seq DESC")
    rows = table(html, "The last 30 runs")
    assert [(row[2], int(row[4]), int(row[6])) for row in rows] == runs
    by_account = "SELECT sum(likes_gained) FROM engagement_by_day GROUP BY account_id ORDER BY 1 DESC LIMIT 10"
    gained = [float(row[1].replace(",", "")) for row in table(html, "What each account gained")]
    assert gained == [likes for (likes,) in answer(snapshot, by_account)]


def test_accounts_and_surfaces_can_be_chosen(snapshot: Path) -> None:
    names = [name for (name,) in answer(snapshot, "SELECT ig_username FROM accounts ORDER BY ALL")]
    [(name, account_id)] = answer(
        snapshot, "SELECT ig_username, account_id FROM posting_cadence ORDER BY posts_28d DESC LIMIT 1"
    )
    for key in (name, account_id, f"@{name}", account_id.upper()):
        html = page(snapshot, accounts=(key,)).html
        assert [each for each in names if f">{each}<" in html] == [name]
    stories = page(snapshot, surfaces=("stories",)).html
    assert sections(stories) == ["attention", "changes", "freshness"]
    assert "Only stories." in stories
    assert not re.search(r"<bdi>posts</bdi>", stories)
    assert "Stories by day" not in page(snapshot, surfaces=("posts",)).html


def test_missing_rows_and_values_do_not_break_the_page(snapshot: Path, tmp_path: Path) -> None:
    hollow = """
        UPDATE media SET caption = NULL, permalink = NULL, like_count = NULL, published_at = NULL;
        UPDATE runs SET ended_at = NULL, pages = NULL, items = NULL, added = NULL, changed = NULL;
        UPDATE run_outcomes SET error_code = NULL, correlation_id = NULL, pages = NULL, items = NULL;
        DELETE FROM completed_scans"""
    html = page(rewritten(snapshot, tmp_path / "hollow.duckdb", lambda db: db.execute(hollow))).html
    assert sections(html) == ["attention", *POSTS, "changes", "freshness"]

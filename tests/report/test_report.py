"""What a reader of the HTML report sees, with texts of a snapshot as text only; and how commands and runs write it."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse.queries.reader import open_snapshot
from flows.reporting import page as made_by
from flows.reporting.page import MARK
from models.runs import RunState
from tests.api.listed import ListedApi
from tests.operator import run_here
from tests.runs import synced
from tests.snapshots import FIRST, rewritten

POSTS = ["engagement", "growth", "top-posts"]


class Parsed(HTMLParser):
    """The elements, attributes and text of a page, whose elements are properly nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags = list[tuple[str, dict[str, str | None]]]()
        self.text, self.comments, self._open = "", list[str](), list[str]()
        self.feed(html)
        self.close()
        assert self._open == []
        self.elements = {name for name, _ in self.tags}
        self.names = {name for _, given in self.tags for name in given}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def attributes(self, name: str) -> list[str]:
        """Return all values of an attribute."""
        return [str(found[name]) for _, found in self.tags if name in found]


@cache
def page(snapshot: Path, **chosen: Any) -> made_by.Page:  # noqa: ANN401 - options of make_page
    with open_snapshot(snapshot) as opened:
        return made_by.make_page(opened, **chosen)


Changed = Callable[..., made_by.Page]


@pytest.fixture
def changed(snapshot: Path, tmp_path: Path) -> Changed:
    """Return a page of the snapshot after these statements, and another change."""

    def change(sql: str, more: Callable[[duckdb.DuckDBPyConnection], object] = bool) -> made_by.Page:
        return page(rewritten(snapshot, tmp_path / "changed.duckdb", lambda db: (db.execute(sql), more(db))))

    return change


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
    assert (sections(made.html), made.attention) == (["attention", *POSTS, "changes", "freshness"], 1)
    [(tokens,)] = answer(snapshot, "SELECT count(*) FROM expired_accounts")
    text = Parsed(made.html).text
    assert f"{tokens} access tokens expired" in text
    assert "2 scans denied (api_forbidden, correlation id " in text
    denied = "SELECT ig_username, correlation_id FROM run_outcomes JOIN accounts USING (account_id)"
    rows = sorted(table(made.html, "Scans that are not fresh"))
    assert [(row[0], row[6]) for row in rows] == answer(snapshot, f"{denied} WHERE outcome = 'denied' ORDER BY ALL")
    assert {tuple(row[2:6:2]) for row in rows} == {("fresh", "denied")}
    assert len(table(made.html, "Accounts whose token expired")) == tokens
    assert "<details open><summary><h2>Freshness" in made.html
    # The requests of a run take a few milliseconds.
    assert made.published_at.replace(microsecond=0) == FIRST + timedelta(days=2, minutes=15)


def test_a_healthy_snapshot_says_so_and_folds_its_freshness(changed: Changed) -> None:
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


def test_one_snapshot_makes_one_page_without_requests_and_scripts(snapshot: Path, changed: Changed) -> None:
    # In another file with the rows in another order, and later.
    html = page(snapshot).html
    assert html == changed("").html
    found = Parsed(html)
    assert not found.elements & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert not found.elements & {"image", "use", "foreignobject"}
    assert not [name for name in found.names if name.startswith("on")]
    assert not found.names & {"src", "srcset", "style", "xlink:href"}
    [policy] = [given["content"] for name, given in found.tags if name == "meta" and given.get("http-equiv")]
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(r"url\((?!#\w+\))|@import", html)
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
def test_a_day_that_was_not_observed_is_a_gap_and_not_zero(changed: Changed, unseen: str, observed: set[str]) -> None:
    html = changed(f"""
        DELETE FROM run_outcomes WHERE ended_at::DATE = '2026-03-02' AND {unseen};
        DELETE FROM media_metrics WHERE observed_at::DATE = '2026-03-02';
        DELETE FROM media WHERE published_at::DATE = '2026-03-02';
        DELETE FROM stories_by_day WHERE day = '2026-03-02'""").html
    [engagement] = [row for row in table(html, "Engagement by day") if "2026-03-02" in row[0]]
    assert engagement[1:] == ([*"000"] if "posts" in observed else ["not observed", "not observed", "0"])
    [stories] = [row for row in table(html, "Stories by day of publication") if "2026-03-02" in row[0]]
    assert stories[1:] == 4 * (["0"] if "stories" in observed else ["not observed"])


def numbers(html: str, caption: str, *columns: int) -> list[tuple[float, ...]]:
    """Return these columns of a table as numbers."""
    return [tuple(float(row[each].replace(",", "")) for each in columns) for row in table(html, caption)]


def test_numbers_are_those_of_the_views(snapshot: Path) -> None:
    html = page(snapshot).html
    by_day = """SELECT sum(likes_gained), sum(comments_gained), sum(posts_published) FROM engagement_by_day
        WHERE day BETWEEN '2026-03-01' AND '2026-03-03' GROUP BY day ORDER BY day DESC"""
    assert numbers(html, "Engagement by day", 1, 2, 3) == answer(snapshot, by_day)
    days = [row[0] for row in table(html, "Engagement by day")]
    assert days == ["Tue 2026-03-03", "Mon 2026-03-02", "Sun 2026-03-01"]
    [(most,)] = answer(
        snapshot,
        "SELECT max(relative_likes) FROM post_performance AS p JOIN media USING (account_id, media_id)"
        " WHERE median_likes >= 10 AND removed_at IS NULL AND p.published_at >= '2026-02-04'",
    )
    times = numbers(html, "Posts with the most likes relative", 2)
    assert (times[0][0], times) == (round(most, 1), sorted(times, reverse=True))
    names = [row[0] for row in table(html, "Posts with the most likes relative")]
    assert max(map(names.count, names)) <= 3
    of_runs = "SELECT pages, added FROM runs ORDER BY seq DESC"
    assert numbers(html, "The last 30 runs", 4, 6) == answer(snapshot, of_runs)
    by_account = "SELECT sum(likes_gained) FROM engagement_by_day GROUP BY account_id ORDER BY 1 DESC LIMIT 10"
    assert numbers(html, "What each account gained", 1) == answer(snapshot, by_account)


def test_accounts_and_surfaces_can_be_chosen(snapshot: Path) -> None:
    names = [name for (name,) in answer(snapshot, "SELECT ig_username FROM accounts")]
    most = "SELECT ig_username, account_id FROM posting_cadence ORDER BY posts_28d DESC LIMIT 1"
    [(name, account_id)] = answer(snapshot, most)
    for key in (f"@{name}", account_id.upper()):
        html = page(snapshot, accounts=(key,)).html
        assert [each for each in names if f">{each}<" in html] == [name]
    stories = page(snapshot, surfaces=("stories",)).html
    assert sections(stories) == ["attention", "changes", "freshness"]
    assert ("Only stories." in stories, "<bdi>posts</bdi>" in stories) == (True, False)
    assert "Stories by day" not in page(snapshot, surfaces=("posts",)).html


def test_missing_rows_and_values_do_not_break_the_page(changed: Changed) -> None:
    html = changed("""
        UPDATE media SET caption = NULL, permalink = NULL, like_count = NULL, published_at = NULL;
        UPDATE runs SET ended_at = NULL, pages = NULL, items = NULL, added = NULL, changed = NULL;
        UPDATE run_outcomes SET error_code = NULL, correlation_id = NULL, pages = NULL, items = NULL;
        DELETE FROM completed_scans""").html
    assert sections(html) == ["attention", *POSTS, "changes", "freshness"]


OWNED = "document.documentElement.dataset.owned=1"
HOSTILE = (
    *(f"<script>{OWNED}</script>", f"</style></title></textarea></script><script>{OWNED}</script>"),
    *(f"<img src=x onerror={OWNED}>", f'"><svg onload="{OWNED}"><a href="', f"javascript:{OWNED}"),
    *(f'https://a.example/"onclick="{OWNED}', "<!-- --><![CDATA[ ]]> <?x ?> <!doctype html>"),
    *(f"&lt;script&gt;{OWNED}&lt;/script&gt; &#60;b&#62; &amp;amp;", "</bdi></td></tr></table></section>"),
    '<meta http-equiv=refresh content="0;url=https://evil.example">',
    "<style>*{background:url(https://evil.example/x.png)}</style>",
    "}} {{ }} ${x} %s {0} \\u003cscript\\u003e",
    "\u202egnp.exe\u2066 \u2028 \x1b[31m nul \x01 \x7f \ufeff",
)

# These values decide which rows are shown, so they are kept.
_KEPT = {"account_id", "surface", "media_id", "run_id", "status", "state", "kind", "outcome"}
_KEPT |= {"resource", "removal", "metric"}


INJECTION = """
    INSERT INTO run_warnings SELECT run_id, t.text, 1, t.text, t.text, false FROM runs, texts AS t;
    INSERT INTO quarantine BY NAME SELECT t.text AS reason, 'media' AS resource, '' AS account_id, 'posts' AS surface,
        t.text AS payload, t.text AS run_id, t.text AS correlation_id, p.snapshot_at AS seen_at,
        p.snapshot_at AS last_seen_at FROM texts AS t, published AS p;
    UPDATE fields SET last_type_change_at = (SELECT snapshot_at FROM published)"""


def hostile(db: duckdb.DuckDBPyConnection) -> None:
    """Replace every other text by a hostile one; one column gets all of them in turn."""
    db.execute("CREATE TEMP TABLE texts AS SELECT unnest($1) AS text", [HOSTILE])
    of_tables = "FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (database_name, table_name)"
    columns = f"SELECT table_name, column_name {of_tables} WHERE data_type = 'VARCHAR' AND database_name <> 'temp'"
    for table, column in db.execute(columns).fetchall():
        if column not in _KEPT:
            texts = f"(SELECT list(text) FROM texts)[rowid % {len(HOSTILE)} + 1]"
            db.execute(f'UPDATE "{table}" SET "{column}" = {texts}')
    db.execute(INJECTION)


def test_hostile_texts_add_no_element_and_no_attribute(snapshot: Path, changed: Changed) -> None:
    found, usual = Parsed(changed("", hostile).html), Parsed(page(snapshot).html)
    assert found.elements <= usual.elements
    assert found.names <= usual.names
    assert found.comments == usual.comments == [" gramhouse report "]
    assert all(href.startswith(("#", "https://a.example/")) for href in found.attributes("href"))
    for text in (f"<script>{OWNED}</script>", "&lt;script&gt;"):
        assert text in found.text
    assert not set(found.text) & {"\u202e", "\x1b", "\x01", "\u2028"}


def test_a_report_is_written_next_to_the_snapshot_or_to_a_named_file(snapshot: Path, tmp_path: Path) -> None:
    index, target = snapshot.with_name("report.html"), tmp_path / "new" / "folder" / "page.html"
    # An earlier report is replaced, and its mode is kept: a web server may read it.
    index.write_text(MARK)
    index.chmod(0o604)
    code, message, errors = run_here("report", "--snapshot", str(snapshot))
    assert (code, errors) == (0, "")
    assert str(index) in message
    assert "2026-03-03 02:15" in message
    assert index.read_text(encoding="utf-8").startswith(f"{MARK}<html")
    assert index.stat().st_mode & 0o777 == 0o604
    assert list(index.parent.glob(".report*")) == []
    document = json.loads(run_here("report", str(target), "--snapshot", str(snapshot), "--json")[1])
    assert (document["report"], document["report_bytes"]) == (str(target), target.stat().st_size)
    assert (document["exit_code"], document["published_at"][:10]) == (0, "2026-03-03")
    assert document["action_required"] > 0


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    """A folder with a folder and a file that are no reports, and are not changed."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    yield tmp_path
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["folder"], 2, "folder is not a gramhouse report and is not replaced. Fix: choose another file."),
        (["$snapshot", "--snapshot", "$snapshot"], 2, ".duckdb is not a gramhouse report and is not replaced. Fix:"),
        (["notes.txt/page.html"], 1, "notes.txt: File exists. Fix: check path, permissions and disk."),
        (["page.html", "--account", "none.here"], 2, "There is no account 'none.here' in the warehouse. "),
        (["page.html", "--snapshot", "none.duckdb"], 1, "There is no snapshot at none.duckdb yet"),
    ],
)
def test_bad_input_gets_one_line(
    snapshot: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(snapshot))
    found, printed, errors = run_here("report", *(str(snapshot) if each == "$snapshot" else each for each in arguments))
    assert (found, printed) == (code, "")
    [line] = errors.splitlines()
    assert message in line
    assert not (mine / "page.html").exists()


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["folder", "notes.txt/page.html"])
async def test_a_run_whose_report_fails_says_so_and_is_complete(mine: Path, said: list[str], name: str) -> None:
    found = await synced(mine, ListedApi(), report=mine / name)
    assert (found.state, found.report) == (RunState.COMPLETE, None)
    [line] = said
    assert re.match("The report was not updated: .*Fix: ", line)

"""Text of a snapshot is never interpreted as markup or script."""

from pathlib import Path

import duckdb

from connectors.warehouse.queries.reader import open_snapshot
from flows.reporting.page import make_page
from tests.report.html_page import Page
from tests.snapshots import rewritten

OWNED = "document.documentElement.dataset.owned=1"
HOSTILE = (
    f"<script>{OWNED}</script>",
    f"</style></title></textarea></script><script>{OWNED}</script>",
    f"<img src=x onerror={OWNED}>",
    f'"><svg onload="{OWNED}"><a href="',
    f"javascript:{OWNED}",
    f'https://a.example/"onclick="{OWNED}',
    "<!-- --><![CDATA[ ]]> <?x ?> <!doctype html>",
    f"&lt;script&gt;{OWNED}&lt;/script&gt; &#60;b&#62; &amp;amp;",
    '<meta http-equiv=refresh content="0;url=https://evil.example">',
    "<style>*{background:url(https://evil.example/x.png)}</style>",
    "}} {{ }} ${x} %s {0} \\u003cscript\\u003e",
    "\u202egnp.exe\u2066 \u2028 \x1b[31m nul \x01 \x7f \ufeff",
    "</bdi></td></tr></table></section>",
)

# These values decide which rows are shown, so they are kept.
_KEPT = {"account_id", "surface", "media_id", "run_id", "status", "state", "kind", "outcome"}
_KEPT |= {"resource", "removal", "metric"}


def hostile(db: duckdb.DuckDBPyConnection) -> None:
    """Replace every other text by a hostile one; one column gets all of them in turn."""
    db.execute("CREATE TEMP TABLE texts AS SELECT unnest($1) AS text", [HOSTILE])
    columns = db.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE data_type = 'VARCHAR' AND NOT internal"
        " AND database_name <> 'temp'"
    ).fetchall()
    for table, column in columns:
        if column not in _KEPT:
            texts = f"(SELECT list(text) FROM texts)[rowid % {len(HOSTILE)} + 1]"
            db.execute(f'UPDATE "{table}" SET "{column}" = {texts}')
    db.execute("INSERT INTO run_warnings SELECT run_id, t.text, 1, t.text, t.text, false FROM runs, texts AS t")
    db.execute(
        "INSERT INTO quarantine BY NAME SELECT t.text AS reason, 'media' AS resource, '' AS account_id,"
        " 'posts' AS surface, t.text AS payload, t.text AS run_id, t.text AS correlation_id, p.snapshot_at AS seen_at,"
        " p.snapshot_at AS last_seen_at FROM texts AS t, published AS p"
    )
    db.execute("UPDATE fields SET last_type_change_at = (SELECT snapshot_at FROM published)")


def test_hostile_texts_add_no_element_and_no_attribute(snapshot: Path, tmp_path: Path) -> None:
    with open_snapshot(rewritten(snapshot, tmp_path / "hostile.duckdb", hostile)) as opened:
        found = Page(make_page(opened).html)
    with open_snapshot(snapshot) as harmless:
        usual = Page(make_page(harmless).html)
    # Only the hostile report has code in a finding.
    assert {name for name, _ in found.tags} <= {name for name, _ in usual.tags}
    names = [{name for _, given in page.tags for name in given} for page in (found, usual)]
    assert names[0] <= names[1]
    assert found.comments == usual.comments == [" gramhouse report "]
    assert all(href.startswith(("#", "https://a.example/")) for href in found.attributes("href"))
    for text in (f"<script>{OWNED}</script>", "&lt;script&gt;"):
        assert text in found.text
    assert not set(found.text) & {"\u202e", "\x1b", "\x01", "\u2028"}

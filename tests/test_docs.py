"""The documents say what the program does: each command, setting, table and query of theirs is tried."""

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from connectors.sandbox.settings import SandboxSettings
from connectors.warehouse.storage.sql import statements
from docs.generate import dictionary, table_of_settings
from flows.cli.command_table import COMMANDS
from flows.cli.commands import demo
from flows.orchestration.serving import read_described
from models.views import views
from tests.snapshots import rewritten, snapshot_of

ROOT = Path(__file__).parents[1]
OPERATOR = (ROOT / "docs" / "operator.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
# What asks for trouble, and what asks for more posts than a small sandbox has.
MAY_BE_EMPTY = ("stale_accounts AS s", "posts >= 20", "observed <>")
ANALYST = (ROOT / "docs/analyst.md").read_text(encoding="utf-8")
QUERIES = list(dict.fromkeys(re.findall(r"```sql\n(.*?)```", README + ANALYST, re.DOTALL)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert f"| `gramhouse {command}" in (ROOT / "docs/commands.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "text"), [("settings.md", table_of_settings), ("data-dictionary.md", dictionary)])
def test_a_generated_page_agrees_with_the_declarations(page: str, text: Callable[[], str]) -> None:
    assert text() in (ROOT / "docs" / page).read_text(encoding="utf-8"), "run `make docs`"


@pytest.mark.parametrize("name", views())
def test_every_table_and_view_is_among_the_sql_examples(name: str) -> None:
    table = ANALYST[ANALYST.index("| table or view |") : ANALYST.index("Every table and column has a comment")]
    assert f"`{name}`" in table


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rig")
    # A query asks for the posts of the last 30 days. At 02:00 UTC, so that the hours of all posts are always the same.
    first_day = int(time.time()) // 86_400 * 86_400 - 46 * 3_600
    sandbox = SandboxSettings(accounts=12, posts=60, change_every=12, first_day=first_day)
    path = snapshot_of(folder, sandbox, range(2), sync_mode="incremental", page_size=10)
    with duckdb.connect(str(path), read_only=True) as db:
        outcomes = db.execute("SELECT DISTINCT outcome FROM freshness ORDER BY ALL").fetchall()
    # None of these is a failure.
    assert outcomes == [("complete",), ("recent",), ("skipped",)]
    return path


def test_the_example_of_sqlalchemy_answers(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"```python\n(.*?)```", ANALYST, re.DOTALL)
    # A copy, because DuckDB opens a file only once with other settings.
    own = shutil.copy(snapshot, tmp_path / "analytics.duckdb")
    exec(code.replace("data/analytics.duckdb", str(own)), {})
    with duckdb.connect(str(snapshot), read_only=True) as db:
        expected = db.execute(
            "SELECT m.ig_username, sum(like_count) FROM media AS m JOIN accounts AS a USING (account_id)"
            " WHERE m.removed_at IS NULL AND a.removed_at IS NULL GROUP BY ALL"
        ).fetchall()
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(f"{name} {likes}" for name, likes in expected)


@pytest.mark.parametrize("query", QUERIES, ids=[query.splitlines()[0][3:] for query in QUERIES])
def test_every_query_of_the_examples_and_the_questions_answers(query: str, snapshot: Path) -> None:
    with duckdb.connect(str(snapshot), read_only=True) as db:
        answer = db.execute(query)
        assert answer.description
        rows = answer.fetchall()
    if re.search("WHERE .*outcome (<>|NOT IN) ", query, re.DOTALL):
        assert rows == []
    elif not any(words in query for words in MAY_BE_EMPTY):
        assert rows


@pytest.mark.parametrize("words", ["sum(like_count)", "median(p.relative_likes)", "sum(likes_gained)", "LIMIT 4"])
def test_an_account_that_was_connected_again_is_counted_once(words: str, snapshot: Path, tmp_path: Path) -> None:
    def connect_again(db: duckdb.DuckDBPyConnection) -> None:
        db.execute(
            "CREATE TABLE again AS SELECT arg_max(account_id, like_count) AS account_id"
            " FROM media SEMI JOIN (FROM accounts WHERE removed_at IS NULL) USING (account_id) WHERE surface = 'posts'"
        )
        for table, more in (("accounts", ", now() AS removed_at"), ("media", "")):
            old = f"SELECT * REPLACE ('old' AS account_id{more}) FROM {table} SEMI JOIN again USING (account_id)"
            db.execute(f"INSERT INTO {table} {old}")

    [query] = [query for query in (*QUERIES, statements(demo.__name__)["question"]) if words in query]
    answers = []
    for path in (snapshot, rewritten(snapshot, tmp_path / "again.duckdb", connect_again)):
        with duckdb.connect(str(path), read_only=True) as db:
            answers.append(sorted(map(str, db.execute(query).fetchall())))
    assert answers[0] == answers[1]


def test_every_alert_and_every_state_of_a_run_is_explained() -> None:
    alerts = [automation["name"].removeprefix("gramhouse: ") for automation in read_described("automations.yaml")]
    assert len(alerts) > 5
    words = (*alerts, "Completed", "Failed", "Cancelled", "Crashed")
    assert [word for word in words if f"| {word} |" not in OPERATOR and f"`{word}`" not in OPERATOR] == []


@pytest.mark.parametrize("page", ["docs/reliability.md", "SECURITY.md"])
def test_every_test_that_is_named_for_a_promise_exists(page: str) -> None:
    named = re.findall(r"`(?:pytest )?((?:[\w/]+/)?test_\w+\.py)", (ROOT / page).read_text(encoding="utf-8"))
    folders = [ROOT, ROOT / "tests", ROOT / "tests" / "security"]
    assert len(named) > 20
    assert [name for name in named if not any((folder / name).is_file() for folder in folders)] == []


def test_every_image_exists() -> None:
    shown = re.findall(r"\]\((?:docs/)?(screenshots/[^)]+)\)", OPERATOR + ANALYST + README)
    assert len(shown) > 5
    assert [name for name in shown if not (ROOT / "docs" / name).is_file()] == []
